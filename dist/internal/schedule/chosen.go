package schedule

import "slices"

// Chosen hands out every chunk to the workers of a set of its own, and is ready
// with it when all of them have done it: nothing is left to chance.
type Chosen struct {
	sets    [][]int // by chunk, the workers
	workers int
	taken   []bool // chunk*workers + worker
	done    []bool // alike
	ranks   []Rank
	left    int // chunks that are not ready
}

// NewChosen returns the schedule of sets; Choose replaces them.
func NewChosen(sets [][]int, workers int) *Chosen {
	s := &Chosen{
		sets: sets, workers: workers,
		taken: make([]bool, len(sets)*workers), done: make([]bool, len(sets)*workers), ranks: make([]Rank, len(sets)),
	}
	s.Reset()
	return s
}

// Reset implements Schedule.
func (s *Chosen) Reset() {
	clear(s.taken)
	clear(s.done)
	clear(s.ranks)
	s.left = len(s.sets)
	for chunk := range s.sets {
		s.settle(chunk) // nobody is to do it
	}
}

// Choose replaces the sets; what has been done counts for the new ones. It returns
// the chunks that became ready by it.
func (s *Chosen) Choose(sets [][]int) (ready []int) {
	s.sets = sets
	for chunk := range sets {
		if s.settle(chunk) {
			ready = append(ready, chunk)
		}
	}
	return ready
}

// Set returns the workers of a chunk.
func (s *Chosen) Set(chunk int) []int { return s.sets[chunk] }

// Next implements Schedule.
func (s *Chosen) Next(worker int, _ bool, _ float64) (chunk int, after float64, ok bool) {
	chunk, ok = Next(s.ranks, Offset(worker, s.workers, len(s.ranks)), Over, func(chunk int) bool {
		return s.taken[chunk*s.workers+worker] || !slices.Contains(s.sets[chunk], worker)
	})
	return max(chunk, 0), 0, ok
}

// Start implements Schedule.
func (s *Chosen) Start(worker, chunk int, _ float64) {
	s.taken[chunk*s.workers+worker] = true
	s.ranks[chunk]++
}

// Finish implements Schedule.
func (s *Chosen) Finish(worker, chunk int, _ float64) (useful, ready bool) {
	if s.Ready(chunk) {
		return false, false
	}
	s.done[chunk*s.workers+worker] = true
	return true, s.settle(chunk)
}

// settle tells whether a chunk has just become ready.
func (s *Chosen) settle(chunk int) bool {
	if s.Ready(chunk) {
		return false
	}
	for _, w := range s.sets[chunk] {
		if !s.done[chunk*s.workers+w] {
			return false
		}
	}
	s.ranks[chunk] = Over
	s.left--
	return true
}

// Drop implements Schedule.
func (s *Chosen) Drop(worker, chunk int) {
	s.taken[chunk*s.workers+worker] = false
	if !s.Ready(chunk) {
		s.ranks[chunk]--
	}
}

// Ready implements Schedule.
func (s *Chosen) Ready(chunk int) bool { return s.ranks[chunk] == Over }

// Done implements Schedule.
func (s *Chosen) Done() bool { return s.left == 0 }
