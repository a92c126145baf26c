package coded

import "fmt"

// EncodeGrid computes coded blocks of a matrix that is cut both ways:
// dst[t] = sum over i, j of rows[t][i*g.Cols.K+j] * block (i,j) of x. x has g.Rows.Total
// rows and g.Cols.Total columns, every dst g.Rows.Size and g.Cols.Size; further
// dimensions go along. With one block in a direction it is EncodeRows or EncodeColumns.
func (c Combiner) EncodeGrid(dst []Tensor, rows [][]float64, x Tensor, g Grid) error {
	const what = "encode grid"
	if err := g.checkWhole(what, x); err != nil {
		return err
	}
	if len(dst) != len(rows) {
		return fmt.Errorf("coded: %s: %d results for %d rows of coefficients", what, len(dst), len(rows))
	}
	block := withSize(withSize(x.Shape, 0, g.Rows.Size), 1, g.Cols.Size)
	for t, d := range dst {
		if len(rows[t]) != g.blocks() {
			return fmt.Errorf("coded: %s: %d coefficients for result %d, want %d x %d", what, len(rows[t]), t, g.Rows.K, g.Cols.K)
		}
		if !fits(d, block, 0) || d.Shape[0] != g.Rows.Size {
			return shapeError(fmt.Sprintf("%s: result%s", what, number(t, len(dst))), d, block, "")
		}
	}
	inner := size(x.Shape[2:])
	s := newSums()
	defer s.free()
	for at := 0; at < g.Rows.Size; {
		end := g.Rows.next(0, at, g.Rows.Size)
		s.reset()
		for t, d := range dst {
			s.dst.add(d.Data[at*g.Cols.Size*inner:], g.Cols.Size*inner)
			s.rows = append(s.rows, rows[t])
		}
		g.eachRow(0, at, 0, g.Cols.Size, func(from, width int) { s.xs.add(x.Data[from*inner:], width*inner) })
		s.compute(c.Pool, end-at, g.Cols.Size*inner, g.Cols.Total*inner)
		at = end
	}
	return nil
}

// DecodeGrid computes the blocks of a matrix that is cut both ways from results: of a
// block (i,j) of dst the part from row and column (row, col) on is the sum over t of
// d[i*g.Cols.K+j][t] * results[t]. The results are of one chunk, a rectangle of every
// block; what lies beyond the end of a block is padding and is dropped. dst has
// g.Rows.Total rows and g.Cols.Total columns, and like the results any further dimensions.
func (c Combiner) DecodeGrid(dst Tensor, d [][]float64, results []Tensor, g Grid, row, col int) error {
	rows, cols, err := g.checkDecode(dst, d, results, row, col)
	if err != nil {
		return err
	}
	inner := size(dst.Shape[2:])
	s := newSums()
	defer s.free()
	for at := 0; at < rows; {
		end := g.Rows.next(row, at, rows)
		s.reset()
		g.eachRow(row, at, col, cols, func(from, width int) {
			s.rows = append(s.rows, d[len(s.rows)])
			s.dst.add(dst.Data[from*inner:], width*inner)
		})
		for _, x := range results {
			s.xs.add(x.Data[at*cols*inner:], cols*inner)
		}
		s.compute(c.Pool, end-at, g.Cols.Total*inner, cols*inner)
		at = end
	}
	return nil
}

func (g Grid) checkDecode(dst Tensor, d [][]float64, results []Tensor, row, col int) (rows, cols int, err error) {
	const what = "decode grid"
	if err := g.checkWhole(what, dst); err != nil {
		return 0, 0, err
	}
	if len(d) != g.blocks() {
		return 0, 0, fmt.Errorf("coded: %s: weights for %d blocks, want %d x %d", what, len(d), g.Rows.K, g.Cols.K)
	}
	for b, weights := range d {
		if len(weights) != len(results) {
			return 0, 0, fmt.Errorf("coded: %s: %d weights for block %d, want one for each of %d results", what, len(weights), b, len(results))
		}
	}
	if len(results) == 0 {
		return 0, 0, fmt.Errorf("coded: %s: no results", what)
	}
	if len(results[0].Shape) != len(dst.Shape) {
		return 0, 0, shapeError(what+": result 0", results[0], dst.Shape, "as many dimensions")
	}
	rows, cols = results[0].Shape[0], results[0].Shape[1]
	want := withSize(withSize(dst.Shape, 0, rows), 1, cols)
	for t, x := range results {
		if !fits(x, want, 0) || x.Shape[0] != rows {
			return 0, 0, shapeError(fmt.Sprintf("%s: result %d", what, t), x, want, "")
		}
	}
	if row < 0 || row+rows > g.Rows.Size || col < 0 || col+cols > g.Cols.Size {
		return 0, 0, fmt.Errorf("coded: %s: chunk [%d,%d) x [%d,%d) of blocks of %d x %d", what, row, row+rows, col, col+cols, g.Rows.Size, g.Cols.Size)
	}
	return rows, cols, nil
}

// blocks is the number of blocks.
func (g Grid) blocks() int { return g.Rows.K * g.Cols.K }

// next returns the least end above at of a block, or most if none is below that; all
// are counted from element first of the blocks on.
func (p Partition) next(first, at, most int) int {
	for j := range p.K {
		lo, hi := p.Bounds(j)
		if end := hi - lo - first; end > at {
			most = min(most, end)
		}
	}
	return most
}

// eachRow calls f, block by block, with the columns col to col+cols of the block's row
// first+at: with the place of the first in a matrix of Cols.Total columns, and how many
// there are; none of a block that has no such row.
func (g Grid) eachRow(first, at, col, cols int, f func(from, width int)) {
	for i := range g.Rows.K {
		top, bottom := g.Rows.Bounds(i)
		for j := range g.Cols.K {
			left, right := chunkBounds(g.Cols, j, col, cols)
			if r := top + first + at; r < bottom && left < right {
				f(r*g.Cols.Total+left, right-left)
			} else {
				f(0, 0)
			}
		}
	}
}
