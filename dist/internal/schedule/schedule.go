package schedule

import "slices"

// Schedule decides during a round what workers do. Times are seconds from any
// origin that lasts for the round, and never decrease. One goroutine uses it.
type Schedule interface {
	// Reset begins a new round.
	Reset()
	// Next returns the chunk that a worker should do next, which it has not begun
	// before, if there is one. A worker is idle that has nothing left to do. If
	// there is nothing yet for one, but may be although no result comes, after
	// says in how much time to ask again; else it is 0.
	Next(worker int, idle bool, now float64) (chunk int, after float64, ok bool)
	// Start notes that a worker was given a chunk.
	Start(worker, chunk int, now float64)
	// Finish notes that a worker has done a chunk that it was given. It tells
	// whether decoding uses the result, and whether the results that there are
	// have just become enough for the chunk.
	Finish(worker, chunk int, now float64) (useful, ready bool)
	// Drop takes back that a worker was given a chunk, which it has not done and
	// may be given again.
	Drop(worker, chunk int)
	// Ready tells whether there are enough results for a chunk: who has not begun
	// it is told not to.
	Ready(chunk int) bool
	// Done tells whether the round has what it needs.
	Done() bool
}

// finish adds a result to what there is.
func finish(r Readiness, worker, chunk int) (useful, ready bool) {
	if r.Ready(chunk) {
		return false, false
	}
	r.Add(worker, chunk)
	return true, r.Ready(chunk)
}

// InOrder lets every worker do its own chunks one after the other, up to those of
// which there are enough. Nobody waits for anybody: uncoded, replicated and plain
// MDS products, according to the readiness.
type InOrder struct {
	Readiness
	next   []int   // by worker: those before have been given
	back   [][]int // by worker: chunks that were taken back
	chunks func(worker int) int
}

// NewInOrder returns the schedule of workers that have so many chunks each.
func NewInOrder(r Readiness, workers int, chunks func(worker int) int) *InOrder {
	s := &InOrder{Readiness: r, next: make([]int, workers), back: make([][]int, workers), chunks: chunks}
	s.Reset()
	return s
}

// Reset implements Schedule.
func (s *InOrder) Reset() {
	s.Readiness.Reset()
	clear(s.next)
	for w := range s.back {
		s.back[w] = s.back[w][:0]
	}
}

// Next implements Schedule.
func (s *InOrder) Next(worker int, _ bool, _ float64) (chunk int, after float64, ok bool) {
	for _, chunk := range s.back[worker] {
		if !s.Ready(chunk) {
			return chunk, 0, true
		}
	}
	for chunk = s.next[worker]; chunk < s.chunks(worker); chunk++ {
		if !s.Ready(chunk) {
			return chunk, 0, true
		}
	}
	return 0, 0, false
}

// Start implements Schedule.
func (s *InOrder) Start(worker, chunk int, _ float64) {
	if i, found := slices.BinarySearch(s.back[worker], chunk); found {
		s.back[worker] = slices.Delete(s.back[worker], i, i+1)
		return
	}
	s.next[worker] = chunk + 1
}

// Finish implements Schedule.
func (s *InOrder) Finish(worker, chunk int, _ float64) (useful, ready bool) {
	return finish(s.Readiness, worker, chunk)
}

// Drop implements Schedule.
func (s *InOrder) Drop(worker, chunk int) {
	if i, found := slices.BinarySearch(s.back[worker], chunk); !found {
		s.back[worker] = slices.Insert(s.back[worker], i, chunk)
	}
}
