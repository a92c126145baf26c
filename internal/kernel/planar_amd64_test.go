//go:build !noasm

package kernel

import "testing"

// The functions that enter assembly check every length first.
func TestPlanarShortSlicesPanic(t *testing.T) {
	x, y := make([]float32, 80), make([]float32, 40)
	off := [tapBlock]int{0, 1, 2, 3, 4}
	for name, run := range map[string]func(){
		"sums, source":         func() { tapSumsVec(y, 10, x[:73], 15, x, off[:], 4, 10, 0, 0) },
		"sums, results":        func() { tapSumsVec(y[:39], 10, x[:74], 15, x, off[:], 4, 10, 0, 0) },
		"sums, weights":        func() { tapSumsVec(y, 10, x, 15, x[:4], off[:], 2, 10, 0, 0) },
		"products, sums":       func() { tapDotsVec(x[:79], y, 10, x, 10, &off, 2, 10) },
		"products, source":     func() { tapDotsVec(make([]float32, 80), y, 10, x[:38], 10, &off, 2, 10) },
		"pairs apart":          func() { splitPairsVec(x[:13], x, 10, y, 2, 7) },
		"odd pairs apart":      func() { splitPairsVec(x, x[:12], 10, y, 2, 7) },
		"pairs, source":        func() { splitPairsVec(x, x, 10, y[:13], 2, 7) },
		"pairs joined":         func() { joinPairsVec(x[:16], 10, y, y, 10, 2, 7) },
		"pairs joined, pieces": func() { joinPairsVec(x, 10, y[:13], y, 10, 2, 7) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			run()
		}()
	}
	for i, v := range append(x, y...) {
		if v != 0 {
			t.Fatalf("entry %d was written", i)
		}
	}
}
