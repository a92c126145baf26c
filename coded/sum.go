package coded

import (
	"sync"

	"github.com/coda-ml/coda/internal/kernel"
)

// terms gathers the terms of one linear combination of matrices that lie in
// wider ones. It is pooled, so that encoding and decoding allocate nothing in a
// steady state.
type terms struct {
	w      []float32
	xs     [][]float32 // from the first element of each matrix on
	widths []int
	// those that reach into the segment at hand
	segW  []float32
	segXs [][]float32
}

var termsPool = sync.Pool{New: func() any { return new(terms) }}

func newTerms() *terms { return termsPool.Get().(*terms) }

func (t *terms) free() {
	t.reset()
	clear(t.xs[:cap(t.xs)]) // the pool must not keep tensors alive
	clear(t.segXs[:cap(t.segXs)])
	termsPool.Put(t)
}

func (t *terms) reset() { t.w, t.xs, t.widths = t.w[:0], t.xs[:0], t.widths[:0] }

// add adds w times a matrix of so many columns. Terms that are 0 are left out.
func (t *terms) add(w float64, x []float32, width int) {
	if w != 0 && width > 0 {
		t.w, t.xs, t.widths = append(t.w, float32(w)), append(t.xs, x), append(t.widths, width)
	}
}

// sum writes the sum of the terms to a rows x cols matrix with row stride ldd;
// ldx is the row stride of the terms. A term with fewer columns counts as padded
// with zeros: the sum is made segment by segment, between the terms' ends.
func (t *terms) sum(dst []float32, ldd, rows, cols, ldx int) {
	if rows == 0 {
		return
	}
	for at := 0; at < cols; {
		end := cols
		t.segW, t.segXs = t.segW[:0], t.segXs[:0]
		for i, width := range t.widths {
			if width > at {
				end = min(end, width)
				t.segW, t.segXs = append(t.segW, t.w[i]), append(t.segXs, t.xs[i][at:])
			}
		}
		kernel.CombineRows(dst[at:], ldd, t.segW, t.segXs, ldx, rows, end-at)
		at = end
	}
}
