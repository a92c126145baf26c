package schedule

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

func codeOf(t interface{ Fatal(...any) }, name string, n, k int) *coded.Code {
	code, err := coded.New(coded.Spec{Name: name, N: n, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func pulled(chunks, workers, need int) *Pulled {
	return NewPulled(func() Covered { return NewCount(chunks, need) }, workers, chunks, nil)
}

// want checks what a schedule gives a worker; chunk -1 stands for nothing.
func want(t *testing.T, s Schedule, worker int, idle bool, now float64, chunk int, after float64) {
	t.Helper()
	got, wait, ok := s.Next(worker, idle, now)
	if !ok {
		got = -1
	}
	if got != chunk || math.Abs(wait-after) > 1e-9 {
		t.Errorf("at %v worker %d is given chunk %d, or is to ask again after %v; want %d, %v", now, worker, got, wait, chunk, after)
	}
}

// Workers spread over the chunks from their own offsets.
func TestPulledOrder(t *testing.T) {
	s := pulled(4, 4, 2)
	var order []int
	for range 2 {
		for w := range 4 {
			chunk, _, ok := s.Next(w, false, 0)
			if !ok {
				t.Fatalf("nothing for worker %d", w)
			}
			s.Start(w, chunk, 0)
			order = append(order, chunk)
		}
	}
	if want := []int{0, 1, 2, 3, 1, 2, 3, 0}; !slices.Equal(order, want) {
		t.Errorf("chunks were given in the order %v, want %v", order, want)
	}
	// Every chunk has enough cover; who loses its chunks opens them again.
	want(t, s, 2, false, 0, -1, 0)
	s.Drop(0, 0)
	want(t, s, 2, false, 0, 0, 0)
}

// An idle worker doubles up on what is expected later than it would be done, and
// on nothing else.
func TestDoublingUp(t *testing.T) {
	s := pulled(4, 3, 1)
	for w, chunk := range []int{0, 1, 2} {
		s.Start(w, chunk, 0)
	}
	s.Start(1, 3, 0) // in its queue
	s.Finish(0, 0, 1)
	s.Finish(1, 1, 1) // now it begins 3, and is expected to take 1 again
	// Worker 2 has not finished anything yet: after 1 it is expected at 2. Worker 0
	// needs 1, with the margin 1.25.
	want(t, s, 0, false, 1, -1, 0)
	want(t, s, 0, true, 1, -1, 0.25) // then worker 2 is late
	want(t, s, 0, true, 1.25, 2, 0)
	s.Start(0, 2, 1.25)
	// Worker 1 is idle: chunk 2 is expected at 2.25 from worker 0, so it waits for
	// that to be late.
	if _, ready := s.Finish(1, 3, 1.5); !ready {
		t.Error("chunk 3 is not ready")
	}
	if _, after, ok := s.Next(1, true, 1.5); ok || after <= 0 {
		t.Errorf("worker 1 is to double up on what worker 0 has just begun (%v), or to ask again after %v", ok, after)
	}
	want(t, s, 1, true, 4, 2, 0)
	if useful, ready := s.Finish(0, 2, 4.5); !useful || !ready || !s.Done() {
		t.Errorf("useful %v, ready %v, done %v after the last chunk", useful, ready, s.Done())
	}
	if useful, ready := s.Finish(2, 2, 5); useful || ready {
		t.Error("a late result is of use")
	}
	want(t, s, 1, true, 5, -1, 0)
}

// Workers whose times vary from chunk to chunk are given more time before they are
// late, in later rounds as well; steady workers are not.
func TestHabits(t *testing.T) {
	habits := NewHabits(3)
	s := NewPulled(func() Covered { return NewCount(16, 1) }, 3, 16, habits)
	for range 4 {
		s.Reset()
		for chunk := range 8 {
			now := float64(2 * chunk)
			s.Start(0, chunk, now) // steady
			s.Finish(0, chunk, now+1)
			s.Start(1, chunk+8, now) // takes 1 and 2 in turn
			s.Finish(1, chunk+8, now+1+float64(chunk%2))
		}
	}
	if h := habits.workers[0]; math.Abs(h.mean-1) > 1e-9 || h.spread > 1e-9 {
		t.Errorf("a steady worker has the mean %v and the spread %v, want 1 and 0", h.mean, h.spread)
	}
	varying := habits.workers[1]
	if math.Abs(varying.mean-1.5) > 0.1 || math.Abs(varying.spread-1.0/3) > 0.1 {
		t.Errorf("a worker that takes 1 or 2 has the mean %v and the spread %v, want about 1.5 and 1/3", varying.mean, varying.spread)
	}
	if h := habits.workers[2]; h != (habit{}) {
		t.Errorf("of a worker that has done nothing this is known: %+v", h)
	}
	s = NewPulled(func() Covered { return NewCount(2, 1) }, 3, 2, habits)
	for worker, late := range []float64{1, varying.mean * (1 + patience*varying.spread)} {
		s.Reset()
		s.Start(worker, 0, 0)
		s.Start(2, 1, 0)
		s.Finish(2, 1, 0.1) // and would need as long for chunk 0
		if _, after, ok := s.Next(2, true, 0.95*late); ok || after <= 0 {
			t.Errorf("worker %d is late from %v on: its chunk is given again before (%v), or is never to be (after %v)", worker, late, ok, after)
		}
		if chunk, _, ok := s.Next(2, true, 1.05*late); !ok || chunk != 0 {
			t.Errorf("worker %d is late since %v, and its chunk is not given again", worker, late)
		}
	}
}

// A chunk that lies in the queue of a slow worker is taken over at once.
func TestStealingFromAQueue(t *testing.T) {
	s := pulled(3, 2, 1)
	s.Start(0, 0, 0)
	s.Start(1, 1, 0)
	s.Start(1, 2, 0)
	s.Finish(0, 0, 1)
	s.Finish(1, 1, 4) // and needs 4 for chunk 2
	want(t, s, 0, true, 4, 2, 0)
	s.Start(0, 2, 4)
	if _, ready := s.Finish(0, 2, 5); !ready {
		t.Error("chunk 2 is not ready")
	}
	// Without any knowledge of speeds, idle workers double up.
	s = pulled(1, 2, 1)
	s.Start(0, 0, 0)
	want(t, s, 1, true, 0, 0, 0)
}

func TestInOrder(t *testing.T) {
	s := NewInOrder(NewCount(3, 2), 3, func(int) int { return 3 })
	for w := range 2 {
		for chunk := range 2 {
			want(t, s, w, false, 0, chunk, 0)
			s.Start(w, chunk, 0)
		}
	}
	s.Finish(0, 0, 1)
	s.Drop(0, 1)
	want(t, s, 0, true, 1, 1, 0) // as before
	if _, ready := s.Finish(1, 0, 1); !ready || !s.Ready(0) {
		t.Error("chunk 0 is not ready")
	}
	want(t, s, 2, true, 1, 1, 0) // it comes too late for chunk 0
}

func TestChosen(t *testing.T) {
	s := NewChosen([][]int{{0, 1}, {1, 2}}, 3)
	want(t, s, 0, true, 0, 0, 0)
	want(t, s, 2, true, 0, 1, 0)
	s.Start(2, 1, 0)
	want(t, s, 2, true, 0, -1, 0)
	s.Drop(2, 1)
	want(t, s, 2, true, 0, 1, 0)
	s.Start(2, 1, 0)
	s.Finish(2, 1, 1)
	if ready := s.Choose([][]int{{0, 1}, {2}}); !slices.Equal(ready, []int{1}) {
		t.Errorf("chunks %v became ready, want 1", ready)
	}
	for _, w := range s.Set(0) {
		s.Start(w, 0, 2)
		s.Finish(w, 0, 3)
	}
	if useful, ready := s.Finish(2, 1, 4); useful || ready || !s.Done() {
		t.Errorf("useful %v, ready %v, done %v at the end", useful, ready, s.Done())
	}
}

// A chunk without workers is nobody's: all results together decode without it.
func TestChosenForNobody(t *testing.T) {
	s := NewChosen([][]int{{}, {1}}, 2)
	for range 2 {
		s.Reset()
		if !s.Ready(0) || s.Ready(1) || s.Done() {
			t.Fatalf("ready %v and %v, done %v before anyone has begun", s.Ready(0), s.Ready(1), s.Done())
		}
		s.Start(1, 1, 0)
		if _, ready := s.Finish(1, 1, 1); !ready || !s.Done() {
			t.Fatal("not done with the only chunk that is somebody's")
		}
	}
}

// The results of a code whose unfinished work counts decode together, if each
// worker's are its first ones.
func TestTogether(t *testing.T) {
	code, err := coded.New(coded.Spec{Name: "universally-decodable", N: 4, K: 6, Load: 3})
	if err != nil {
		t.Fatal(err)
	}
	single, err := code.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	s := NewInOrder(NewTogether(code, single), 4, func(int) int { return 3 })
	for range 2 {
		s.Reset()
		for i, worker := range []int{2, 0, 2, 2, 3, 0} {
			chunk, _, ok := s.Next(worker, true, float64(i))
			if !ok || s.Done() || s.Ready(chunk) {
				t.Fatalf("after %d results worker %d is given chunk %d, %v; done %v", i, worker, chunk, ok, s.Done())
			}
			s.Start(worker, chunk, float64(i))
			if useful, ready := s.Finish(worker, chunk, float64(i)); !useful || ready != (i == 5) {
				t.Fatalf("result %d is useful %v, ready %v", i+1, useful, ready)
			}
		}
		if _, _, ok := s.Next(1, true, 6); ok || !s.Done() {
			t.Fatal("six results are not enough")
		}
	}
}

// Counting and tracking agree, also when what was added is taken back, and tell
// alike when a chunk will be ready.
func TestCoveredAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		counted, tracked := NewCount(2, k), newTracked(codeOf(t, "trigonometric", n, k), 2)
		counted.Reset()
		tracked.Reset()
		added := map[[2]int]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			cell := [2]int{rapid.IntRange(0, n-1).Draw(t, "worker"), rapid.IntRange(0, 1).Draw(t, "chunk")}
			for _, r := range []Covered{counted, tracked} {
				if added[cell] {
					r.Remove(cell[0], cell[1])
				} else {
					r.Add(cell[0], cell[1])
				}
			}
			added[cell] = !added[cell]
			var coming []Coming
			for w := range n {
				if !added[[2]int{w, cell[1]}] {
					coming = append(coming, Coming{w, float64(w)})
				}
			}
			coming = coming[:rapid.IntRange(0, len(coming)).Draw(t, "coming")]
			if a, b := counted.When(cell[1], coming), tracked.When(cell[1], coming); a != b {
				t.Fatalf("chunk %d is ready at %v and %v", cell[1], a, b)
			}
			if counted.Ready(cell[1]) != tracked.Ready(cell[1]) || counted.Done() != tracked.Done() {
				t.Fatalf("ready %v and %v, done %v and %v", counted.Ready(cell[1]), tracked.Ready(cell[1]), counted.Done(), tracked.Done())
			}
		}
	})
}

// A copy of a block that is coming already makes nothing ready earlier.
func TestWhenOfReplication(t *testing.T) {
	r := NewCovered(codeOf(t, "replication", 4, 2), 1)
	r.Add(0, 0)
	if at := r.When(0, []Coming{{2, 1}, {3, 2}, {1, 3}}); at != 2 {
		t.Errorf("ready at %v, want 2, when the other block comes", at)
	}
	if at := r.When(0, []Coming{{2, 1}}); !math.IsInf(at, 1) {
		t.Errorf("ready at %v, want never", at)
	}
	r.Add(1, 0)
	if at := r.When(0, nil); !math.IsInf(at, -1) {
		t.Errorf("ready at %v, want already", at)
	}
}

// What is taken back from a worker that works in order comes before the rest, and
// what it has done is not given again.
func TestInOrderAfterDrop(t *testing.T) {
	s := NewInOrder(NewCount(5, 2), 2, func(int) int { return 5 })
	for chunk := range 4 {
		want(t, s, 0, false, 0, chunk, 0)
		s.Start(0, chunk, 0)
	}
	s.Finish(0, 1, 1)
	s.Drop(0, 2)
	s.Drop(0, 0)
	s.Drop(0, 2) // again: no change
	want(t, s, 0, false, 1, 0, 0)
	s.Start(0, 0, 1)
	want(t, s, 0, false, 1, 2, 0)
	for range 2 { // by others
		s.Readiness.Add(1, 2)
	}
	want(t, s, 0, false, 1, 4, 0)
	s.Start(0, 4, 1)
	want(t, s, 0, true, 1, -1, 0)
	s.Reset()
	want(t, s, 0, false, 2, 0, 0)
}
