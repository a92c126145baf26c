package coded

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBerrut estimates a small network of blocks, tanh(v . tanh(A_i)), from the
// answers of all and of some workers. The error falls as workers become more.
func TestBerrut(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	v := normalRow(rng, 6)
	f := func(a []float64) float64 {
		var sum float64
		for j := range a {
			sum += v[j] * math.Tanh(a[j])
		}
		return math.Tanh(sum)
	}
	const blocks = 4
	a := make([][]float64, blocks)
	for i := range a {
		a[i] = normalRow(rng, len(v))
	}
	errorOf := func(n, lost int) float64 {
		c, err := New(Spec{Name: "berrut", N: n, K: blocks})
		if err != nil {
			t.Fatal(err)
		}
		have := rng.Perm(n)[lost:]
		w, err := NewDecoder(c, DecoderConfig{}).Weights(have)
		if err != nil {
			t.Fatal(err)
		}
		var square float64
		for i := range blocks {
			e := f(a[i])
			for r, task := range w.Have {
				e -= w.Row(i)[r] * f(combination(c.Row(task), a))
			}
			square += e * e / blocks
		}
		return math.Sqrt(square)
	}
	few, many, missing := errorOf(16, 0), errorOf(256, 0), errorOf(256, 32)
	if few > 0.3 || many > 0.02 || missing > 0.1 || many > few {
		t.Errorf("errors %.3g from 16 workers, %.3g from 256, %.3g from 224 of those", few, many, missing)
	}
}

// combination gives sum_i w_i x_i.
func combination(w []float64, xs [][]float64) []float64 {
	sum := make([]float64, len(xs[0]))
	for i, x := range xs {
		for j, v := range x {
			sum[j] += w[i] * v
		}
	}
	return sum
}

// TestBerrutRow: the weights are those of an interpolant of constants, and of the
// node itself at a node.
func TestBerrutRow(t *testing.T) {
	nodes := extremalPoints(7)
	if nodes[0] != 1 || nodes[6] != -1 || extremalPoints(1)[0] != 1 {
		t.Errorf("nodes %v", nodes)
	}
	for _, z := range []float64{-0.99, -0.3, 0.1, 0.77} {
		var sum float64
		for _, w := range berrutRow(nodes, z) {
			sum += w
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("the weights at %g add up to %g", z, sum)
		}
	}
	if got := berrutRow(nodes, nodes[2]); !slices.Equal(got, unit(7, 2)) {
		t.Errorf("the weights at node 2 are %v", got)
	}
}

// TestSketch: the residual falls below that of plain averaging, (P-1)/t, and to
// nothing when the sketches span all products.
func TestSketch(t *testing.T) {
	c, err := New(Spec{Name: "sketch", N: 64, P: 4, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(c, DecoderConfig{})
	last := math.Inf(1)
	for _, results := range []int{1, 3, 6, 12, 64} {
		have := make([]int, results)
		for i := range have {
			have[i] = i
		}
		w, err := d.Weights(have)
		if err != nil {
			t.Fatal(err)
		}
		if mean := 3 / float64(results); w.Residual > mean || w.Residual > last+1e-12 {
			t.Errorf("%d results leave %.3g, averaging %.3g, fewer results %.3g", results, w.Residual, mean, last)
		}
		last = w.Residual
	}
	if last > 1e-20 {
		t.Errorf("64 sketches leave %.3g", last)
	}
}
