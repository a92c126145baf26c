package kernel

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
	"pgregory.net/rapid"
)

// checkQuotients compares grad with the difference quotients of a loss as a
// function of x, which the loss reads in float64.
func checkQuotients(t failer, what string, x []float64, grad []float32, loss func() float64, tol float64) {
	t.Helper()
	for i := range x {
		const h = 1e-5
		old := x[i]
		x[i] = old + h
		up := loss()
		x[i] = old - h
		quotient := (up - loss()) / (2 * h)
		x[i] = old
		if math.Abs(quotient-float64(grad[i])) > tol*max(1, math.Abs(quotient)) {
			t.Fatalf("%s: gradient %d is %g, difference quotient %g", what, i, grad[i], quotient)
		}
	}
}

func weighted(y []float64, dy []float32) (sum float64) {
	for i, v := range y {
		sum += v * float64(dy[i])
	}
	return sum
}

// onThreads runs a computation with 1, 2 and 3 threads and every set of vectors:
// the results must have the same bits, and cost no allocation.
func onThreads(t *testing.T, compute func(p *Pool) [][]float32) {
	var want [][]float32
	withVectors(t, func(t *testing.T) {
		for threads := 1; threads <= 3; threads++ {
			p := NewPool(threads)
			got := compute(p)
			if want == nil {
				for _, x := range got {
					want = append(want, slices.Clone(x))
				}
			}
			for i := range got {
				checkSame(t, fmt.Sprintf("%d threads: result %d", threads, i), got[i], want[i])
			}
			p.Close()
		}
	})
}

func layerNormReference(g LayerNorm, x, gamma, beta []float64) []float64 {
	y := make([]float64, len(x))
	for r := range g.Rows {
		row := x[r*g.Cols:][:g.Cols]
		mean, variance := 0.0, 0.0
		for _, v := range row {
			mean += v / float64(g.Cols)
		}
		for _, v := range row {
			variance += (v - mean) * (v - mean) / float64(g.Cols)
		}
		for j, v := range row {
			y[r*g.Cols+j] = (v-mean)/math.Sqrt(variance+g.Eps)*gamma[j] + beta[j]
		}
	}
	return y
}

func TestLayerNormLaws(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			g := LayerNorm{Rows: rapid.IntRange(1, 20).Draw(rt, "rows"), Cols: rapid.IntRange(2, 70).Draw(rt, "cols"), Eps: 1e-2}
			r := newRand(uint64(rapid.IntRange(0, 1<<20).Draw(rt, "seed")))
			x, gamma, beta, dy := randomFloats(r, g.Rows*g.Cols), randomFloats(r, g.Cols), randomFloats(r, g.Cols), randomFloats(r, g.Rows*g.Cols)
			y, dx := make([]float32, len(x)), make([]float32, len(x))
			mean, inv := make([]float32, g.Rows), make([]float32, g.Rows)
			dgamma, dbeta := make([]float32, g.Cols), make([]float32, g.Cols)
			LayerNormForward(nil, g, x, gamma, beta, y, mean, inv)
			LayerNormBackward(nil, g, x, gamma, mean, inv, dy, dx, dgamma, dbeta)
			wx, wg, wb := toFloat64(x), toFloat64(gamma), toFloat64(beta)
			checkNear(rt, "output", y, layerNormReference(g, wx, wg, wb), 1e-5)
			loss := func() float64 { return weighted(layerNormReference(g, wx, wg, wb), dy) }
			if len(x) <= 60 {
				checkQuotients(rt, "x", wx, dx, loss, 1e-4)
				checkQuotients(rt, "gamma", wg, dgamma, loss, 1e-4)
				checkQuotients(rt, "beta", wb, dbeta, loss, 1e-4)
			}
		})
	})
}

func TestLayerNormSameBits(t *testing.T) {
	g := LayerNorm{Rows: 37, Cols: 5000, Eps: 1e-5}
	x, dy := randomFloats(newRand(1), g.Rows*g.Cols), randomFloats(newRand(2), g.Rows*g.Cols)
	y, dx := make([]float32, len(x)), make([]float32, len(x))
	mean, inv, dgamma, dbeta := make([]float32, g.Rows), make([]float32, g.Rows), make([]float32, g.Cols), make([]float32, g.Cols)
	onThreads(t, func(p *Pool) [][]float32 {
		step := func() {
			LayerNormForward(p, g, x, nil, nil, y, mean, inv)
			LayerNormBackward(p, g, x, nil, mean, inv, dy, dx, dgamma, dbeta)
		}
		step()
		if n := steady.Allocs(2, step); n > 0 {
			t.Errorf("%v allocations, want none", n)
		}
		return [][]float32{y, dx, dgamma, dbeta}
	})
	x[7] = nan
	LayerNormForward(nil, g, x, nil, nil, y, mean, inv)
	if y[0] == y[0] || y[g.Cols] != y[g.Cols] {
		t.Errorf("after a NaN in row 0: row 0 starts with %v, row 1 with %v", y[0], y[g.Cols])
	}
}

func TestSoftmaxLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, cols := rapid.IntRange(1, 5).Draw(rt, "rows"), rapid.IntRange(2, 40).Draw(rt, "cols")
		r := newRand(uint64(rapid.IntRange(0, 1<<20).Draw(rt, "seed")))
		x, dy := randomFloats(r, rows*cols), randomFloats(r, rows*cols)
		reference := func(x []float64, log bool) []float64 {
			y := make([]float64, len(x))
			for i := range y {
				sum := 0.0
				for _, v := range x[i/cols*cols:][:cols] {
					sum += math.Exp(v)
				}
				y[i] = x[i] - math.Log(sum)
				if !log {
					y[i] = math.Exp(y[i])
				}
			}
			return y
		}
		y, dx, wx := make([]float32, len(x)), make([]float32, len(x)), toFloat64(x)
		Softmax(nil, y, x, rows, cols)
		checkNear(rt, "softmax", y, reference(wx, false), 1e-6)
		SoftmaxBackward(nil, dx, dy, y, rows, cols)
		checkQuotients(rt, "softmax", wx, dx, func() float64 { return weighted(reference(wx, false), dy) }, 1e-5)
		LogSoftmax(nil, y, x, rows, cols)
		checkNear(rt, "log softmax", y, reference(wx, true), 1e-6)
		LogSoftmaxBackward(nil, dx, dy, y, rows, cols)
		checkQuotients(rt, "log softmax", wx, dx, func() float64 { return weighted(reference(wx, true), dy) }, 1e-5)
	})
}

func TestSoftmaxRowsExtremes(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		x := []float32{1e4, -1e4, 0, nan, 1, 2, inf, 0, 0, -inf, -inf, -inf, -inf, 5, -inf}
		y, l := make([]float32, len(x)), make([]float32, len(x))
		Softmax(nil, y, x, 5, 3)
		LogSoftmax(nil, l, x, 5, 3)
		for i, want := range []float32{1, 0, 0, nan, nan, nan, nan, nan, nan, nan, nan, nan, 0, 1, 0} {
			if !sameBits(y[i], want) {
				t.Errorf("softmax %d is %v, want %v", i, y[i], want)
			}
		}
		for i, want := range []float32{0, -2e4, -1e4, nan, nan, nan, nan, nan, nan, nan, nan, nan, -inf, 0, -inf} {
			if l[i] != want && !sameBits(l[i], want) {
				t.Errorf("log softmax %d is %v, want %v", i, l[i], want)
			}
		}
	})
}

func TestSoftmaxRowsSameBits(t *testing.T) {
	for _, cols := range []int{10, 3001} {
		rows := 9000 / cols * 3
		x, dy := randomFloats(newRand(1), rows*cols), randomFloats(newRand(2), rows*cols)
		var y [6][]float32
		for i := range y {
			y[i] = make([]float32, rows*cols)
		}
		onThreads(t, func(p *Pool) [][]float32 {
			step := func() {
				Softmax(p, y[0], x, rows, cols)
				SoftmaxBackward(p, y[1], dy, y[0], rows, cols)
				LogSoftmax(p, y[2], x, rows, cols)
				LogSoftmaxBackward(p, y[3], dy, y[2], rows, cols)
			}
			step()
			if n := steady.Allocs(2, step); n > 0 {
				t.Errorf("%v allocations, want none", n)
			}
			return y[:]
		})
	}
}

func TestEmbeddingLaws(t *testing.T) {
	const vocabulary, dim, n = 11, 5, 300
	r := newRand(4)
	w, dy, ids := randomFloats(r, vocabulary*dim), randomFloats(r, n*dim), make([]int32, n)
	for i := range ids {
		ids[i] = r.Int32N(vocabulary - 1) // the last word does not occur
	}
	y, dw, want := make([]float32, n*dim), make([]float32, vocabulary*dim), make([]float32, vocabulary*dim)
	for i, id := range ids {
		for j := range dim {
			want[int(id)*dim+j] += dy[i*dim+j]
		}
	}
	onThreads(t, func(p *Pool) [][]float32 {
		if a := steady.Allocs(2, func() {
			if Embedding(p, w, vocabulary, dim, ids, y) != nil || EmbeddingBackward(p, dy, vocabulary, dim, ids, dw) != nil {
				t.Error("valid ids are refused")
			}
		}); a > 0 {
			t.Errorf("%v allocations, want none", a)
		}
		return [][]float32{y, dw}
	})
	checkSame(t, "gradient", dw, want)
	for i, id := range ids {
		checkSame(t, "row", y[i*dim:(i+1)*dim], w[int(id)*dim:][:dim])
	}
	for _, id := range []int32{-1, vocabulary} {
		bad := []int32{0, id}
		for _, err := range []error{Embedding(nil, w, vocabulary, dim, bad, y), EmbeddingBackward(nil, dy, vocabulary, dim, bad, dw)} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("id %d at position 1, want 0 to 10", id)) {
				t.Errorf("id %d: error %v", id, err)
			}
		}
	}
}

func TestAvgPoolLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(rt, name) }
		g := AvgPool{
			N: draw("n", 1, 2), C: draw("c", 1, 2), H: draw("h", 1, 6), W: draw("w", 1, 6), KH: draw("kh", 1, 3), KW: draw("kw", 1, 3),
			StrideH: draw("sh", 1, 3), StrideW: draw("sw", 1, 3), ExcludePad: rapid.Bool().Draw(rt, "exclude"),
		}
		g.PadH, g.PadW = draw("ph", 0, g.KH/2), draw("pw", 0, g.KW/2)
		if g.Validate() != nil {
			rt.Skip("the window does not fit")
		}
		r := newRand(uint64(draw("seed", 0, 1<<20)))
		x, dy := randomFloats(r, g.InLen()), randomFloats(r, g.OutLen())
		y, dx, wx := make([]float32, g.OutLen()), make([]float32, g.InLen()), toFloat64(x)
		reference := func() []float64 {
			out := make([]float64, g.OutLen())
			for i := range out {
				plane, row, col := i/(g.OutH()*g.OutW()), i/g.OutW()%g.OutH(), i%g.OutW()
				count := 0
				for k := range g.KH * g.KW {
					h, w := row*g.StrideH-g.PadH+k/g.KW, col*g.StrideW-g.PadW+k%g.KW
					if h >= 0 && h < g.H && w >= 0 && w < g.W {
						out[i] += wx[(plane*g.H+h)*g.W+w]
						count++
					}
				}
				if !g.ExcludePad {
					count = g.KH * g.KW
				}
				out[i] /= float64(count)
			}
			return out
		}
		AvgPoolForward(nil, g, x, y)
		for i, want := range reference() {
			if math.Abs(float64(y[i])-want) > 1e-6 {
				rt.Fatalf("output %d is %g, want %g", i, y[i], want)
			}
		}
		AvgPoolBackward(nil, g, dy, dx)
		checkQuotients(rt, "x", wx, dx, func() float64 { return weighted(reference(), dy) }, 1e-5)
	})
}

func TestAvgPoolSameBits(t *testing.T) {
	g := AvgPool{N: 5, C: 3, H: 9, W: 7, KH: 3, KW: 2, StrideH: 2, StrideW: 1, PadH: 1}
	x := randomFloats(newRand(1), g.InLen())
	y, dx := make([]float32, g.OutLen()), make([]float32, g.InLen())
	planes, size := 70*3, 49
	large := randomFloats(newRand(2), planes*size)
	means, spread := make([]float32, planes), make([]float32, planes*size)
	onThreads(t, func(p *Pool) [][]float32 {
		if n := steady.Allocs(2, func() {
			AvgPoolForward(p, g, x, y)
			AvgPoolBackward(p, g, y, dx)
			GlobalAvgPool(p, planes, size, large, means)
			GlobalAvgPoolBackward(p, planes, size, means, spread)
		}); n > 0 {
			t.Errorf("%v allocations, want none", n)
		}
		return [][]float32{y, dx, means, spread}
	})
	large[size+3] = nan
	if GlobalAvgPool(nil, planes, size, large, means); means[0] != means[0] || means[1] == means[1] {
		t.Errorf("after a NaN in plane 1: means %v", means[:2])
	}
}

func TestAvgPoolValidate(t *testing.T) {
	good := AvgPool{N: 1, C: 2, H: 6, W: 6, KH: 3, KW: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(g *AvgPool){
		"channels 0, want at least 1":                   func(g *AvgPool) { g.C = 0 },
		"padding 2x1, want at most half":                func(g *AvgPool) { g.PadH = 2 },
		"kernel 3x9 is larger than the padded":          func(g *AvgPool) { g.KW = 9 },
		"input 1073741824x2x1073741824x6, want at most": func(g *AvgPool) { g.N, g.H = 1<<30, 1<<30 },
	} {
		g := good
		change(&g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
