package coded

import (
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/internal/steady"
	"pgregory.net/rapid"
)

// TestCombinerEncodesAll: all coded blocks at once are those made one by one, to
// the bit, by any number of goroutines.
func TestCombinerEncodesAll(t *testing.T) {
	pool := kernel.NewPool(3)
	defer pool.Close()
	rapid.Check(t, func(t *rapid.T) {
		shape := []int{rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(0, 9).Draw(t, "cols"), rapid.IntRange(1, 3).Draw(t, "unit")}
		axis, n, k := rapid.IntRange(0, 1).Draw(t, "axis"), rapid.IntRange(0, 7).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "k")
		x := drawTensor(t, "x", shape...)
		p := Blocks(shape[axis], k)
		one, all := EncodeRows, Combiner{Pool: pool}.EncodeRows
		if axis == 1 {
			one, all = EncodeColumns, Combiner{Pool: pool}.EncodeColumns
		}
		shape = slices.Clone(shape)
		shape[axis] = p.Size
		var got, want []Tensor
		var g [][]float64
		for range n {
			row := make([]float64, k)
			for j := range row {
				row[j] = rapid.SampledFrom([]float64{0, 1, -0.3, 1.7}).Draw(t, "g")
			}
			g = append(g, row)
			got, want = append(got, NewTensor(shape...)), append(want, NewTensor(shape...))
			if err := one(want[len(want)-1], row, x, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := all(got, g, x, p); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if !slices.Equal(got[i].Data, want[i].Data) {
				t.Fatalf("block %d of %d: %v, alone %v", i, n, got[i].Data, want[i].Data)
			}
		}
	})
}

func TestCombinerErrors(t *testing.T) {
	x, p := NewTensor(4, 6), Blocks(4, 2)
	g := [][]float64{{1, 2}, {3, 4}}
	for want, err := range map[string]error{
		"encode rows: 1 results for 2 rows":                 Combiner{}.EncodeRows([]Tensor{NewTensor(2, 6)}, g, x, p),
		"encode rows: result 1 has shape [3 6], want [2 6]": Combiner{}.EncodeRows([]Tensor{NewTensor(2, 6), NewTensor(3, 6)}, g, x, p),
		"encode rows: coefficients for 1 blocks, want 2":    Combiner{}.EncodeRows([]Tensor{NewTensor(2, 6), NewTensor(2, 6)}, [][]float64{{1, 2}, {1}}, x, p),
		"decode rows: no results":                           Combiner{}.DecodeRows(x, [][]float64{{}, {}}, nil, p, 0),
		"decode columns: result 0 has shape [2 5]":          Combiner{}.DecodeColumns(x, g, []Tensor{NewTensor(2, 5), NewTensor(2, 5)}, Blocks(6, 2), 0),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestSumsAllocateNothing: combinations allocate nothing once their buffers have
// grown. (That they are reused from call to call is up to sync.Pool.)
func TestSumsAllocateNothing(t *testing.T) {
	dst, x, rows := [2][]float32{make([]float32, 12), make([]float32, 12)}, make([]float32, 12), [2][]float64{{1, 2, 3, 4}, {1, 0, 1, 0}}
	s := newSums()
	defer s.free()
	allocs := steady.Allocs(10, func() {
		s.reset()
		for width := range 4 {
			s.xs.add(x, width)
		}
		for i, d := range dst {
			s.dst.add(d, 4-i)
			s.rows = append(s.rows, rows[i])
		}
		s.compute(nil, 3, 4, 4)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
