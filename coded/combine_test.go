package coded

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestBlocksCover: blocks follow each other, cover everything once and have at
// most the common size, all but the last and the empty ones exactly.
func TestBlocksCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, k := rapid.IntRange(0, 200).Draw(t, "total"), rapid.IntRange(1, 40).Draw(t, "k")
		p := Blocks(total, k)
		if p.Size*k < total || (p.Size-1)*k >= total && total > 0 {
			t.Errorf("size %d of %d blocks for %d", p.Size, k, total)
		}
		end := 0
		for j := range k {
			lo, hi := p.Bounds(j)
			if lo != end || hi < lo || hi-lo > p.Size || (hi-lo < p.Size && hi != total) {
				t.Errorf("block %d of %d in %d is [%d,%d), the last ended at %d", j, k, total, lo, hi, end)
			}
			end = hi
		}
		if end != total {
			t.Errorf("%d blocks end at %d of %d", k, end, total)
		}
	})
	for _, p := range []Partition{Blocks(-1, 3), Blocks(3, 0)} {
		if p != (Partition{}) {
			t.Errorf("a partition that cannot be: %+v", p)
		}
	}
}

// drawTensor draws small integers, so that sums are exact in any order.
func drawTensor(t *rapid.T, label string, shape ...int) Tensor {
	x := NewTensor(shape...)
	values := rapid.SliceOfN(rapid.IntRange(-9, 9), len(x.Data), len(x.Data)).Draw(t, label)
	for i, v := range values {
		x.Data[i] = float32(v)
	}
	return x
}

// at reads element (r, c, u) of a tensor seen as a matrix of columns of unit
// elements, 0 beyond its rows or columns.
func at(x Tensor, r, c, u int) float32 {
	unit := size(x.Shape[2:])
	if r >= x.Shape[0] || c >= x.Shape[1] {
		return 0
	}
	return x.Data[(r*x.Shape[1]+c)*unit+u]
}

// TestEncodeLaw: a coded block is the sum over the blocks, element by element.
func TestEncodeLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols, unit := rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(0, 9).Draw(t, "cols"), rapid.IntRange(1, 3).Draw(t, "unit")
		k := rapid.IntRange(1, 5).Draw(t, "k")
		x := drawTensor(t, "x", rows, cols, unit)
		g := make([]float64, k)
		for j := range g {
			g[j] = float64(rapid.IntRange(-2, 2).Draw(t, "g"))
		}
		byRows, byCols := Blocks(rows, k), Blocks(cols, k)
		a, b := NewTensor(byRows.Size, cols, unit), NewTensor(rows, byCols.Size, unit)
		if err := EncodeRows(a, g, x, byRows); err != nil {
			t.Fatal(err)
		}
		if err := EncodeColumns(b, g, x, byCols); err != nil {
			t.Fatal(err)
		}
		for i := range a.Data {
			r, c, u := i/(cols*unit), i/unit%cols, i%unit
			var want float32
			for j := range g {
				want += float32(g[j]) * at(x, j*byRows.Size+r, c, u)
			}
			if a.Data[i] != want {
				t.Fatalf("by rows: element (%d,%d,%d) is %g, want %g", r, c, u, a.Data[i], want)
			}
		}
		for i := range b.Data {
			r, c, u := i/(byCols.Size*unit), i/unit%byCols.Size, i%unit
			var want float32
			for j := range g {
				want += float32(g[j]) * at(x, r, j*byCols.Size+c, u)
			}
			if b.Data[i] != want {
				t.Fatalf("by columns: element (%d,%d,%d) is %g, want %g", r, c, u, b.Data[i], want)
			}
		}
	})
}

// TestEncodeIsRows: Encode of the blocks as tensors is EncodeRows of the whole.
func TestEncodeIsRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, k := rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "k")
		x := drawTensor(t, "x", rows, 2)
		g := make([]float64, k)
		for j := range g {
			g[j] = rapid.Float64Range(-2, 2).Draw(t, "g")
		}
		p := Blocks(rows, k)
		blocks := make([]Tensor, k)
		for j := range blocks {
			lo, hi := p.Bounds(j)
			if hi > lo {
				blocks[j] = Tensor{[]int{hi - lo, 2}, x.Data[2*lo : 2*hi]}
			}
		}
		whole, parts := NewTensor(p.Size, 2), NewTensor(p.Size, 2)
		if err := EncodeRows(whole, g, x, p); err != nil {
			t.Fatal(err)
		}
		if err := Encode(parts, g, blocks); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(whole.Data, parts.Data) {
			t.Fatalf("%v of the parts, %v of the whole", parts.Data, whole.Data)
		}
	})
}

// TestDecodeChunks: chunks of any size, decoded one by one, give the whole, and
// what a chunk does not cover is left alone.
func TestDecodeChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := []int{rapid.IntRange(1, 9).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "cols"), rapid.IntRange(1, 3).Draw(t, "unit")}
		axis, n := rapid.IntRange(0, 1).Draw(t, "axis"), 3
		encode, decode := EncodeRows, DecodeRows
		if axis == 1 {
			encode, decode = EncodeColumns, DecodeColumns
		}
		// G and its weights are integers: G = [1 0; 1 1; 2 1], decoded from
		// tasks 1 and 2 by [-1 1; 2 -1].
		g, d := [][]float64{{1, 0}, {1, 1}, {2, 1}}, [][]float64{{-1, 1}, {2, -1}}
		x := drawTensor(t, "x", shape...)
		p := Blocks(shape[axis], 2)
		blockShape := slices.Clone(shape)
		blockShape[axis] = p.Size
		coded := make([]Tensor, n)
		for i := range coded {
			coded[i] = NewTensor(blockShape...)
			if err := encode(coded[i], g[i], x, p); err != nil {
				t.Fatal(err)
			}
		}
		got := NewTensor(shape...)
		for i := range got.Data {
			got.Data[i] = float32(math.NaN())
		}
		for from := 0; from < p.Size; {
			chunk := rapid.IntRange(1, p.Size-from).Draw(t, "chunk")
			parts := []Tensor{slice(coded[1], axis, from, from+chunk), slice(coded[2], axis, from, from+chunk)}
			if err := decode(got, d, parts, p, from); err != nil {
				t.Fatal(err)
			}
			from += chunk
		}
		if !slices.Equal(got.Data, x.Data) {
			t.Fatalf("%v, want %v", got.Data, x.Data)
		}
	})
}

// slice copies [from,to) along an axis.
func slice(x Tensor, axis, from, to int) Tensor {
	shape := slices.Clone(x.Shape)
	shape[axis] = to - from
	y := Tensor{Shape: shape}
	inner := size(x.Shape[axis+1:])
	for o := range size(x.Shape[:axis]) {
		line := x.Data[o*x.Shape[axis]*inner:]
		y.Data = append(y.Data, line[from*inner:to*inner]...)
	}
	return y
}

func TestCombineErrors(t *testing.T) {
	x, p, g := NewTensor(4, 6), Blocks(4, 2), []float64{1, 2}
	c := Blocks(6, 2)
	d := [][]float64{{1, 2}, {3, 4}}
	two := func(shape ...int) []Tensor { return []Tensor{NewTensor(shape...), NewTensor(shape...)} }
	for want, err := range map[string]error{
		"encode: 2 coefficients for 1 blocks":                                    Encode(NewTensor(2), g, two(2)[:1]),
		"encode: result has 1 elements, which are not those of its shape [2]":    Encode(Tensor{[]int{2}, make([]float32, 1)}, g, two(2)),
		"encode: result has 0 elements, which are not those of its shape [-1]":   Encode(Tensor{Shape: []int{-1}}, g, two(2)),
		"encode: result has shape [], want [_] or more dimensions":               Encode(Tensor{}, g, two(2)),
		"encode: block 0 has shape [3], want [2] or fewer rows":                  Encode(NewTensor(2), g, two(3)),
		"encode: block 0 has shape [2 1], want [2 2] or fewer rows":              Encode(NewTensor(2, 2), g, two(2, 1)),
		"encode rows: result has shape [3 6], want [2 6]":                        EncodeRows(NewTensor(3, 6), g, x, p),
		"encode rows: the whole has shape [4 6], want [6 6]":                     EncodeRows(NewTensor(3, 6), g, x, c),
		"encode rows: coefficients for 1 blocks, want 2":                         EncodeRows(NewTensor(2, 6), g[:1], x, p),
		"{Total:4 K:2 Size:9} is no partition":                                   EncodeRows(NewTensor(2, 6), g, x, Partition{4, 2, 9}),
		"{Total:0 K:0 Size:0} is no partition":                                   EncodeRows(NewTensor(2, 6), g, x, Partition{}),
		"encode columns: result has shape [4 2], want [4 3]":                     EncodeColumns(NewTensor(4, 2), g, x, c),
		"encode columns: the whole has shape [4], want [_ _] or more dimensions": EncodeColumns(NewTensor(4, 2), g, NewTensor(4), c),
		"decode rows: 1 weights for block 1, want one":                           DecodeRows(x, [][]float64{{1, 2}, {1}}, two(2, 6), p, 0),
		"decode rows: no results":                                                DecodeRows(x, [][]float64{{}, {}}, nil, p, 0),
		"decode rows: chunk [1,3) of blocks of size 2":                           DecodeRows(x, d, two(2, 6), p, 1),
		"decode rows: chunk [-1,1) of blocks of size 2":                          DecodeRows(x, d, two(2, 6), p, -1),
		"decode rows: result 0 has shape [2 5], want [_ 6]":                      DecodeRows(x, d, two(2, 5), p, 0),
		"decode columns: result 0 has shape [4]":                                 DecodeColumns(x, d, two(4), c, 0),
		"decode columns: result 1 has shape [4 1], want [4 2]":                   DecodeColumns(x, d, []Tensor{NewTensor(4, 2), NewTensor(4, 1)}, c, 0),
		"decode columns: coefficients for 2 blocks":                              DecodeColumns(x, d, two(4, 2), Blocks(6, 3), 0),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "coded: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func BenchmarkDecodeColumns(b *testing.B) {
	const n, k, batch, width = 8, 6, 64, 4096
	c := mustCode(b, "trigonometric", n, k)
	w, err := NewDecoder(c, DecoderConfig{}).Weights([]int{0, 1, 3, 4, 6, 7})
	if err != nil {
		b.Fatal(err)
	}
	y, p := NewTensor(batch, width), Blocks(width, k)
	results := make([]Tensor, k)
	for i := range results {
		results[i] = NewTensor(batch, p.Size)
	}
	b.Run(fmt.Sprintf("n=%d/k=%d/%dx%d", n, k, batch, width), func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(4 * 2 * batch * width) // every result is read, the product written
		for b.Loop() {
			if err := DecodeColumns(y, w.D, results, p, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
