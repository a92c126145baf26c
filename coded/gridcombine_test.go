package coded

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wholeNumbers is a tensor of small integers, whose sums are exact.
func wholeNumbers(t *rapid.T, shape ...int) Tensor {
	x := NewTensor(shape...)
	values := rapid.Int32Range(-8, 8)
	for i := range x.Data {
		x.Data[i] = float32(values.Draw(t, "value"))
	}
	return x
}

func wholeCoefficients(t *rapid.T, rows, cols int) [][]float64 {
	values := rapid.Int32Range(-3, 3)
	g := make([][]float64, rows)
	for i := range g {
		for range cols {
			g[i] = append(g[i], float64(values.Draw(t, "coefficient")))
		}
	}
	return g
}

// plane takes one index of the last dimension out of a tensor of three.
func plane(x Tensor, at int) Tensor {
	y := NewTensor(x.Shape[0], x.Shape[1])
	for i := range y.Data {
		y.Data[i] = x.Data[i*x.Shape[2]+at]
	}
	return y
}

// TestEncodeGrid: coded blocks are the combinations of the blocks that Cut copies, for
// sizes that the numbers of blocks do not divide or that are smaller.
func TestEncodeGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(1, 6)
		g := Grid{Blocks(small.Draw(t, "rows"), small.Draw(t, "m")), Blocks(small.Draw(t, "cols"), small.Draw(t, "q"))}
		inner := rapid.IntRange(1, 3).Draw(t, "inner")
		x := wholeNumbers(t, g.Rows.Total, g.Cols.Total, inner)
		rows := wholeCoefficients(t, rapid.IntRange(1, 4).Draw(t, "results"), g.blocks())
		dst := make([]Tensor, len(rows))
		for i := range dst {
			dst[i] = NewTensor(g.Rows.Size, g.Cols.Size, inner)
			for j := range dst[i].Data {
				dst[i].Data[j] = 77 // is written over
			}
		}
		if err := (Combiner{}).EncodeGrid(dst, rows, x, g); err != nil {
			t.Fatal(err)
		}
		for at := range inner {
			blocks, err := g.Cut(plane(x, at))
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				want := NewTensor(g.Rows.Size, g.Cols.Size)
				if err := Encode(want, row, blocks); err != nil {
					t.Fatal(err)
				}
				if got := plane(dst[i], at); !slices.Equal(got.Data, want.Data) {
					t.Fatalf("%+v, plane %d: result %d is %v, want %v", g, at, i, got.Data, want.Data)
				}
			}
		}
	})
}

// TestDecodeGrid: decoded chunk by chunk, in rectangles, the matrix is that which
// Assemble makes of the combined results.
func TestDecodeGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(1, 6)
		g := Grid{Blocks(small.Draw(t, "rows"), small.Draw(t, "m")), Blocks(small.Draw(t, "cols"), small.Draw(t, "q"))}
		results := make([]Tensor, rapid.IntRange(1, 4).Draw(t, "results"))
		for i := range results {
			results[i] = wholeNumbers(t, g.Rows.Size, g.Cols.Size)
		}
		d := wholeCoefficients(t, g.blocks(), len(results))
		got := NewTensor(g.Rows.Total, g.Cols.Total)
		for i := range got.Data {
			got.Data[i] = 77
		}
		height := rapid.IntRange(1, g.Rows.Size).Draw(t, "height")
		width := rapid.IntRange(1, g.Cols.Size).Draw(t, "width")
		for row := 0; row < g.Rows.Size; row += height {
			for col := 0; col < g.Cols.Size; col += width {
				if err := (Combiner{}).DecodeGrid(got, d, rectangles(results, row, col, height, width), g, row, col); err != nil {
					t.Fatal(err)
				}
			}
		}
		blocks := make([]Tensor, len(d))
		for i, row := range d {
			blocks[i] = NewTensor(g.Rows.Size, g.Cols.Size)
			if err := Encode(blocks[i], row, results); err != nil {
				t.Fatal(err)
			}
		}
		want := NewTensor(g.Rows.Total, g.Cols.Total)
		if err := g.Assemble(want, blocks); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Data, want.Data) {
			t.Fatalf("%+v in chunks of %d x %d: %v, want %v", g, height, width, got.Data, want.Data)
		}
	})
}

// rectangles copies the part of each result from (row, col) on.
func rectangles(results []Tensor, row, col, height, width int) []Tensor {
	var list []Tensor
	for _, x := range results {
		rows, cols := min(height, x.Shape[0]-row), min(width, x.Shape[1]-col)
		y := NewTensor(rows, cols)
		for i := range rows {
			copy(y.Data[i*cols:(i+1)*cols], x.Data[(row+i)*x.Shape[1]+col:])
		}
		list = append(list, y)
	}
	return list
}

func TestGridCombineRefuses(t *testing.T) {
	g := Grid{Blocks(5, 2), Blocks(4, 3)}
	x, block := NewTensor(5, 4), NewTensor(3, 2)
	six := make([]float64, 6)
	for want, err := range map[string]error{
		"encode grid: the whole":         Combiner{}.EncodeGrid([]Tensor{block}, [][]float64{six}, NewTensor(4, 4), g),
		"1 results for 0 rows":           Combiner{}.EncodeGrid([]Tensor{block}, nil, x, g),
		"5 coefficients for result 0":    Combiner{}.EncodeGrid([]Tensor{block}, [][]float64{six[:5]}, x, g),
		"encode grid: result":            Combiner{}.EncodeGrid([]Tensor{x}, [][]float64{six}, x, g),
		"decode grid: the whole":         Combiner{}.DecodeGrid(block, nil, nil, g, 0, 0),
		"weights for 1 blocks":           Combiner{}.DecodeGrid(x, [][]float64{{1}}, []Tensor{block}, g, 0, 0),
		"1 weights for block 0":          Combiner{}.DecodeGrid(x, slices.Repeat([][]float64{{1}}, 6), nil, g, 0, 0),
		"no results":                     Combiner{}.DecodeGrid(x, make([][]float64, 6), nil, g, 0, 0),
		"decode grid: result 0":          Combiner{}.DecodeGrid(x, slices.Repeat([][]float64{{1}}, 6), []Tensor{NewTensor(6)}, g, 0, 0),
		"decode grid: result 1":          Combiner{}.DecodeGrid(x, slices.Repeat([][]float64{{1, 1}}, 6), []Tensor{block, x}, g, 0, 0),
		"chunk [1,4) x [0,2) of blocks":  Combiner{}.DecodeGrid(x, slices.Repeat([][]float64{{1}}, 6), []Tensor{block}, g, 1, 0),
		"chunk [0,3) x [-1,1) of blocks": Combiner{}.DecodeGrid(x, slices.Repeat([][]float64{{1}}, 6), []Tensor{block}, g, 0, -1),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// TestMatrixCut: the codes of a product of matrices, and only they, tell how its factors
// are cut.
func TestMatrixCut(t *testing.T) {
	for _, f := range Families() {
		s := f.Examples[0]
		c, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		m, p, q, ok := c.Matrix()
		wantM, wantP, wantQ := s.grid()
		if f.Kind == Linear {
			wantM = c.K()
		}
		want := f.Kind == Bilinear || f.Kind == Linear
		if ok != want || ok && (m != wantM || p != wantP || q != wantQ) {
			t.Errorf("%v: %d x %d x %d, %v; want %d x %d x %d, %v", s, m, p, q, ok, wantM, wantP, wantQ, want)
		}
	}
}
