package dist

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

func slotsOf(states []coded.ShardState) (slots []int) {
	for _, s := range states {
		slots = append(slots, s.Slot)
	}
	return slots
}

// All who are there give their states; whoever is silent is not waited for long,
// and whoever is lost not at all.
func TestFetchAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 3)
		cl.settle("fc1")
		want := func(after time.Duration, slots ...int) {
			t.Helper()
			began := time.Now()
			states, err := cl.c.FetchAll(cl.ctx(), "fc1")
			if err != nil {
				t.Fatal(err)
			}
			if got := slotsOf(states); !slices.Equal(got, slots) || time.Since(began) != after {
				t.Fatalf("states of slots %v after %v, want %v after %v", got, time.Since(began), slots, after)
			}
			for _, s := range states {
				truth := toyState(m.code, s.Slot, m.in, m.out, m.w)
				if d := distance(s.State[0].Data, widened(truth[0].Data)); d > toyTolerance {
					t.Errorf("slot %d differs by %g", s.Slot, d)
				}
			}
		}
		want(0, 0, 1, 2, 3, 4, 5)
		cl.freeze("worker-3")
		want(fetchHedge, 0, 1, 3, 4, 5)
		cl.thaw("worker-3")
		cl.kill("worker-5")
		cl.settle("fc1")
		want(0, 0, 1, 2, 3, 5)
	})
}

func widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// A layer may be placed anew between two steps, with what its shards decode to; a
// replay, with more workers, compares the same slots.
func TestFetchAllAndPlaceAnewInReplay(t *testing.T) {
	noLeaks(t)
	var record bytes.Buffer
	run := func(cl *cluster) (ys [][]float32, slots []int) {
		m := newFC1()
		cl.place(m)
		ys = cl.train(m, 1, 4)
		states, err := cl.c.FetchAll(cl.ctx(), "fc1")
		if err != nil {
			t.Fatal(err)
		}
		anew, err := reencode(m.code, states)
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.c.Place(cl.ctx(), m.layer, func(slot int) ([]coded.Tensor, error) { return anew[slot], nil }); err != nil {
			t.Fatal(err)
		}
		return append(ys, cl.train(m, 5, 8)...), slotsOf(states)
	}
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Record: NewRecorder(&record)})
	cl.start(0, 5)
	want, slots := run(cl)
	if err := cl.c.Close(); err != nil {
		t.Fatal(err)
	}
	replay, err := ReadReplay(&record)
	if err != nil {
		t.Fatal(err)
	}
	again := newCluster(t, CoordinatorConfig{Slots: 6, Replay: replay})
	again.start(0, 6)
	got, replayed := run(again)
	if !slices.Equal(slots, replayed) || !slices.EqualFunc(want, got, equalBits) {
		t.Errorf("the replay compares slots %v, recorded were %v, and its products are the same to the bit: %v", replayed, slots, slices.EqualFunc(want, got, equalBits))
	}
}
