package coded

import "sync"

// scratch gathers the terms of one linear combination. It is pooled, so that
// encoding and decoding allocate nothing in a steady state.
type scratch struct {
	w  []float32
	xs [][]float32
	// the terms that reach into the segment at hand
	segW  []float32
	segXs [][]float32
}

var scratchPool = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch {
	s := scratchPool.Get().(*scratch)
	s.reset()
	return s
}

func (s *scratch) free() {
	clear(s.xs[:cap(s.xs)]) // the pool must not keep tensors alive
	clear(s.segXs[:cap(s.segXs)])
	scratchPool.Put(s)
}

func (s *scratch) reset() { s.w, s.xs = s.w[:0], s.xs[:0] }

// add adds the term w*x. Terms that are zero are left out.
func (s *scratch) add(w float64, x []float32) {
	if w != 0 && len(x) > 0 {
		s.w, s.xs = append(s.w, float32(w)), append(s.xs, x)
	}
}

// combine writes the sum of the terms to dst. A term shorter than dst counts as
// padded with zeros: the sum is made segment by segment, between the ends.
func (s *scratch) combine(dst []float32) {
	for at := 0; at < len(dst); {
		end := len(dst)
		s.segW, s.segXs = s.segW[:0], s.segXs[:0]
		for i, x := range s.xs {
			if len(x) > at {
				end = min(end, len(x))
				s.segW, s.segXs = append(s.segW, s.w[i]), append(s.segXs, x[at:])
			}
		}
		for i, x := range s.segXs {
			s.segXs[i] = x[:end-at]
		}
		combine(dst[at:end], s.segW, s.segXs)
		at = end
	}
}

// combine computes dst = sum_i w[i]*xs[i] over slices of equal length, from left
// to right.
func combine(dst []float32, w []float32, xs [][]float32) {
	clear(dst)
	for i, x := range xs {
		f := w[i]
		for j, v := range x {
			dst[j] += f * v
		}
	}
}
