package dist

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// badPair finds two slots of which one cannot be repaired well without the other.
func badPair(t *testing.T, code *coded.Code) (int, int) {
	t.Helper()
	for a := range code.N() {
		for b := range code.N() {
			var fresh []int
			for s := range code.N() {
				if s != a && s != b {
					fresh = append(fresh, s)
				}
			}
			if _, _, amplification, err := code.Repair(a, fresh); a != b && err == nil && amplification > coded.MaxRepairAmplification {
				return a, b
			}
		}
	}
	t.Fatalf("%v: every repair is good", code)
	return 0, 0
}

// A layer whose lost slots could only be repaired badly is encoded anew, and a
// replay does the same.
func TestRebuild(t *testing.T) {
	noLeaks(t)
	spec := coded.Spec{Name: "trigonometric", N: 8, K: 6}
	layer := toyLayer("fc1", spec, 2, 12, 24)
	var record bytes.Buffer
	run := func(cl *cluster, m *toyModel, first, last int) [][]float32 {
		return cl.train(m, first, last)
	}
	m := newToyModel(layer, 1)
	a, b := badPair(t, m.code)
	cl := newCluster(t, CoordinatorConfig{Slots: 8, Record: NewRecorder(&record)})
	cl.start(0, 8)
	cl.place(m)
	want := run(cl, m, 1, 3)
	lost := []string{fmt.Sprintf("worker-%d", a+1), fmt.Sprintf("worker-%d", b+1)}
	for _, name := range lost {
		cl.kill(name)
	}
	want = append(want, run(cl, m, 4, 6)...)
	// Together, so that the first is not a donor to the second.
	for _, name := range lost {
		cl.add(name)
	}
	if r := cl.c.Stats().Repairs; r != 0 {
		t.Errorf("%d repairs although they amplify rounding too much", r)
	}
	want = append(want, run(cl, m, 7, 12)...)
	cl.awaitEach(StateRepaired, lost...)
	if s := cl.c.Stats(); s.Rebuilds != 1 || s.Repairs != 0 {
		t.Errorf("%d rebuilds and %d repairs, want one rebuild", s.Rebuilds, s.Repairs)
	}
	if err := cl.fetched(m); err != nil {
		t.Error(err)
	}
	if err := cl.c.Close(); err != nil {
		t.Fatal(err)
	}

	replay, err := ReadReplay(&record)
	if err != nil {
		t.Fatal(err)
	}
	again := newCluster(t, CoordinatorConfig{Slots: 8, Replay: replay})
	again.start(0, 8)
	m = newToyModel(layer, 1)
	again.place(m)
	if got := run(again, m, 1, 12); !slices.EqualFunc(want, got, equalBits) {
		t.Error("the replay is not the same to the bit")
	}
}

// Encoding anew from any sufficient set gives the states of the truth.
func TestReencode(t *testing.T) {
	m := newFC1()
	for _, set := range slices.Concat(subsets(6, 4), subsets(6, 5), subsets(6, 6)) {
		var have []coded.ShardState
		for _, slot := range set {
			state, err := m.state(slot)
			if err != nil {
				t.Fatal(err)
			}
			have = append(have, coded.ShardState{Slot: slot, State: state})
		}
		states, err := reencode(m.code, have)
		if err != nil {
			t.Fatal(err)
		}
		for slot := range states {
			want, err := m.state(slot)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				var f []float64
				for _, v := range want[i].Data {
					f = append(f, float64(v))
				}
				if d := distance(states[slot][i].Data, f); d > 2e-6 {
					t.Errorf("set %v: tensor %d of slot %d differs by %g", set, i, slot, d)
				}
			}
		}
		have[0].State = have[0].State[:1]
		if _, err := reencode(m.code, have); err == nil {
			t.Errorf("set %v: states of different lengths were encoded", set)
		}
	}
}
