package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

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
