package dist

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

// What is recorded is read back.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 6)
		sets := rapid.SliceOfN(set, 1, 5).Draw(t, "sets")
		if rapid.Bool().Draw(t, "same") {
			for i := range sets {
				sets[i] = sets[0]
			}
		}
		weights := rapid.SliceOfN(rapid.Float64Range(-5, 5), 3, 3).Draw(t, "weights")
		step := rapid.IntRange(0, 1000).Draw(t, "step")
		var b bytes.Buffer
		r := NewRecorder(&b)
		r.round(7, "fc1", coded.Backward, step, sets)
		r.fetch("fc2", 8, sets[0])
		r.repair(&repair{layer: "fc1", slot: 4, version: 9, donors: []int{0, 2, 3}, weights: weights})
		r.rebuild("fc2", 11, sets[0])
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
		p, err := ReadReplay(&b)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.round(7, "fc1", coded.Backward, step)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 1 {
			got = slices.Repeat(got, len(sets))
		}
		if !reflect.DeepEqual(got, sets) {
			t.Fatalf("round has %v, recorded were %v", got, sets)
		}
		if f := p.fetch("fc2", 8, 0); !slices.Equal(f, sets[0]) {
			t.Fatalf("fetch has %v, recorded was %v", f, sets[0])
		}
		mends := p.repairs(9)
		if len(mends) != 1 || mends[0].Slot != 4 || !slices.Equal(mends[0].Weights, weights) || !slices.Equal(mends[0].Donors, []int{0, 2, 3}) {
			t.Fatalf("repairs are %+v", mends)
		}
		if !slices.Equal(p.rebuilt("fc2", 11), sets[0]) || p.rebuilt("fc1", 11) != nil || p.rebuilt("fc2", 10) != nil {
			t.Fatal("the rebuild is not as recorded")
		}
	})
}

func TestReplayNamesWhatDiffers(t *testing.T) {
	var b bytes.Buffer
	r := NewRecorder(&b)
	r.round(3, "fc1", coded.Forward, 5, [][]int{{0, 1}})
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := ReadReplay(&b)
	if err != nil {
		t.Fatal(err)
	}
	if sets, err := p.round(2, "fc1", coded.Forward, 4); err != nil || sets != nil {
		t.Errorf("a round that the recorded run gave up has %v, %v, want a free choice", sets, err)
	}
	_, err = p.round(3, "fc2", coded.Backward, 6)
	for _, want := range []string{"round 3", "backward", "fc2", "step 6", "forward", "fc1", "step 5"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another round than recorded gives %v, want %q in it", err, want)
		}
	}
	if _, err := p.round(4, "fc1", coded.Forward, 6); err == nil || !strings.Contains(err.Error(), "ends before round 4") {
		t.Errorf("a round after the record gives %v", err)
	}
}

// Fetches are found by layer and update, whatever else the recorded run fetched.
func TestReplayFindsFetches(t *testing.T) {
	var b bytes.Buffer
	r := NewRecorder(&b)
	r.fetch("fc1", 3, []int{0, 1})
	r.fetch("fc2", 3, []int{1, 2})
	r.fetch("fc1", 3, []int{0, 2})
	r.fetch("fc1", 5, []int{2, 3})
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := ReadReplay(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		layer       string
		update, nth int
		want        []int
	}{
		{"fc1", 3, 0, []int{0, 1}}, {"fc1", 3, 1, []int{0, 2}}, {"fc1", 3, 2, []int{0, 2}},
		{"fc2", 3, 0, []int{1, 2}}, {"fc1", 5, 0, []int{2, 3}}, {"fc1", 4, 0, nil}, {"fc3", 3, 0, nil},
	} {
		if got := p.fetch(c.layer, c.update, c.nth); !slices.Equal(got, c.want) {
			t.Errorf("fetch %d of layer %s after update %d has %v, want %v", c.nth, c.layer, c.update, got, c.want)
		}
	}
}

func TestBadRecords(t *testing.T) {
	const head = `{"record":"coda","version":1}` + "\n"
	for record, want := range map[string]string{
		"":                                    "empty",
		"hello\n":                             "line 1",
		`{"record":"coda","version":2}`:       "version 2",
		`{"round":1,"sets":[[0]]}`:            `want "coda"`,
		head + `{"round":1}`:                  "line 2",
		head + `{"round":1,"sets":[[-1]]}`:    "slots [-1]",
		head + `{"repair":1,"donors":[1]}`:    "neither",
		head + `{"fetch":1,"sets":[[1],[2]]}`: "neither",
		head + `{"rebuild":1,"update":3}`:     "neither",
		head + `{"round":1,"sets":[[99999]]}`: "slots [99999]",
		head + `{"novelty":1}`:                "novelty",
		head + `{"round":1,"layer":"` + strings.Repeat("x", maxRecordLine) + `"}`: "line 2",
	} {
		if _, err := ReadReplay(strings.NewReader(record)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("record %.60q gives %v, want an error with %q", record, err, want)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRecorderKeepsItsError(t *testing.T) {
	r := NewRecorder(failingWriter{})
	for range 2 {
		if err := r.Flush(); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("flush gives %v, want the writer's error", err)
		}
		r.fetch("fc1", 1, []int{0})
	}
}
