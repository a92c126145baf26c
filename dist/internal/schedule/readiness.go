package schedule

import (
	"math"

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

// Covered is a Readiness of chunks each of which is coded by itself.
type Covered interface {
	Readiness
	// Remove takes back an Add. It is for what workers are at work on: there a
	// chunk does not stay ready.
	Remove(worker, chunk int)
	// When returns the time at which a chunk will be ready if these results come,
	// sorted by their time: +Inf if never.
	When(chunk int, coming []Coming) float64
}

// Coming is a result that is expected.
type Coming struct {
	Worker int
	At     float64
}

// NewCovered returns the readiness of chunks of a code. It counts if it can.
func NewCovered(code *coded.Code, chunks int) Covered {
	if code.MDS() {
		return NewCount(chunks, code.Threshold())
	}
	return newTracked(code, chunks)
}

// Count is ready with each chunk that enough workers have done: an MDS code on
// every chunk, without any arithmetic.
type Count struct {
	need int
	have []int
	left int
}

// NewCount returns the readiness of chunks that need so many results each.
func NewCount(chunks, need int) *Count { return &Count{need: need, have: make([]int, chunks)} }

// Reset implements Readiness.
func (r *Count) Reset() {
	clear(r.have)
	r.left = len(r.have)
}

// Add implements Readiness.
func (r *Count) Add(_, chunk int) {
	r.have[chunk]++
	if r.have[chunk] == r.need {
		r.left--
	}
}

// Remove implements Covered.
func (r *Count) Remove(_, chunk int) {
	if r.have[chunk] == r.need {
		r.left++
	}
	r.have[chunk]--
}

// missing is the number of results that are not there.
func (r *Count) missing() (n int) {
	for _, have := range r.have {
		n += max(0, r.need-have)
	}
	return n
}

// Ready implements Readiness.
func (r *Count) Ready(chunk int) bool { return r.have[chunk] >= r.need }

// Done implements Readiness.
func (r *Count) Done() bool { return r.left == 0 }

// When implements Covered.
func (r *Count) When(chunk int, coming []Coming) float64 {
	switch missing := r.need - r.have[chunk]; {
	case missing > len(coming):
		return math.Inf(1)
	case missing <= 0:
		return math.Inf(-1)
	default:
		return coming[missing-1].At
	}
}

// Total is ready when enough chunks are done in all, whichever they are.
type Total struct{ need, have int }

// NewTotal returns the readiness of a round that needs so many results.
func NewTotal(need int) *Total { return &Total{need: need} }

// Reset implements Readiness.
func (r *Total) Reset() { r.have = 0 }

// Add implements Readiness.
func (r *Total) Add(int, int) { r.have++ }

// Ready implements Readiness.
func (r *Total) Ready(int) bool { return r.have >= r.need }

// Done implements Readiness.
func (r *Total) Done() bool { return r.have >= r.need }

// Copies is ready when some worker of each group has done its one chunk; worker w
// is of group w mod groups.
type Copies struct {
	have []bool
	left int
}

// NewCopies returns the readiness of so many groups.
func NewCopies(groups int) *Copies { return &Copies{have: make([]bool, groups)} }

// Reset implements Readiness.
func (r *Copies) Reset() {
	clear(r.have)
	r.left = len(r.have)
}

// Add implements Readiness.
func (r *Copies) Add(worker, _ int) {
	if group := worker % len(r.have); !r.have[group] {
		r.have[group] = true
		r.left--
	}
}

// Ready implements Readiness.
func (r *Copies) Ready(int) bool { return r.left == 0 }

// Done implements Readiness.
func (r *Copies) Done() bool { return r.left == 0 }

// tracked asks a tracker for every chunk: any code.
type tracked struct {
	chunks []*coded.Tracker
	left   int
	try    *coded.Tracker
	others []int
	code   *coded.Code
}

func newTracked(code *coded.Code, chunks int) *tracked {
	r := &tracked{try: coded.NewTracker(code), code: code}
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

// Remove adds the others anew: trackers cannot forget.
func (r *tracked) Remove(worker, chunk int) {
	t := r.chunks[chunk]
	if t.Ready() {
		r.left++
	}
	r.others = r.others[:0]
	for w := range r.code.N() {
		if w != worker && t.Has(w) {
			r.others = append(r.others, w)
		}
	}
	t.Reset()
	for _, w := range r.others {
		t.Add(w)
	}
	if t.Ready() {
		r.left--
	}
}

func (r *tracked) Ready(chunk int) bool { return r.chunks[chunk].Ready() }
func (r *tracked) Done() bool           { return r.left == 0 }

func (r *tracked) When(chunk int, coming []Coming) float64 {
	at := math.Inf(-1)
	r.try.CopyFrom(r.chunks[chunk])
	for i := 0; !r.try.Ready(); i++ {
		if i == len(coming) {
			return math.Inf(1)
		}
		r.try.Add(coming[i].Worker)
		at = coming[i].At
	}
	return at
}

// Together asks one tracker about the results that workers have of their tasks,
// which are their chunks: a code that counts unfinished work.
type Together struct {
	code    *coded.Code // whose tasks have several results
	tracker *coded.Tracker
}

// NewTogether returns the readiness of the results of all tasks of a code; single
// is its Chunks.
func NewTogether(code, single *coded.Code) *Together {
	return &Together{code, coded.NewTracker(single)}
}

// Reset implements Readiness.
func (r *Together) Reset() { r.tracker.Reset() }

// Add implements Readiness.
func (r *Together) Add(worker, chunk int) { r.tracker.Add(r.code.Chunk(worker, chunk)) }

// Ready implements Readiness.
func (r *Together) Ready(int) bool { return r.tracker.Ready() }

// Done implements Readiness.
func (r *Together) Done() bool { return r.tracker.Ready() }
