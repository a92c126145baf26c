package schedule

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// speculative gives each of n workers its chunk at 0.
func speculative(n int, rule Speculation) *Speculative {
	s := NewSpeculative(func() Covered { return NewCount(n, 1) }, n, n, rule)
	s.Reset()
	for w := range n {
		s.Start(w, w, 0)
	}
	return s
}

// What is late goes to one idle worker after another.
func TestSpeculative(t *testing.T) {
	s := NewSpeculative(func() Covered { return NewCount(5, 1) }, 5, 5, Speculation{0.6, 1.5})
	for round := range 2 {
		s.Reset()
		for w := range 5 {
			want(t, s, w, true, 0, w, 0)
			s.Start(w, w, 0)
			want(t, s, w, false, 0, -1, 0) // a chunk is all that it is given at a time
		}
		s.Finish(0, 0, 1)
		s.Finish(1, 1, 2)
		want(t, s, 0, true, 9, -1, 0) // two of five are done
		s.Finish(2, 2, 9)
		// The median of 1, 2 and 9 is 2: at 3 both others would have been late.
		want(t, s, 2, true, 9, 3, 0)
		s.Start(2, 3, 9)
		want(t, s, 0, true, 9, 4, 0)
		s.Start(0, 4, 9)
		want(t, s, 1, true, 9, -1, 3)
		want(t, s, 1, true, 11.5, -1, 0.5)
		want(t, s, 1, true, 12, 3, 0)
		if useful, ready := s.Finish(2, 3, 12); !useful || !ready {
			t.Errorf("round %d: the backup is useful %v, and chunk 3 ready %v", round, useful, ready)
		}
		if useful, ready := s.Finish(3, 3, 12.5); useful || ready {
			t.Errorf("round %d: what was backed up is useful %v", round, useful)
		}
		want(t, s, 3, true, 12.5, -1, 0.25) // of 1, 2, 3 and 9 it is 2.5
		want(t, s, 3, true, 12.75, 4, 0)
	}
}

// answer finishes all chunks but that of a frozen worker, -1 for nobody, after times
// that differ by less than the rule's multiple, and checks that nothing is given out
// again meanwhile. It returns the first and the last time.
func answer(t *rapid.T, s *Speculative, frozen int) (first, last float64) {
	now := 1.0
	for w := range s.workers {
		if w == frozen {
			continue
		}
		s.Finish(w, w, now)
		for idle := range w + 1 {
			if chunk, _, ok := s.Next(idle, true, now); ok {
				t.Fatalf("worker %d repeats chunk %d at %v, the first was done at 1", idle, chunk, now)
			}
		}
		last = now
		now += (s.rule.Multiple - now) * rapid.Float64Range(0, 0.9).Draw(t, "further")
	}
	return 1, last
}

// However the times of workers differ by less than the multiple, nothing is done twice.
func TestNoBackupByChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Speculation{rapid.Float64Range(0, 1).Draw(t, "quantile"), rapid.Float64Range(1.01, 3).Draw(t, "multiple")}
		s := speculative(rapid.IntRange(1, 8).Draw(t, "workers"), rule)
		if answer(t, s, -1); !s.Done() {
			t.Fatal("everybody has answered, and the round is not done")
		}
	})
}

// What a frozen worker has is done by one of the others as soon as it is late.
func TestFrozenWorkerIsBackedUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Speculation{rapid.Float64Range(0, 0.5).Draw(t, "quantile"), rapid.Float64Range(1.01, 3).Draw(t, "multiple")}
		n := rapid.IntRange(2, 8).Draw(t, "workers")
		s, frozen := speculative(n, rule), rapid.IntRange(0, n-1).Draw(t, "frozen")
		first, last := answer(t, s, frozen)
		idle := (frozen + 1) % n
		_, after, ok := s.Next(idle, true, last)
		due := last + after
		if ok || due < rule.Multiple*first-1e-9 || due > rule.Multiple*last+1e-9 {
			t.Fatalf("chunk %d is late at %v (%v), the others took %v to %v", frozen, due, ok, first, last)
		}
		if chunk, _, ok := s.Next(idle, true, due); !ok || chunk != frozen {
			t.Fatalf("worker %d is given chunk %d (%v) at %v, want %d", idle, chunk, ok, due, frozen)
		}
		s.Start(idle, frozen, due)
		for w := range n {
			if chunk, _, ok := s.Next(w, true, due); ok {
				t.Fatalf("worker %d is given chunk %d at %v as well", w, chunk, due)
			}
		}
		if s.Finish(idle, frozen, due+1); !s.Done() {
			t.Fatal("the backup does not end the round")
		}
	})
}

// A backup that is lost leaves its chunk as late as it was; one that nobody has is
// given like any other.
func TestSpeculativeDrop(t *testing.T) {
	s := speculative(3, Speculation{0.5, 1.5})
	s.Finish(0, 0, 1)
	s.Finish(1, 1, 1)
	want(t, s, 0, true, 1, -1, 0.5)
	s.Start(0, 2, 1.5)
	want(t, s, 1, true, 2, -1, 1)
	s.Drop(0, 2)
	want(t, s, 1, true, 2, 2, 0)
	s.Drop(2, 2)
	want(t, s, 2, true, 2, 2, 0)
	if got := s.median(); got != 1 {
		t.Errorf("the median is %v, want 1", got)
	}
}

func TestSpeculationIsValid(t *testing.T) {
	if !DefaultSpeculation.Valid() {
		t.Errorf("%+v is not valid", DefaultSpeculation)
	}
	nan, inf := math.NaN(), math.Inf(1)
	for _, r := range []Speculation{{-0.1, 2}, {1.1, 2}, {nan, 2}, {0.5, 0.9}, {0.5, nan}, {0.5, inf}} {
		if r.Valid() {
			t.Errorf("%+v is valid", r)
		}
	}
}
