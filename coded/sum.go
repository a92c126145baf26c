package coded

import (
	"sync"

	"github.com/coda-ml/coda/internal/kernel"
)

// sums gathers linear combinations of the same matrices, all of which lie in
// wider ones. It is pooled, so that encoding and decoding allocate nothing in a
// steady state.
type sums struct {
	dst, xs dataBlocks
	rows    [][]float64 // for each dst the weight of every x
	// those that reach into the segment at hand
	segDst, segXs [][]float32
	segRows       [][]float64
	weights       []float64 // of segRows
}

// dataBlocks are matrices with their numbers of columns, each from its first
// element on.
type dataBlocks struct {
	data   [][]float32
	widths []int
}

var sumsPool = sync.Pool{New: func() any { return new(sums) }}

func newSums() *sums { return sumsPool.Get().(*sums) }

func (s *sums) free() {
	s.reset()
	clear(s.segDst[:cap(s.segDst)]) // the pool must not keep tensors alive
	clear(s.segXs[:cap(s.segXs)])
	sumsPool.Put(s)
}

func (s *sums) reset() {
	s.dst.reset()
	s.xs.reset()
	clear(s.rows)
	s.rows = s.rows[:0]
}

// one adds a result that is one row.
func (s *sums) one(dst []float32, row []float64) {
	s.dst.add(dst, len(dst))
	s.rows = append(s.rows, row)
}

func (b *dataBlocks) reset() {
	clear(b.data)
	b.data, b.widths = b.data[:0], b.widths[:0]
}

func (b *dataBlocks) add(data []float32, width int) {
	b.data, b.widths = append(b.data, data), append(b.widths, width)
}

// widest returns the largest number of columns.
func (b *dataBlocks) widest() int {
	most := 0
	for _, w := range b.widths {
		most = max(most, w)
	}
	return most
}

// end returns the least number of columns above at, if it is below end.
func (b *dataBlocks) end(at, end int) int {
	for _, w := range b.widths {
		if w > at {
			end = min(end, w)
		}
	}
	return end
}

// from appends the matrices that have more than at columns, from that one on.
func (b *dataBlocks) from(at int, to [][]float32) [][]float32 {
	for i, w := range b.widths {
		if w > at {
			to = append(to, b.data[i][at:])
		}
	}
	return to
}

// compute writes the sums, of matrices with so many rows and row strides ldd and
// ldx. An x with fewer columns than a sum counts as padded with zeros: the sums are
// made segment by segment, between the matrices' ends. Weights that are 0 are left
// out.
func (s *sums) compute(p *kernel.Pool, rows, ldd, ldx int) {
	if rows == 0 {
		return
	}
	for at, cols := 0, s.dst.widest(); at < cols; {
		end := s.xs.end(at, s.dst.end(at, cols))
		s.segDst, s.segXs = s.dst.from(at, s.segDst[:0]), s.xs.from(at, s.segXs[:0])
		s.segment(at)
		kernel.CombineAll(p, s.segDst, ldd, s.segRows, s.segXs, ldx, rows, end-at)
		at = end
	}
}

// segment takes the weights of those that reach into the segment at a column.
func (s *sums) segment(at int) {
	s.segRows, s.weights = s.segRows[:0], s.weights[:0]
	for _, row := range s.rows {
		for j, w := range s.xs.widths {
			if w > at {
				s.weights = append(s.weights, row[j])
			}
		}
	}
	k := len(s.segXs)
	for i, w := range s.dst.widths {
		if w > at {
			s.segRows = append(s.segRows, s.weights[i*k:(i+1)*k])
		}
	}
}
