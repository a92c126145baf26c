package coded

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMatrixOutputs writes the products of a small job out.
func TestMatrixOutputs(t *testing.T) {
	want := []Output{{{0, 0}, {1, 2}}, {{0, 1}, {1, 3}}, {{2, 0}, {3, 2}}, {{2, 1}, {3, 3}}, {{4, 0}, {5, 2}}, {{4, 1}, {5, 3}}}
	if got := matrixOutputs(3, 2, 2); !slices.EqualFunc(got, want, slices.Equal[Output]) {
		t.Errorf("outputs %v, want %v", got, want)
	}
}

// TestGridCut writes the blocks of a matrix out that has padding both ways, and
// blocks that are nothing but padding.
func TestGridCut(t *testing.T) {
	x := Tensor{Shape: []int{3, 5}, Data: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}
	blocks, err := Grid{Blocks(3, 2), Blocks(5, 4)}.Cut(x)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float32{
		{1, 2, 6, 7}, {3, 4, 8, 9}, {5, 0, 10, 0}, {0, 0, 0, 0},
		{11, 12, 0, 0}, {13, 14, 0, 0}, {15, 0, 0, 0}, {0, 0, 0, 0},
	}
	if len(blocks) != len(want) {
		t.Fatalf("%d blocks, want %d", len(blocks), len(want))
	}
	for i, b := range blocks {
		if !slices.Equal(b.Shape, []int{2, 2}) || !slices.Equal(b.Data, want[i]) {
			t.Errorf("block %d: shape %v, %v, want %v", i, b.Shape, b.Data, want[i])
		}
	}
}

// TestGridInverse: a matrix of any size, empty ones and such with fewer rows than
// blocks included, is assembled from its blocks, and every element is written.
func TestGridInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(0, 9)
		rows, cols := small.Draw(t, "rows"), small.Draw(t, "cols")
		g := Grid{Blocks(rows, 1+small.Draw(t, "m")), Blocks(cols, 1+small.Draw(t, "q"))}
		x := NewTensor(rows, cols)
		for i := range x.Data {
			x.Data[i] = float32(i + 1)
		}
		blocks, err := g.Cut(x)
		if err != nil {
			t.Fatal(err)
		}
		got := NewTensor(rows, cols)
		if err := g.Assemble(got, blocks); err != nil || !slices.Equal(got.Data, x.Data) {
			t.Fatalf("%+v: %v, want %v, error %v", g, got.Data, x.Data, err)
		}
	})
}

func TestGridErrors(t *testing.T) {
	g := Grid{Blocks(4, 2), Blocks(3, 2)}
	four := []Tensor{NewTensor(2, 2), NewTensor(2, 2), NewTensor(2, 2), NewTensor(2, 2)}
	for want, call := range map[string]func() error{
		"cut: the whole has shape [3 3], want [4 3]": func() error { _, err := g.Cut(NewTensor(3, 3)); return err },
		"cut: the whole has shape [4 2], want [4 3]": func() error { _, err := g.Cut(NewTensor(4, 2)); return err },
		"shape [4 3 1], want [4 3]":                  func() error { _, err := g.Cut(NewTensor(4, 3, 1)); return err },
		"is no partition":                            func() error { _, err := Grid{}.Cut(NewTensor(0, 0)); return err },
		"assemble: 3 blocks, want 2 x 2":             func() error { return g.Assemble(NewTensor(4, 3), four[:3]) },
		"block 1 has shape [2 1]": func() error {
			return g.Assemble(NewTensor(4, 3), []Tensor{four[0], NewTensor(2, 1), four[2], four[3]})
		},
		"block 0 has 1 elements, which are not those of its shape [2 2]": func() error {
			return g.Assemble(NewTensor(4, 3), []Tensor{{Shape: []int{2, 2}, Data: make([]float32, 1)}, four[1], four[2], four[3]})
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestGridOutputs multiplies block by block as matrixOutputs says and compares
// with the product, for uneven sizes.
func TestGridOutputs(t *testing.T) {
	for _, c := range [][6]int{{5, 4, 3, 2, 3, 2}, {2, 7, 2, 3, 2, 1}, {6, 6, 6, 3, 2, 2}} {
		rows, inner, cols, m, p, q := c[0], c[1], c[2], c[3], c[4], c[5]
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			a, b := countedTensor(rows, inner), countedTensor(inner, cols)
			as, err := Grid{Blocks(rows, m), Blocks(inner, p)}.Cut(a)
			if err != nil {
				t.Fatal(err)
			}
			bs, err := Grid{Blocks(inner, p), Blocks(cols, q)}.Cut(b)
			if err != nil {
				t.Fatal(err)
			}
			var blocks []Tensor
			for _, out := range matrixOutputs(m, p, q) {
				var c Tensor
				for _, pair := range out {
					c = added(c, multiplied(as[pair.A], bs[pair.B]))
				}
				blocks = append(blocks, c)
			}
			got := NewTensor(rows, cols)
			if err := (Grid{Blocks(rows, m), Blocks(cols, q)}).Assemble(got, blocks); err != nil {
				t.Fatal(err)
			}
			if want := multiplied(a, b); !slices.Equal(got.Data, want.Data) {
				t.Errorf("%v, want %v", got.Data, want.Data)
			}
		})
	}
}

// countedTensor holds small integers, so that products are exact.
func countedTensor(rows, cols int) Tensor {
	x := NewTensor(rows, cols)
	for i := range x.Data {
		x.Data[i] = float32(i*i%7 - 3)
	}
	return x
}

func multiplied(a, b Tensor) Tensor {
	rows, inner, cols := a.Shape[0], a.Shape[1], b.Shape[1]
	c := NewTensor(rows, cols)
	for i := range rows {
		for k := range inner {
			for j := range cols {
				c.Data[i*cols+j] += a.Data[i*inner+k] * b.Data[k*cols+j]
			}
		}
	}
	return c
}

// added gives x+y; x may be empty.
func added(x, y Tensor) Tensor {
	for i, v := range x.Data {
		y.Data[i] += v
	}
	return y
}
