package coded

import (
	"fmt"
	"slices"
)

// The job of a product of matrices, C = A B, cut both ways: A into m x p blocks
// and B into p x q, both counted row by row. The outputs are the m x q blocks
//
//	C_ij = sum_k A_ik B_kj

// matrixOutputs lists the products of blocks that each C_ij is the sum of:
// output i*q+j has A block i*p+k and B block k*q+j for k = 0 .. p-1.
func matrixOutputs(m, p, q int) []Output {
	outputs := make([]Output, 0, m*q)
	for i := range m {
		for j := range q {
			out := make(Output, p)
			for k := range out {
				out[k] = Pair{i*p + k, k*q + j}
			}
			outputs = append(outputs, out)
		}
	}
	return outputs
}

// Matrix returns m, p and q of a code for C = A B with A cut into m x p blocks and B
// into p x q, whose outputs are all blocks C_ij, row by row; ok is false for any other
// job. A code of one factor has q = 1 and p = 1.
func (c *Code) Matrix() (m, p, q int, ok bool) {
	outputs := c.def.outputs()
	p = len(outputs[0])
	m, q = c.K()/p, c.BBlocks()/p
	if c.Kind() == Gradients || m*p != c.K() || p*q != c.BBlocks() || len(outputs) != m*q {
		return 0, 0, 0, false
	}
	same := slices.EqualFunc(outputs, matrixOutputs(m, p, q), slices.Equal[Output])
	return m, p, q, same
}

// Grid cuts a matrix into Rows.K x Cols.K blocks, counted row by row. All blocks
// have Rows.Size rows and Cols.Size columns: what lies beyond the matrix is
// padding. For C = A B with A cut into m x p blocks and B into p x q,
//
//	a := Grid{Blocks(rows, m), Blocks(inner, p)}
//	b := Grid{Blocks(inner, p), Blocks(cols, q)}
//	c := Grid{Blocks(rows, m), Blocks(cols, q)}
//
// blocks of a.Cut(A) and b.Cut(B), coded with Encode and multiplied, give results
// of which Encode, with the decode weights of an output, makes a block for
// c.Assemble.
type Grid struct{ Rows, Cols Partition }

// Cut copies the blocks of a matrix of Rows.Total x Cols.Total, padded with zeros.
func (g Grid) Cut(x Tensor) ([]Tensor, error) {
	if err := g.check("cut", x); err != nil {
		return nil, err
	}
	blocks := make([]Tensor, 0, g.Rows.K*g.Cols.K)
	for i := range g.Rows.K {
		for j := range g.Cols.K {
			b := NewTensor(g.Rows.Size, g.Cols.Size)
			g.each(x, b, i, j, func(whole, block []float32) { copy(block, whole) })
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// Assemble is the inverse of Cut: it writes the matrix of which the blocks are
// given, and drops their padding.
func (g Grid) Assemble(dst Tensor, blocks []Tensor) error {
	if err := g.check("assemble", dst); err != nil {
		return err
	}
	if len(blocks) != g.Rows.K*g.Cols.K {
		return fmt.Errorf("coded: assemble: %d blocks, want %d x %d", len(blocks), g.Rows.K, g.Cols.K)
	}
	for c, b := range blocks {
		if len(b.Shape) != 2 || b.Shape[0] != g.Rows.Size || b.Shape[1] != g.Cols.Size || len(b.Data) != size(b.Shape) {
			return shapeError(fmt.Sprintf("assemble: block %d", c), b, []int{g.Rows.Size, g.Cols.Size}, "")
		}
		g.each(dst, b, c/g.Cols.K, c%g.Cols.K, func(whole, block []float32) { copy(whole, block) })
	}
	return nil
}

// each calls f with the parts of every row that a matrix and its block (i,j) have
// in common.
func (g Grid) each(x, block Tensor, i, j int, f func(whole, block []float32)) {
	top, bottom := g.Rows.Bounds(i)
	left, right := g.Cols.Bounds(j)
	for r := top; r < bottom; r++ {
		from := (r - top) * g.Cols.Size
		f(x.Data[r*g.Cols.Total+left:r*g.Cols.Total+right], block.Data[from:from+right-left])
	}
}

// checkWhole checks that a tensor has so many rows and columns.
func (g Grid) checkWhole(what string, x Tensor) error {
	if err := checkCut(what, x, g.Rows, 0, g.Rows.K); err != nil {
		return err
	}
	return checkCut(what, x, g.Cols, 1, g.Cols.K)
}

func (g Grid) check(what string, x Tensor) error {
	if err := g.checkWhole(what, x); err != nil {
		return err
	}
	if len(x.Shape) != 2 {
		return shapeError(what+": the whole", x, []int{g.Rows.Total, g.Cols.Total}, "")
	}
	return nil
}
