package schedule

import (
	"math"

	"github.com/coda-ml/coda/coded"
)

// Limit says when the results of a chunk that decode are good enough: when the
// condition number of their set is within what a decoder allows, or when they have
// been accepted as they are. It is for one round at a time.
type Limit struct {
	decoder  *coded.Decoder
	accepted []bool // by chunk
}

// NewLimit returns the limit of a round of so many chunks: that of the decoder, which
// keeps what it knows of sets and may be shared.
func NewLimit(d *coded.Decoder, chunks int) *Limit {
	return &Limit{decoder: d, accepted: make([]bool, chunks)}
}

// Reset begins a new round.
func (l *Limit) Reset() { clear(l.accepted) }

// Accept makes what there is of a chunk good enough if it decodes. A schedule must
// be told by its Settle.
func (l *Limit) Accept(chunk int) { l.accepted[chunk] = true }

// Limited is a Covered whose chunks are ready when their results decode and are good
// enough, or everybody has given one.
type Limited struct {
	Covered
	limit   *Limit
	workers int
	has     []bool // chunk*workers + worker
	within  []bool // by chunk: all that has been done is good enough
	set     []int
}

// NewLimited returns the readiness of chunks that are ready without a limit when
// covered says so. Several may share a limit.
func NewLimited(covered Covered, l *Limit) *Limited {
	workers, chunks := l.decoder.Code().N(), len(l.accepted)
	r := &Limited{Covered: covered, limit: l, workers: workers, has: make([]bool, chunks*workers), within: make([]bool, chunks)}
	r.Reset()
	return r
}

// Reset implements Readiness.
func (r *Limited) Reset() {
	r.Covered.Reset()
	clear(r.has)
	for chunk := range r.within {
		r.judge(chunk)
	}
}

// Add implements Readiness.
func (r *Limited) Add(worker, chunk int) {
	r.Covered.Add(worker, chunk)
	r.note(worker, chunk, true)
}

// Remove implements Covered.
func (r *Limited) Remove(worker, chunk int) {
	r.Covered.Remove(worker, chunk)
	r.note(worker, chunk, false)
}

func (r *Limited) note(worker, chunk int, there bool) {
	r.has[chunk*r.workers+worker] = there
	r.judge(chunk)
}

// judge looks at a chunk whose set has changed.
func (r *Limited) judge(chunk int) {
	r.within[chunk] = r.Covered.Ready(chunk) && r.good(r.of(chunk))
}

// of returns the workers that have done a chunk.
func (r *Limited) of(chunk int) []int {
	r.set = r.set[:0]
	for w := range r.workers {
		if r.has[chunk*r.workers+w] {
			r.set = append(r.set, w)
		}
	}
	return r.set
}

// good tells whether nothing better than a set that decodes is to be waited for.
func (r *Limited) good(set []int) bool {
	if len(set) == r.workers {
		return true
	}
	_, err := r.limit.decoder.Weights(set)
	return err == nil
}

// Ready implements Readiness.
func (r *Limited) Ready(chunk int) bool {
	return r.within[chunk] || r.limit.accepted[chunk] && r.Covered.Ready(chunk)
}

// Done implements Readiness.
func (r *Limited) Done() bool {
	if !r.Covered.Done() {
		return false
	}
	for chunk := range r.within {
		if !r.Ready(chunk) {
			return false
		}
	}
	return true
}

// When implements Covered.
func (r *Limited) When(chunk int, coming []Coming) float64 {
	at := r.Covered.When(chunk, coming)
	if math.IsInf(at, 1) || r.within[chunk] || r.limit.accepted[chunk] {
		return at
	}
	set := r.of(chunk)
	for i := 0; ; i++ {
		if i == len(coming) || coming[i].At > at {
			if r.good(set) {
				return at
			}
			if i == len(coming) {
				return math.Inf(1)
			}
			at = coming[i].At
		}
		set = append(set, coming[i].Worker)
		r.set = set
	}
}
