package schedule

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

// limited returns the readiness of two chunks of a code with condition numbers up to a
// limit.
func limited(code *coded.Code, most float64) (*Limited, *Limit) {
	l := NewLimit(coded.NewDecoder(code, coded.DecoderConfig{MaxCond: most}), 2)
	return NewLimited(NewCovered(code, 2), l), l
}

// A chunk is ready when the set of those who have done it decodes within the limit,
// when all have, or when it decodes and is accepted; and what is expected agrees with
// what comes.
func TestLimitedByDefinition(t *testing.T) {
	code := codeOf(t, "cauchy", 6, 4)
	d := coded.NewDecoder(code, coded.DecoderConfig{MaxCond: math.Inf(1)})
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]float64{1.1, 2.4, 4, 10, 100}).Draw(t, "limit")
		r, limit := limited(code, most)
		var have [2][]int
		var accepted [2]bool
		want := func(chunk int, set []int) bool {
			w, err := d.Weights(set)
			return err == nil && (w.Cond <= most || len(set) == 6 || accepted[chunk])
		}
		for range rapid.IntRange(0, 16).Draw(t, "events") {
			chunk := rapid.IntRange(0, 1).Draw(t, "chunk")
			switch {
			case rapid.IntRange(0, 9).Draw(t, "accept") == 0:
				limit.Accept(chunk)
				accepted[chunk] = true
			case len(have[chunk]) == 6 || len(have[chunk]) > 0 && rapid.Bool().Draw(t, "remove"):
				r.Remove(have[chunk][0], chunk)
				have[chunk] = have[chunk][1:]
			default:
				w := rapid.IntRange(0, 5).Filter(func(w int) bool { return !slices.Contains(have[chunk], w) }).Draw(t, "worker")
				have[chunk] = append(have[chunk], w)
				r.Add(w, chunk)
			}
			for c := range have {
				if r.Ready(c) != want(c, have[c]) {
					t.Fatalf("chunk %d of %v, limit %g, accepted %v: ready %v", c, have[c], most, accepted[c], r.Ready(c))
				}
			}
			if r.Done() != (want(0, have[0]) && want(1, have[1])) {
				t.Fatalf("%v: done %v", have, r.Done())
			}
			checkWhen(t, r, chunk, have[chunk], func(set []int) bool { return want(chunk, set) })
		}
	})
}

// checkWhen lets those who have not done a chunk come one after the other.
func checkWhen(t *rapid.T, r *Limited, chunk int, have []int, ready func(set []int) bool) {
	set, at := append([]int(nil), have...), math.Inf(-1)
	var coming []Coming
	found := ready(set)
	for w := range 6 {
		if slices.Contains(have, w) {
			continue
		}
		coming = append(coming, Coming{w, float64(w)})
		if set = append(set, w); !found && ready(set) {
			at, found = float64(w), true
		}
	}
	if !found {
		at = math.Inf(1)
	}
	if got := r.When(chunk, coming); got != at {
		t.Fatalf("chunk %d of %v: ready at %v, want %v", chunk, have, got, at)
	}
}

// Who has room is given the chunk that awaits one more result before it is known that
// it does, and no further one when it has been accepted.
func TestPulledWithLimit(t *testing.T) {
	code := codeOf(t, "cauchy", 6, 4)
	limit := NewLimit(coded.NewDecoder(code, coded.DecoderConfig{MaxCond: 10}), 1)
	s := NewPulled(func() Covered { return NewLimited(NewCovered(code, 1), limit) }, 6, 1, nil)
	for w := range 4 {
		want(t, s, w, false, 0, 0, 0)
		s.Start(w, 0, 0)
	}
	want(t, s, 4, false, 0, 0, 0) // the first four would decode badly
	for w := range 4 {
		if _, ready := s.Finish(w, 0, 1); ready {
			t.Fatalf("ready with %d results", w+1)
		}
	}
	limit.Accept(0)
	s.Settle(0)
	s.Settle(0) // again: no change
	want(t, s, 4, true, 1, -1, 0)
	if !s.Done() {
		t.Error("not done")
	}
	limit.Reset()
	s.Reset()
	want(t, s, 4, false, 0, 0, 0)
}
