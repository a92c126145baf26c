package kernel

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
	"pgregory.net/rapid"
)

// batchNormCase is a batch normalisation with operands and results.
type batchNormCase struct {
	BatchNorm
	BatchNormParams
	residual bool
	frozen   bool // evaluation

	x, r, y, dy, dx, dr, dgamma, dbeta []float32
}

func newBatchNormCase(g BatchNorm, residual, frozen bool, seed uint64) *batchNormCase {
	r := newRand(seed)
	c := &batchNormCase{BatchNorm: g, residual: residual, frozen: frozen}
	c.x, c.dy = randomFloats(r, g.Len()), randomFloats(r, g.Len())
	c.y, c.dx = make([]float32, g.Len()), make([]float32, g.Len())
	if residual {
		c.r = randomFloats(r, g.Len())
	}
	if residual && g.ReLU {
		c.dr = make([]float32, g.Len())
	}
	c.Gamma, c.Beta = randomFloats(r, g.C), randomFloats(r, g.C)
	c.RunningMean, c.RunningVar = randomFloats(r, g.C), randomFloats(r, g.C)
	for i, v := range c.RunningVar {
		c.RunningVar[i] = abs32(v) + 0.5
	}
	c.Mean, c.InvStd, c.dgamma, c.dbeta = make([]float32, g.C), make([]float32, g.C), make([]float32, g.C), make([]float32, g.C)
	return c
}

func (c *batchNormCase) compute(p *Pool) {
	if c.frozen {
		BatchNormEval(p, c.BatchNorm, c.BatchNormParams, c.x, c.r, c.y)
		BatchNormEvalBackward(p, c.BatchNorm, c.BatchNormParams, c.x, c.y, c.dy, c.dx, c.dr, c.dgamma, c.dbeta)
		return
	}
	BatchNormTrain(p, c.BatchNorm, c.BatchNormParams, c.x, c.r, c.y)
	BatchNormBackward(p, c.BatchNorm, c.BatchNormParams, c.x, c.y, c.dy, c.dx, c.dr, c.dgamma, c.dbeta)
}

func (c *batchNormCase) channel(i int) int { return i / c.Plane % c.C }

// batchNormReference holds the results in float64.
type batchNormReference struct{ mean, variance, y, dx, dr, dgamma, dbeta, dgammaTerms, dbetaTerms []float64 }

func toFloat64(x []float32) []float64 {
	var out []float64
	for _, v := range x {
		out = append(out, float64(v))
	}
	return out
}

// reference computes everything from the definition.
func (c *batchNormCase) reference(x, gamma, beta []float64) *batchNormReference {
	zeros := func(n int) []float64 { return make([]float64, n) }
	n, m := c.Len(), float64(c.N*c.Plane)
	w := &batchNormReference{zeros(c.C), zeros(c.C), zeros(n), zeros(n), zeros(n), zeros(c.C), zeros(c.C), zeros(c.C), zeros(c.C)}
	for i, v := range x {
		w.mean[c.channel(i)] += v / m
	}
	for i, v := range x {
		d := v - w.mean[c.channel(i)]
		w.variance[c.channel(i)] += d * d / m
	}
	if c.frozen {
		w.mean, w.variance = toFloat64(c.RunningMean), toFloat64(c.RunningVar)
	}
	xhat, g := zeros(n), zeros(n)
	for i, v := range x {
		ch := c.channel(i)
		xhat[i] = (v - w.mean[ch]) / math.Sqrt(w.variance[ch]+c.Eps)
		w.y[i] = xhat[i]*gamma[ch] + beta[ch]
		if c.residual {
			w.y[i] += float64(c.r[i])
		}
		g[i] = float64(c.dy[i])
		if c.ReLU && w.y[i] <= 0 {
			w.y[i], g[i] = 0, 0
		}
		w.dr[i] = g[i]
		w.dgamma[ch] += g[i] * xhat[i]
		w.dbeta[ch] += g[i]
		// x and the mean are rounded before their difference is taken.
		w.dgammaTerms[ch] += math.Abs(g[i]) * (math.Abs(v) + math.Abs(w.mean[ch])) / math.Sqrt(w.variance[ch]+c.Eps)
		w.dbetaTerms[ch] += math.Abs(g[i])
	}
	for i := range x {
		ch := c.channel(i)
		d := g[i]
		if !c.frozen {
			d -= (w.dbeta[ch] + xhat[i]*w.dgamma[ch]) / m
		}
		w.dx[i] = d * gamma[ch] / math.Sqrt(w.variance[ch]+c.Eps)
	}
	return w
}

func (c *batchNormCase) check(t failer, tol float64) {
	t.Helper()
	w := c.reference(toFloat64(c.x), toFloat64(c.Gamma), toFloat64(c.Beta))
	for i, v := range c.y { // gamma*xhat and beta, of about 1, may cancel
		if !(math.Abs(float64(v)-w.y[i]) <= tol*max(1, math.Abs(w.y[i]))) {
			t.Fatalf("output %d is %g, want %g", i, v, w.y[i])
		}
	}
	c.checkSums(t, "dgamma", c.dgamma, w.dgamma, w.dgammaTerms)
	c.checkSums(t, "dbeta", c.dbeta, w.dbeta, w.dbetaTerms)
	for i, v := range c.dx { // differences that may cancel, of terms of about this size
		ch := c.channel(i)
		size := max(1, math.Abs(float64(c.Gamma[ch])/math.Sqrt(w.variance[ch]+c.Eps)))
		if math.Abs(float64(v)-w.dx[i]) > tol*size {
			t.Fatalf("dx %d is %g, want %g", i, v, w.dx[i])
		}
	}
	if c.dr != nil {
		checkNear(t, "dresidual", c.dr, w.dr, tol)
	}
	for i, v := range c.Mean {
		if !c.frozen && math.Abs(float64(v)-w.mean[i]) > 1e-6 {
			t.Fatalf("mean %d is %g, want %g", i, v, w.mean[i])
		}
	}
}

// checkSums compares sums whose terms may cancel: the error is held against
// the sum of the terms' absolute values.
func (c *batchNormCase) checkSums(t failer, name string, got []float32, want, terms []float64) {
	t.Helper()
	const tol = 1e-6 // a few float32 roundings
	for ch, v := range got {
		if !(math.Abs(float64(v)-want[ch]) <= tol*terms[ch]) {
			t.Fatalf("%s %d is %g, want %g (of terms that add up to %g in absolute value)", name, ch, v, want[ch], terms[ch])
		}
	}
}

// nearKink tells whether rounding may decide what ReLU does with an entry.
func (c *batchNormCase) nearKink() bool {
	if !c.ReLU {
		return false
	}
	plain := *c
	plain.ReLU = false
	w := plain.reference(toFloat64(c.x), toFloat64(c.Gamma), toFloat64(c.Beta))
	return slices.ContainsFunc(w.y, func(v float64) bool { return math.Abs(v) < 1e-4 })
}

// Any geometry and any variant agrees with the definition.
func TestBatchNormRandomGeometry(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	withVectors(t, func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			g := BatchNorm{
				N: rapid.IntRange(2, 5).Draw(rt, "n"), C: rapid.IntRange(1, 4).Draw(rt, "c"),
				Plane: rapid.SampledFrom([]int{1, 2, 7, 16, 31, 33, 49, 64, 100}).Draw(rt, "plane"),
				Eps:   1e-3, Momentum: 0.1, ReLU: rapid.Bool().Draw(rt, "relu"),
			}
			c := newBatchNormCase(g, rapid.Bool().Draw(rt, "residual"), rapid.Bool().Draw(rt, "frozen"), uint64(rapid.IntRange(0, 1<<20).Draw(rt, "seed")))
			if c.nearKink() {
				rt.Skip("rounding decides what ReLU does")
			}
			c.compute(p)
			c.check(rt, 2e-5)
		})
	})
}

// The formulas of the gradients are the difference quotients of the output.
func TestBatchNormGradients(t *testing.T) {
	for _, relu := range []bool{false, true} {
		for _, frozen := range []bool{false, true} {
			c := newBatchNormCase(BatchNorm{N: 3, C: 2, Plane: 4, Eps: 1e-5, ReLU: relu}, true, frozen, 3)
			x, gamma, beta := toFloat64(c.x), toFloat64(c.Gamma), toFloat64(c.Beta)
			loss := func() (sum float64) {
				for i, v := range c.reference(x, gamma, beta).y {
					sum += v * float64(c.dy[i])
				}
				return sum
			}
			w := c.reference(x, gamma, beta)
			for name, of := range map[string]struct{ at, want []float64 }{"x": {x, w.dx}, "gamma": {gamma, w.dgamma}, "beta": {beta, w.dbeta}} {
				for i := range of.at {
					const h = 1e-6
					old := of.at[i]
					of.at[i] = old + h
					up := loss()
					of.at[i] = old - h
					quotient := (up - loss()) / (2 * h)
					of.at[i] = old
					if math.Abs(quotient-of.want[i]) > 1e-6 {
						t.Errorf("relu %v, frozen %v: gradient of %s[%d] is %g, difference quotient %g", relu, frozen, name, i, of.want[i], quotient)
					}
				}
			}
		}
	}
}

// The statistics are sound where the mean is large, the images differ, the
// variance is zero, planes are larger than a block, and one image is all there is.
func TestBatchNormStatistics(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			n, plane int
			value    func(i int) float32
		}{
			"large mean":         {8, 1024, func(i int) float32 { return 10000 + float32(i*7919%13)/16 }},
			"images differ":      {8, 1000, func(i int) float32 { return float32(i/1000*1000) + float32(i%5) }},
			"zero variance":      {8, 49, func(int) float32 { return 0.1 }},
			"large plane":        {1, 10000, func(i int) float32 { return float32(i*31%17) - 3 }},
			"one image":          {1, 5, func(i int) float32 { return float32(i) }},
			"one entry":          {1, 1, func(int) float32 { return 3 }},
			"large and constant": {4, 64, func(int) float32 { return 0x1p100 }},
		} {
			g := BatchNorm{N: test.n, C: 1, Plane: test.plane, Eps: 1e-5, Momentum: 0.25}
			c := newBatchNormCase(g, false, false, 1)
			for i := range c.x {
				c.x[i] = test.value(i)
			}
			before := float64(c.RunningVar[0])
			c.compute(nil)
			w := c.reference(toFloat64(c.x), toFloat64(c.Gamma), toFloat64(c.Beta))
			m := float64(g.N * g.Plane)
			inv := 1 / math.Sqrt(w.variance[0]+g.Eps)
			if e := math.Abs(float64(c.InvStd[0])/inv - 1); e > 1e-6 {
				t.Errorf("%s: inverse deviation %g, want %g", name, c.InvStd[0], inv)
			}
			if e := math.Abs(float64(c.Mean[0]) - w.mean[0]); e > 1e-7*math.Abs(w.mean[0]) {
				t.Errorf("%s: mean %g, want %g", name, c.Mean[0], w.mean[0])
			}
			if want := 0.75*before + 0.25*w.variance[0]*m/max(m-1, 1); math.Abs(float64(c.RunningVar[0])/want-1) > 1e-6 {
				t.Errorf("%s: running variance %g, want %g", name, c.RunningVar[0], want)
			}
			for i, v := range c.y {
				if math.Abs(float64(v)-w.y[i]) > 1e-3 {
					t.Fatalf("%s: output %d is %g, want %g", name, i, v, w.y[i])
				}
				if w.variance[0] == 0 && v != c.Beta[0] {
					t.Fatalf("%s: output %d is %g, want beta %g", name, i, v, c.Beta[0])
				}
			}
		}
	})
}

// A NaN spoils its channel and no other, forward and backward, even under ReLU.
func TestBatchNormNaN(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, residual := range []bool{false, true} {
			c := newBatchNormCase(BatchNorm{N: 2, C: 2, Plane: 9, Eps: 1e-5, ReLU: true}, residual, false, 5)
			c.x[3] = nan
			c.compute(nil)
			for i := range c.y {
				bad := c.channel(i) == 0
				if (c.y[i] != c.y[i]) != bad || (c.dx[i] != c.dx[i]) != bad {
					t.Fatalf("residual %v: entry %d: output %v, gradient %v", residual, i, c.y[i], c.dx[i])
				}
			}
		}
	})
}

// The bits do not depend on the threads or on the vectors, and nothing is
// allocated in the steady state.
func TestBatchNormSameBits(t *testing.T) {
	for _, plane := range []int{1, 49, 64, 5000} {
		for _, relu := range []bool{false, true} {
			for _, residual := range []bool{false, true} {
				var want *batchNormCase
				withVectors(t, func(t *testing.T) {
					for threads := 1; threads <= 3; threads++ {
						p := NewPool(threads)
						c := newBatchNormCase(BatchNorm{N: 5, C: 3, Plane: plane, Eps: 1e-5, Momentum: 0.1, ReLU: relu}, residual, false, 9)
						c.compute(p)
						if want == nil {
							want = c
						}
						running := slices.Clone(c.RunningVar)
						if n := steady.Allocs(3, func() { c.compute(p) }); n > 0 {
							t.Errorf("%v allocations, want none", n)
						}
						copy(c.RunningVar, running)
						checkSame(t, "output", c.y, want.y)
						checkSame(t, "dx", c.dx, want.dx)
						checkSame(t, "dgamma", c.dgamma, want.dgamma)
						checkSame(t, "dbeta", c.dbeta, want.dbeta)
						checkSame(t, "dresidual", c.dr, want.dr)
						checkSame(t, "running variance", c.RunningVar, want.RunningVar)
						p.Close()
					}
				})
			}
		}
	}
}

// Gradients may be written over dy, and missing parameters count as one and zero.
func TestBatchNormInPlace(t *testing.T) {
	c := newBatchNormCase(BatchNorm{N: 3, C: 2, Plane: 20, Eps: 1e-5, ReLU: true}, true, false, 2)
	c.Gamma, c.Beta = nil, nil
	c.compute(nil)
	dx, dr, dgamma := slices.Clone(c.dx), slices.Clone(c.dr), slices.Clone(c.dgamma)
	g := slices.Clone(c.dy)
	BatchNormBackward(nil, c.BatchNorm, c.BatchNormParams, c.x, c.y, g, c.dx, g, nil, nil)
	checkSame(t, "dx", c.dx, dx)
	checkSame(t, "dresidual over dy", g, dr)
	copy(g, c.dy)
	BatchNormBackward(nil, c.BatchNorm, c.BatchNormParams, c.x, c.y, g, g, c.dr, c.dgamma, nil)
	checkSame(t, "dx over dy", g, dx)
	checkSame(t, "dgamma", c.dgamma, dgamma)
	c.Gamma, c.Beta = []float32{1, 1}, []float32{0, 0}
	c.compute(nil)
	checkSame(t, "dx with parameters", c.dx, dx)
}

func TestBatchNormRefuses(t *testing.T) {
	good := BatchNorm{N: 2, C: 3, Plane: 4, Eps: 1e-5, Momentum: 0.1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(g *BatchNorm){
		"batch size 0, want at least 1":       func(g *BatchNorm) { g.N = 0 },
		"input 1073741824x3x1073741824, want": func(g *BatchNorm) { g.N, g.Plane = 1<<30, 1<<30 },
		"epsilon -1, want at least 0":         func(g *BatchNorm) { g.Eps = -1 },
		"momentum NaN, want 0 to 1":           func(g *BatchNorm) { g.Momentum = math.NaN() },
	} {
		g := good
		change(&g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c := newBatchNormCase(good, false, false, 1)
	for want, f := range map[string]func(){
		"the input has 23 entries, want at least 24": func() { BatchNormTrain(nil, good, c.BatchNormParams, c.x[:23], nil, c.y) },
		"the residual has 1 ":                        func() { BatchNormTrain(nil, good, c.BatchNormParams, c.x, c.x[:1], c.y) },
		"the means has 0 entries":                    func() { BatchNormTrain(nil, good, BatchNormParams{}, c.x, nil, c.y) },
		"the running means has 0 entries":            func() { BatchNormEval(nil, good, BatchNormParams{}, c.x, nil, c.y) },
		"the gradient of the residual is dy": func() {
			BatchNormBackward(nil, good, c.BatchNormParams, c.x, nil, c.dy, c.dx, c.dx, nil, nil)
		},
	} {
		if got := fmt.Sprint(catch(f)); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
}

func BenchmarkBatchNorm(b *testing.B) {
	p := NewPool(runtime.GOMAXPROCS(0))
	defer p.Close()
	for _, g := range []BatchNorm{{N: 128, C: 16, Plane: 1024}, {N: 128, C: 32, Plane: 256}, {N: 128, C: 64, Plane: 64}, {N: 64, C: 64, Plane: 1024}, {N: 128, C: 512, Plane: 1}} {
		for _, residual := range []bool{false, true} {
			g.Eps, g.Momentum, g.ReLU = 1e-5, 0.1, true
			c := newBatchNormCase(g, residual, false, 1)
			name := fmt.Sprintf("%dx%dx%d", g.N, g.C, g.Plane)
			if residual {
				name += "/residual"
			}
			b.Run("forward/"+name, func(b *testing.B) {
				b.SetBytes(int64(4 * g.Len()))
				for b.Loop() {
					BatchNormTrain(p, c.BatchNorm, c.BatchNormParams, c.x, c.r, c.y)
				}
			})
			b.Run("backward/"+name, func(b *testing.B) {
				b.SetBytes(int64(4 * g.Len()))
				for b.Loop() {
					BatchNormBackward(p, c.BatchNorm, c.BatchNormParams, c.x, c.y, c.dy, c.dx, c.dr, c.dgamma, c.dbeta)
				}
			})
		}
	}
}
