package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestCombine(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, inputs := range []int{0, 1, 2, 3, 6, 11} {
			for _, cols := range []int{0, 1, 7, 8, 15, 16, 17, 31, 64, 100, 128, 129, 300} {
				for _, rows := range []int{0, 1, 3} {
					testCombine(t, r, inputs, rows, cols, false)
					testCombine(t, r, inputs, rows, cols, true)
				}
			}
		}
	})
}

// testCombine compares with the sum in index order, rounded step by step, to the
// bit: that order is the contract.
func testCombine(t *testing.T, r *rand.Rand, inputs, rows, cols int, add bool) {
	ldd, ldx := cols+r.IntN(4), cols+r.IntN(4)
	w := randomSlice(r, inputs)
	xs := make([][]float32, inputs)
	for i := range xs {
		xs[i], _ = testVector(r, max((rows-1)*ldx+cols, 0), false)
	}
	dst, around := testVector(r, rows*ldd, false)
	before := append([]float32(nil), dst...)
	if add {
		CombineAddRows(dst, ldd, w, xs, ldx, rows, cols)
	} else {
		CombineRows(dst, ldd, w, xs, ldx, rows, cols)
	}
	where := fmt.Sprintf("%d inputs, %dx%d, add %v", inputs, rows, cols, add)
	if wroteAround(around, len(dst)) {
		t.Fatalf("%s: wrote outside", where)
	}
	for at, got := range dst {
		want, i, j := before[at], at/ldd, at%ldd
		if j < cols {
			want = combined(add, want, w, xs, i*ldx+j)
		}
		if !sameBits(got, want) {
			t.Fatalf("%s: [%d,%d] = %v, want %v", where, i, j, got, want)
		}
	}
	if rows == 1 {
		flat := append([]float32(nil), before[:cols]...)
		trimmed := make([][]float32, inputs)
		for i, x := range xs {
			trimmed[i] = x[:cols]
		}
		if add {
			CombineAdd(flat, w, trimmed)
		} else {
			Combine(flat, w, trimmed)
		}
		for j, v := range flat {
			if !sameBits(v, dst[j]) {
				t.Fatalf("%s: Combine and CombineRows differ at %d", where, j)
			}
		}
	}
}

func combined(add bool, sum float32, w []float32, xs [][]float32, at int) float32 {
	if !add {
		sum = 0
	}
	for i, x := range xs {
		if term := float32(w[i] * x[at]); i == 0 && !add {
			sum = term
		} else {
			sum += term
		}
	}
	return sum
}

func TestAddBiasRows(t *testing.T) {
	const rows, cols, ld = 3, 5, 7
	bias := []float32{1, -2, 3, -4, 5}
	start := make([]float32, rows*ld)
	for i := range start {
		start[i] = float32(i%4) - 2
	}
	plain := append([]float32(nil), start...)
	relu := append([]float32(nil), start...)
	AddBias(plain, ld, rows, bias)
	AddBiasReLU(relu, ld, rows, bias)
	for i, v := range start {
		want := v
		if i%ld < cols {
			want += bias[i%ld]
			if relu[i] != max(want, 0) {
				t.Errorf("AddBiasReLU: element %d is %v, want %v", i, relu[i], max(want, 0))
			}
		} else if relu[i] != v {
			t.Errorf("AddBiasReLU: wrote between the rows, at %d", i)
		}
		if plain[i] != want {
			t.Errorf("AddBias: element %d is %v, want %v", i, plain[i], want)
		}
	}
	AddBias(nil, 0, 1<<40, nil) // rows without elements cost nothing
}

func TestColumnSums(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, rows := range []int{0, 1, 2, 255, 256, 257, 1000} {
			for _, cols := range []int{0, 1, 7, 8, 17, 64, 129, 150} {
				ld := cols + r.IntN(3)
				x := randomSlice(r, rows*ld)
				dst, around := testVector(r, cols, false)
				ColumnSums(dst, x, ld, rows)
				if wroteAround(around, cols) {
					t.Fatalf("%dx%d: wrote outside", rows, cols)
				}
				plain := make([]float32, cols)
				for r0 := 0; r0 < rows; r0 += sumRows {
					columnSumsGo(plain, x[r0*ld:], ld, min(sumRows, rows-r0))
				}
				for j, got := range dst {
					var want, size float64
					for i := range rows {
						want += float64(x[i*ld+j])
						size += math.Abs(float64(x[i*ld+j]))
					}
					if math.Abs(float64(got)-want) > size*0x1p-24*260 {
						t.Fatalf("%dx%d: column %d sums to %v, want %v", rows, cols, j, got, want)
					}
					if got != plain[j] {
						t.Fatalf("%dx%d: column %d sums to %v, in Go to %v", rows, cols, j, got, plain[j])
					}
				}
			}
		}
	})
}
