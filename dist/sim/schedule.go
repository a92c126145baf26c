package sim

import "github.com/coda-ml/coda/dist/internal/pull"

// Schedule decides during a round what workers do. It is a state machine without
// clock or randomness; one goroutine uses it.
type Schedule interface {
	// Reset begins a new round.
	Reset()
	// Next returns the chunk that a worker should do next, which it has not begun
	// before, if there is one. A worker is idle that has nothing left to do.
	Next(worker int, idle bool) (chunk int, ok bool)
	// Start notes that a worker was given a chunk.
	Start(worker, chunk int)
	// Finish notes that a worker has done a chunk that it was given. It tells
	// whether decoding uses the result, and whether the results that there are
	// have just become enough for the chunk.
	Finish(worker, chunk int) (useful, ready bool)
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

// inOrder lets every worker do its own chunks one after the other, up to those of
// which there are enough.
type inOrder struct {
	Readiness
	next   []int // by worker
	chunks func(worker int) int
}

func newInOrder(r Readiness, workers int, chunks func(worker int) int) *inOrder {
	return &inOrder{Readiness: r, next: make([]int, workers), chunks: chunks}
}

func (s *inOrder) Reset() {
	s.Readiness.Reset()
	clear(s.next)
}

func (s *inOrder) Next(worker int, _ bool) (chunk int, ok bool) {
	for chunk = s.next[worker]; chunk < s.chunks(worker); chunk++ {
		if !s.Ready(chunk) {
			return chunk, true
		}
	}
	return 0, false
}

func (s *inOrder) Start(worker, chunk int) { s.next[worker] = chunk + 1 }

func (s *inOrder) Finish(worker, chunk int) (useful, ready bool) {
	return finish(s.Readiness, worker, chunk)
}

// pulled hands chunks out by the rule of package pull, as the coordinator does.
// A chunk whose cover is enough is given again to workers that would be idle,
// but not before a part of all chunks is ready.
type pulled struct {
	Readiness
	open    Readiness // of what is done or being done
	cover   []int
	ranks   []pull.Rank
	taken   []uint64 // by worker, words bits each: the chunks that it was given
	words   int
	workers int
	ready   int // chunks
	thin    int // chunks whose cover is not enough
	double  int // how many must be ready before chunks are given twice
}

func newPulled(readiness func() Readiness, workers, chunks int, double float64) *pulled {
	words := (chunks + 63) / 64
	return &pulled{
		Readiness: readiness(), open: readiness(), cover: make([]int, chunks), ranks: make([]pull.Rank, chunks),
		taken: make([]uint64, workers*words), words: words, workers: workers, double: int(double * float64(chunks)),
	}
}

func (s *pulled) Reset() {
	s.Readiness.Reset()
	s.open.Reset()
	clear(s.cover)
	clear(s.ranks)
	clear(s.taken)
	s.ready, s.thin = 0, len(s.ranks)
}

func (s *pulled) Next(worker int, idle bool) (chunk int, ok bool) {
	limit := pull.Enough
	if idle && s.ready >= s.double {
		limit = pull.Over
	}
	if limit == pull.Enough && s.thin == 0 {
		return 0, false
	}
	taken := s.taken[worker*s.words : (worker+1)*s.words]
	return pull.Next(s.ranks, pull.Offset(worker, s.workers, len(s.ranks)), limit, func(chunk int) bool {
		return taken[chunk>>6]>>(chunk&63)&1 != 0
	})
}

func (s *pulled) Start(worker, chunk int) {
	s.taken[worker*s.words+chunk>>6] |= 1 << (chunk & 63)
	s.cover[chunk]++
	s.open.Add(worker, chunk)
	before := s.ranks[chunk]
	s.ranks[chunk] = pull.RankOf(s.cover[chunk], s.open.Ready(chunk))
	if before < pull.Enough && s.ranks[chunk] >= pull.Enough {
		s.thin--
	}
}

func (s *pulled) Finish(worker, chunk int) (useful, ready bool) {
	useful, ready = finish(s.Readiness, worker, chunk)
	if ready {
		s.ranks[chunk] = pull.Over
		s.ready++
	}
	return useful, ready
}
