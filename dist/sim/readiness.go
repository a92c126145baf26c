package sim

import (
	"github.com/coda-ml/coda/coded"
)

// Readiness answers, while results of a round arrive, which chunks need no more
// of them, and whether all is done. A chunk that is ready stays so.
type Readiness interface {
	Reset()
	// Add notes that a worker has done a chunk, which it does once.
	Add(worker, chunk int)
	Ready(chunk int) bool
	Done() bool
}

// count is ready with each chunk that enough workers have done: an MDS code on
// every chunk, without any arithmetic.
type count struct {
	need int
	have []int
	left int
}

func newCount(chunks, need int) *count { return &count{need: need, have: make([]int, chunks)} }

func (r *count) Reset() {
	clear(r.have)
	r.left = len(r.have)
}

func (r *count) Add(_, chunk int) {
	r.have[chunk]++
	if r.have[chunk] == r.need {
		r.left--
	}
}

func (r *count) Ready(chunk int) bool { return r.have[chunk] >= r.need }
func (r *count) Done() bool           { return r.left == 0 }

// total is ready when enough chunks are done in all, whichever they are.
type total struct{ need, have int }

func (r *total) Reset()         { r.have = 0 }
func (r *total) Add(int, int)   { r.have++ }
func (r *total) Ready(int) bool { return r.have >= r.need }
func (r *total) Done() bool     { return r.have >= r.need }

// copies is ready when some worker of each group has done its one chunk; worker w
// is of group w mod groups.
type copies struct {
	have []bool
	left int
}

func newCopies(groups int) *copies { return &copies{have: make([]bool, groups)} }

func (r *copies) Reset() {
	clear(r.have)
	r.left = len(r.have)
}

func (r *copies) Add(worker, _ int) {
	if group := worker % len(r.have); !r.have[group] {
		r.have[group] = true
		r.left--
	}
}

func (r *copies) Ready(int) bool { return r.left == 0 }
func (r *copies) Done() bool     { return r.left == 0 }

// tracked asks a tracker for every chunk: any code.
type tracked struct {
	chunks []*coded.Tracker
	left   int
}

func newTracked(code *coded.Code, chunks int) *tracked {
	r := &tracked{}
	for range chunks {
		r.chunks = append(r.chunks, coded.NewTracker(code))
	}
	return r
}

func (r *tracked) Reset() {
	for _, t := range r.chunks {
		t.Reset()
	}
	r.left = len(r.chunks)
}

func (r *tracked) Add(worker, chunk int) {
	t := r.chunks[chunk]
	was := t.Ready()
	t.Add(worker)
	if !was && t.Ready() {
		r.left--
	}
}

func (r *tracked) Ready(chunk int) bool { return r.chunks[chunk].Ready() }
func (r *tracked) Done() bool           { return r.left == 0 }

// results asks one tracker about the results that workers have, one after the
// other, of their tasks: a code that counts unfinished work.
type results struct {
	code    *coded.Code // whose tasks have several results
	tracker *coded.Tracker
}

func (r *results) Reset()                { r.tracker.Reset() }
func (r *results) Add(worker, chunk int) { r.tracker.Add(r.code.Chunk(worker, chunk)) }
func (r *results) Ready(int) bool        { return r.tracker.Ready() }
func (r *results) Done() bool            { return r.tracker.Ready() }
