package coded

import (
	"fmt"

	"github.com/coda-ml/coda/internal/kernel"
)

// Combiner encodes and decodes on several goroutines. Every element that is read
// passes through the processor once, however many coded blocks are made of it. The
// results have the same bits whatever the pool.
type Combiner struct {
	Pool *kernel.Pool // nil means the caller's goroutine
}

// EncodeRows computes coded blocks of the row blocks of x, those of all tasks or of
// some: dst[i] = sum_j g[i][j] * x[block j, ...]. x has p.Total rows, every dst
// p.Size.
func (c Combiner) EncodeRows(dst []Tensor, g [][]float64, x Tensor, p Partition) error {
	return c.encode("encode rows", dst, g, x, p, 0)
}

// EncodeColumns computes coded blocks of the column blocks of x:
// dst[i] = sum_j g[i][j] * x[:, block j, ...]. x has p.Total columns, every dst
// p.Size.
func (c Combiner) EncodeColumns(dst []Tensor, g [][]float64, x Tensor, p Partition) error {
	return c.encode("encode columns", dst, g, x, p, 1)
}

func (c Combiner) encode(what string, dst []Tensor, g [][]float64, x Tensor, p Partition, axis int) error {
	if len(dst) != len(g) {
		return fmt.Errorf("coded: %s: %d results for %d rows of coefficients", what, len(dst), len(g))
	}
	s := newSums()
	defer s.free()
	lines, width := 0, 0
	for i, d := range dst {
		if err := checkCut(what, x, p, axis, len(g[i])); err != nil {
			return err
		}
		if !fits(d, x.Shape, axis) || d.Shape[axis] != p.Size {
			return shapeError(fmt.Sprintf("%s: result%s", what, number(i, len(dst))), d, withSize(x.Shape, axis, p.Size), "")
		}
		lines, width = size(x.Shape[:axis]), size(x.Shape[axis+1:])
		s.dst.add(d.Data, p.Size*width)
		s.rows = append(s.rows, g[i])
	}
	if lines == 0 {
		return nil
	}
	for j := range p.K {
		lo, hi := p.Bounds(j)
		s.xs.add(x.Data[lo*width:], (hi-lo)*width)
	}
	s.compute(c.Pool, lines, p.Size*width, p.Total*width)
	return nil
}

// number names one of several.
func number(i, of int) string {
	if of == 1 {
		return ""
	}
	return fmt.Sprintf(" %d", i)
}

// DecodeRows is the function DecodeRows.
func (c Combiner) DecodeRows(dst Tensor, d [][]float64, results []Tensor, p Partition, at int) error {
	return c.decode("decode rows", dst, d, results, p, 0, at)
}

// DecodeColumns is the function DecodeColumns.
func (c Combiner) DecodeColumns(dst Tensor, d [][]float64, results []Tensor, p Partition, at int) error {
	return c.decode("decode columns", dst, d, results, p, 1, at)
}

func (c Combiner) decode(what string, dst Tensor, d [][]float64, results []Tensor, p Partition, axis, at int) error {
	chunk, err := checkDecode(what, dst, d, results, p, axis, at)
	if err != nil || chunk == 0 || len(dst.Data) == 0 {
		return err
	}
	s := newSums()
	defer s.free()
	lines, width := size(dst.Shape[:axis]), size(dst.Shape[axis+1:])
	for j, row := range d {
		lo, hi := chunkBounds(p, j, at, chunk)
		s.dst.add(dst.Data[lo*width:], (hi-lo)*width)
		s.rows = append(s.rows, row)
	}
	for _, x := range results {
		s.xs.add(x.Data, chunk*width)
	}
	s.compute(c.Pool, lines, p.Total*width, chunk*width)
	return nil
}
