package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestPack packs parts of a matrix both ways, for the widths of all kernels.
func TestPack(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	const rows, cols = 70, 60
	for _, width := range []int{1, 2, 4, 6, 8, 16, 24, 32, 48} {
		for _, kc := range []int{1, 2, 3, 7, 8, 9, 16, 50} {
			for _, n := range []int{1, 3, 7, 8, 9, 15, 16, 17, 33, 48} {
				if n > width {
					continue
				}
				for _, inner := range []bool{false, true} {
					x := &matrix{randomSlice(r, rows*cols), cols, inner}
					j0, p0 := r.IntN(cols-n+1), r.IntN(cols-kc+1)
					dst, around := testVector(r, kc*width, false)
					x.pack(dst, width, j0, n, p0, kc)
					if wroteAround(around, kc*width) {
						t.Fatalf("width %d kc %d n %d inner %v: wrote outside", width, kc, n, inner)
					}
					for at, got := range dst {
						p, j, want := p0+at/width, at%width, float32(0)
						switch {
						case j >= n:
						case inner:
							want = x.data[(j0+j)*cols+p]
						default:
							want = x.data[p*cols+j0+j]
						}
						if got != want {
							t.Fatalf("width %d kc %d n %d inner %v: step %d, element %d is %v, want %v", width, kc, n, inner, p-p0, j, got, want)
						}
					}
				}
			}
		}
	}
}

// TestPackLastElements packs up to the very end of the matrix's memory.
func TestPackLastElements(t *testing.T) {
	x := &matrix{data: make([]float32, 3*20), ld: 20}
	for i := range x.data {
		x.data[i] = float32(i)
	}
	for _, x.inner = range []bool{false, true} {
		dst := make([]float32, 8*3)
		if x.inner {
			x.pack(dst, 8, 0, 3, 17, 3)
		} else {
			x.pack(dst, 8, 17, 3, 0, 3)
		}
		for p := range 3 {
			for j := range 3 {
				want := float32(p*20 + 17 + j)
				if x.inner {
					want = float32(j*20 + 17 + p)
				}
				if dst[p*8+j] != want {
					t.Errorf("inner %v: step %d, element %d is %v, want %v", x.inner, p, j, dst[p*8+j], want)
				}
			}
		}
	}
}
