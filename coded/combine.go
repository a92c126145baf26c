package coded

import (
	"fmt"
	"slices"
)

// Encoding and decoding of float32 tensors with coefficients that were computed
// in float64. A tensor is cut into blocks along its first dimension ("rows") or
// its second ("columns"); further dimensions go along, so that blocks of
// channels of an image batch are columns. Blocks are of equal size, the missing
// end of the last one being zeros (see Blocks). The result must not overlap the
// tensors that are read. Sums are made in the order of the index.

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
	s := newSums()
	defer s.free()
	s.one(dst.Data, row)
	for j, b := range blocks {
		if len(b.Data) > 0 && (!fits(b, dst.Shape, 0) || b.Shape[0] > dst.Shape[0]) {
			return shapeError(fmt.Sprintf("encode: block %d", j), b, dst.Shape, "fewer rows")
		}
		s.xs.add(b.Data, len(b.Data))
	}
	s.compute(nil, 1, len(dst.Data), len(dst.Data))
	return nil
}

// EncodeRows computes one coded block of the row blocks of x:
// dst = sum_j row[j] * x[block j, ...]. x has p.Total rows, dst p.Size.
func EncodeRows(dst Tensor, row []float64, x Tensor, p Partition) error {
	return Combiner{}.EncodeRows([]Tensor{dst}, [][]float64{row}, x, p)
}

// EncodeColumns computes one coded block of the column blocks of x:
// dst = sum_j row[j] * x[:, block j, ...]. x has p.Total columns, dst p.Size.
func EncodeColumns(dst Tensor, row []float64, x Tensor, p Partition) error {
	return Combiner{}.EncodeColumns([]Tensor{dst}, [][]float64{row}, x, p)
}

// DecodeRows computes row blocks from results: row at+i of block j of dst is
// sum_t d[j][t] * (row i of results[t]). The results are of one chunk, the rows
// from at on of every block; rows beyond the end of a block are padding and are
// dropped. dst has p.Total rows; d has p.K rows of a weight for each result.
func DecodeRows(dst Tensor, d [][]float64, results []Tensor, p Partition, at int) error {
	return Combiner{}.DecodeRows(dst, d, results, p, at)
}

// DecodeColumns computes column blocks from results: column at+i of block j of
// dst is sum_t d[j][t] * (column i of results[t]). The results are of one chunk,
// the columns from at on of every block; columns beyond the end of a block are
// padding and are dropped. dst has p.Total columns; d has p.K rows of a weight
// for each result.
func DecodeColumns(dst Tensor, d [][]float64, results []Tensor, p Partition, at int) error {
	return Combiner{}.DecodeColumns(dst, d, results, p, at)
}

// chunkBounds gives the part of the whole that a chunk of block j covers.
func chunkBounds(p Partition, j, at, chunk int) (lo, hi int) {
	lo, hi = p.Bounds(j)
	return min(lo+at, hi), min(lo+at+chunk, hi)
}

// checkDecode checks the arguments of a decoding along an axis and returns the
// size of the chunk.
func checkDecode(what string, dst Tensor, d [][]float64, results []Tensor, p Partition, axis, at int) (chunk int, err error) {
	if err := checkCut(what, dst, p, axis, len(d)); err != nil {
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
	chunk = -1 // any will do
	for t, x := range results {
		if !fits(x, dst.Shape, axis) || chunk >= 0 && x.Shape[axis] != chunk {
			return 0, shapeError(fmt.Sprintf("%s: result %d", what, t), x, withSize(dst.Shape, axis, chunk), "")
		}
		chunk = x.Shape[axis]
	}
	if at < 0 || at+chunk > p.Size {
		return 0, fmt.Errorf("coded: %s: chunk [%d,%d) of blocks of size %d", what, at, at+chunk, p.Size)
	}
	return chunk, nil
}

// checkCut checks that a tensor can be cut along an axis into k blocks.
func checkCut(what string, x Tensor, p Partition, axis, k int) error {
	if err := checkTensor(what+": the whole", x, axis+1); err != nil {
		return err
	}
	if p.K < 1 || p != Blocks(p.Total, p.K) {
		return fmt.Errorf("coded: %s: %+v is no partition", what, p)
	}
	if x.Shape[axis] != p.Total {
		return shapeError(what+": the whole", x, withSize(x.Shape, axis, p.Total), "")
	}
	if k != p.K {
		return fmt.Errorf("coded: %s: coefficients for %d blocks, want %d", what, k, p.K)
	}
	return nil
}

// fits tells whether x is a tensor whose shape differs from another one at most
// along an axis.
func fits(x Tensor, like []int, axis int) bool {
	if len(x.Shape) != len(like) || x.Shape[axis] < 0 || size(x.Shape) != len(x.Data) {
		return false
	}
	for i, n := range like {
		if i != axis && x.Shape[i] != n {
			return false
		}
	}
	return true
}

// checkTensor checks that a tensor has its data and enough dimensions.
func checkTensor(what string, x Tensor, dims int) error {
	if len(x.Shape) < dims || !filled(x.Shape, len(x.Data)) {
		return shapeError(what, x, slices.Repeat([]int{-1}, dims), "more dimensions")
	}
	return nil
}

// filled tells whether a shape is one of so many elements.
func filled(shape []int, elements int) bool {
	return size(shape) == elements && !slices.ContainsFunc(shape, func(n int) bool { return n < 0 })
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
