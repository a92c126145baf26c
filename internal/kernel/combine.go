package kernel

import "fmt"

// Combine sets dst = w[0]*xs[0] + w[1]*xs[1] + ..., summed in the order of the
// index. Inputs may be longer than dst, which may be the first of them. With no
// inputs dst is set to 0.
func Combine(dst []float32, w []float32, xs [][]float32) {
	if len(w) != len(xs) {
		panic(fmt.Sprintf("kernel: combine: %d weights for %d inputs", len(w), len(xs)))
	}
	for i, x := range xs {
		if len(x) < len(dst) {
			panic(fmt.Sprintf("kernel: combine: input %d has %d elements, the destination has %d", i, len(x), len(dst)))
		}
	}
	switch {
	case len(dst) == 0:
	case len(xs) == 0:
		clear(dst)
	default:
		t := combineAlls.get()
		for _, v := range w {
			t.addWeight(v)
		}
		t.one[0] = dst
		combineVec(t.one[:], 0, t.weights, xs, 0, len(dst), false, carry{})
		t.release()
	}
}

// CombineAll makes several weighted sums of the same inputs,
//
//	dst[s] = w[s][0]*xs[0] + w[s][1]*xs[1] + ...
//
// over rows x cols matrices with row strides ldd (of every dst) and ldx (of every
// input), so that blocks of wider matrices are read and written. Weights are
// rounded to float32; products are summed in the order of the index. An input
// with weight 0 is left out of that sum, whatever it holds, and a sum without
// inputs is 0. No dst may overlap an input or another dst.
//
// However many the sums, each input is read from memory once: they are made tile
// by tile. Results that are too large for the caches bypass them.
func CombineAll(p *Pool, dst [][]float32, ldd int, w [][]float64, xs [][]float32, ldx, rows, cols int) {
	checkCombineAll(dst, ldd, w, xs, ldx, rows, cols)
	if len(dst) == 0 || rowsOf(rows, cols) == 0 {
		return
	}
	if ldd == cols && ldx == cols {
		rows, cols = 1, rows*cols
	}
	t := combineAlls.get()
	t.dst, t.xs, t.ldd, t.ldx, t.rows, t.cols = dst, xs, ldd, ldx, rows, cols
	t.plan(w)
	p.run(t.parts(), t)
	t.release()
}

func checkCombineAll(dst [][]float32, ldd int, w [][]float64, xs [][]float32, ldx, rows, cols int) {
	const op = "combine all"
	if len(w) != len(dst) {
		panic(fmt.Sprintf("kernel: %s: weights of %d sums for %d destinations", op, len(w), len(dst)))
	}
	for s, d := range dst {
		if len(w[s]) != len(xs) {
			panic(fmt.Sprintf("kernel: %s: %d weights of sum %d for %d inputs", op, len(w[s]), s, len(xs)))
		}
		if !blockFits(len(d), ldd, rows, cols) {
			checkBlock(op, fmt.Sprintf("destination %d", s), d, ldd, rows, cols)
		}
	}
	for i, x := range xs {
		if !blockFits(len(x), ldx, rows, cols) {
			checkBlock(op, fmt.Sprintf("input %d", i), x, ldx, rows, cols)
		}
	}
}
