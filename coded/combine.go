package coded

import (
	"fmt"
	"slices"
)

// Encoding and decoding of float32 tensors with coefficients that were computed
// in float64. A tensor is cut into blocks along its first dimension ("rows") or
// its second ("columns"); further dimensions go along, so that blocks of
// channels of an image batch are columns. Blocks are of equal size, the missing
// end of the last one being zeros (see Blocks).

// Encode computes dst = sum_j row[j] * blocks[j]. A block may have fewer rows
// (elements along the first dimension) than dst, and then counts as padded with
// zeros, or be empty; the other dimensions must be equal.
func Encode(dst Tensor, row []float64, blocks []Tensor) error {
	if len(row) != len(blocks) {
		return fmt.Errorf("coded: encode: %d coefficients for %d blocks", len(row), len(blocks))
	}
	if err := checkTensor("encode: result", dst, 1); err != nil {
		return err
	}
	s := newScratch()
	defer s.free()
	for j, b := range blocks {
		if len(b.Data) == 0 {
			continue
		}
		if err := checkTensor(fmt.Sprintf("encode: block %d", j), b, 1); err != nil {
			return err
		}
		if !slices.Equal(b.Shape[1:], dst.Shape[1:]) || b.Shape[0] > dst.Shape[0] {
			return fmt.Errorf("coded: encode: block %d has shape %v, the result %v: want at most as many rows, of the same shape", j, b.Shape, dst.Shape)
		}
		s.add(row[j], b.Data)
	}
	s.combine(dst.Data)
	return nil
}

// EncodeRows computes one coded block of the row blocks of x:
// dst = sum_j row[j] * x[block j, ...]. x has p.Total rows, dst p.Size.
func EncodeRows(dst Tensor, row []float64, x Tensor, p Partition) error {
	if err := checkCut("encode rows", x, p, 0, len(row)); err != nil {
		return err
	}
	if err := checkShape("encode rows: result", dst, x.Shape, 0, p.Size); err != nil {
		return err
	}
	s := newScratch()
	defer s.free()
	unit := size(x.Shape[1:])
	for j, g := range row {
		lo, hi := p.Bounds(j)
		s.add(g, x.Data[lo*unit:hi*unit])
	}
	s.combine(dst.Data)
	return nil
}

// EncodeColumns computes one coded block of the column blocks of x:
// dst = sum_j row[j] * x[:, block j, ...]. x has p.Total columns, dst p.Size.
func EncodeColumns(dst Tensor, row []float64, x Tensor, p Partition) error {
	if err := checkCut("encode columns", x, p, 1, len(row)); err != nil {
		return err
	}
	if err := checkShape("encode columns: result", dst, x.Shape, 1, p.Size); err != nil {
		return err
	}
	s := newScratch()
	defer s.free()
	unit := size(x.Shape[2:])
	for r := range x.Shape[0] {
		s.reset()
		line := x.Data[r*p.Total*unit : (r+1)*p.Total*unit]
		for j, g := range row {
			lo, hi := p.Bounds(j)
			s.add(g, line[lo*unit:hi*unit])
		}
		s.combine(dst.Data[r*p.Size*unit : (r+1)*p.Size*unit])
	}
	return nil
}

// DecodeRows computes row blocks from results: row at+i of block j of dst is
// sum_t d[j][t] * (row i of results[t]). The results are of one chunk, the rows
// from at on of every block; rows beyond the end of a block are padding and are
// dropped. dst has p.Total rows; d has p.K rows of a weight for each result.
func DecodeRows(dst Tensor, d [][]float64, results []Tensor, p Partition, at int) error {
	chunk, err := checkDecode("decode rows", dst, d, results, p, 0, at)
	if err != nil || chunk == 0 {
		return err
	}
	s := newScratch()
	defer s.free()
	unit := size(dst.Shape[1:])
	for j := range p.K {
		lo, hi := chunkBounds(p, j, at, chunk)
		s.reset()
		for t, x := range results {
			s.add(d[j][t], x.Data[:(hi-lo)*unit])
		}
		s.combine(dst.Data[lo*unit : hi*unit])
	}
	return nil
}

// DecodeColumns computes column blocks from results: column at+i of block j of
// dst is sum_t d[j][t] * (column i of results[t]). The results are of one chunk,
// the columns from at on of every block; columns beyond the end of a block are
// padding and are dropped. dst has p.Total columns; d has p.K rows of a weight
// for each result.
func DecodeColumns(dst Tensor, d [][]float64, results []Tensor, p Partition, at int) error {
	chunk, err := checkDecode("decode columns", dst, d, results, p, 1, at)
	if err != nil || chunk == 0 {
		return err
	}
	s := newScratch()
	defer s.free()
	unit := size(dst.Shape[2:])
	for j := range p.K {
		lo, hi := chunkBounds(p, j, at, chunk)
		for r := range dst.Shape[0] {
			s.reset()
			for t, x := range results {
				from := r * chunk * unit
				s.add(d[j][t], x.Data[from:from+(hi-lo)*unit])
			}
			s.combine(dst.Data[(r*p.Total+lo)*unit : (r*p.Total+hi)*unit])
		}
	}
	return nil
}

// chunkBounds gives the part of the whole that a chunk of block j covers.
func chunkBounds(p Partition, j, at, chunk int) (lo, hi int) {
	lo, hi = p.Bounds(j)
	return min(lo+at, hi), min(lo+at+chunk, hi)
}

// checkDecode checks the arguments of a decoding along an axis and returns the
// size of the chunk.
func checkDecode(what string, dst Tensor, d [][]float64, results []Tensor, p Partition, axis, at int) (chunk int, err error) {
	if err := checkCut(what+": result", dst, p, axis, len(d)); err != nil {
		return 0, err
	}
	for j, row := range d {
		if len(row) != len(results) {
			return 0, fmt.Errorf("coded: %s: %d weights for block %d, want one for each of %d results", what, len(row), j, len(results))
		}
	}
	if len(results) == 0 {
		return 0, fmt.Errorf("coded: %s: no results", what)
	}
	if len(results[0].Shape) != len(dst.Shape) {
		return 0, fmt.Errorf("coded: %s: results of shape %v for %v", what, results[0].Shape, dst.Shape)
	}
	chunk = results[0].Shape[axis]
	if at < 0 || at+chunk > p.Size {
		return 0, fmt.Errorf("coded: %s: chunk [%d,%d) of blocks of size %d", what, at, at+chunk, p.Size)
	}
	for t, x := range results {
		if err := checkShape(fmt.Sprintf("%s: result %d", what, t), x, dst.Shape, axis, chunk); err != nil {
			return 0, err
		}
	}
	return chunk, nil
}

// checkCut checks that a tensor can be cut along an axis into k blocks.
func checkCut(what string, x Tensor, p Partition, axis, k int) error {
	if err := checkTensor(what, x, axis+1); err != nil {
		return err
	}
	if p.K < 1 || p != Blocks(p.Total, p.K) {
		return fmt.Errorf("coded: %s: %+v is no partition", what, p)
	}
	if x.Shape[axis] != p.Total {
		return fmt.Errorf("coded: %s: shape %v, want %d along dimension %d", what, x.Shape, p.Total, axis)
	}
	if k != p.K {
		return fmt.Errorf("coded: %s: coefficients for %d blocks, want %d", what, k, p.K)
	}
	return nil
}

// checkShape checks that x has a shape that differs from another one along one
// axis, where it has a given size.
func checkShape(what string, x Tensor, like []int, axis, n int) error {
	want := slices.Clone(like)
	want[axis] = n
	if !slices.Equal(x.Shape, want) {
		return fmt.Errorf("coded: %s: shape %v, want %v", what, x.Shape, want)
	}
	return checkTensor(what, x, axis+1)
}

// checkTensor checks that a tensor has its data and enough dimensions.
func checkTensor(what string, x Tensor, dims int) error {
	if len(x.Shape) < dims {
		return fmt.Errorf("coded: %s: shape %v, want at least %d dimensions", what, x.Shape, dims)
	}
	for _, d := range x.Shape {
		if d < 0 {
			return fmt.Errorf("coded: %s: shape %v", what, x.Shape)
		}
	}
	if size(x.Shape) != len(x.Data) {
		return fmt.Errorf("coded: %s: %d elements for shape %v", what, len(x.Data), x.Shape)
	}
	return nil
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
