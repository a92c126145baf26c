package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

func TestLossLaws(t *testing.T) {
	r := newRand(6)
	x, target := randomFloats(r, 3*lossChunk/2), randomFloats(r, 3*lossChunk/2)
	for i, v := range target {
		target[i] = sigmoid32(v)
	}
	for name, loss := range map[string]struct {
		run   func(p *Pool, x, target, grad []float32) float64
		value func(x, t float64) float64
	}{
		"mse": {MSE, func(x, t float64) float64 { return (x - t) * (x - t) }},
		"smooth l1": {func(p *Pool, x, t, g []float32) float64 { return SmoothL1(p, x, t, 0.5, g) }, func(x, t float64) float64 {
			if d := math.Abs(x - t); d >= 0.5 {
				return d - 0.25
			}
			return (x - t) * (x - t)
		}},
		"l1":  {func(p *Pool, x, t, g []float32) float64 { return SmoothL1(p, x, t, 0, g) }, func(x, t float64) float64 { return math.Abs(x - t) }},
		"bce": {BCEWithLogits, func(x, t float64) float64 { return -t*math.Log(logistic(x)) - (1-t)*math.Log(logistic(-x)) }},
	} {
		n := float64(len(x))
		grad, want := make([]float32, len(x)), 0.0
		for i, v := range x {
			want += loss.value(float64(v), float64(target[i])) / n
		}
		got := loss.run(nil, x, target, grad)
		// Each term is within 4e-7; of the errors of so many little is left.
		if math.Abs(got-want) > 1e-8*want {
			t.Errorf("%s: loss %v, want %v", name, got, want)
		}
		for i, v := range x[:100] {
			const h = 1e-6
			a, b := loss.value(float64(v)+h, float64(target[i])), loss.value(float64(v)-h, float64(target[i]))
			if q := (a - b) / (2 * h); math.Abs(float64(grad[i])*n-q) > 1e-5 {
				t.Errorf("%s: gradient %d is %g, difference quotient %g", name, i, float64(grad[i])*n, q)
			}
		}
		for threads := 1; threads <= 3; threads++ {
			p := NewPool(threads)
			parallel := make([]float32, len(x))
			if again := loss.run(p, x, target, parallel); again != got {
				t.Errorf("%s, %d threads: loss %v, want %v", name, threads, again, got)
			}
			checkSame(t, name, parallel, grad)
			if a := steady.Allocs(2, func() { loss.run(p, x, target, grad) }); a > 0 {
				t.Errorf("%s: %v allocations, want none", name, a)
			}
			p.Close()
		}
		x[5] = nan
		if v := loss.run(nil, x, target, nil); v == v {
			t.Errorf("%s of a NaN: %v", name, v)
		}
		x[5] = 0.5
	}
	grad := make([]float32, 2)
	if v := BCEWithLogits(nil, []float32{1e4, -1e4}, []float32{0, 1}, grad); v != 1e4 || grad[0] != 0.5 || grad[1] != -0.5 {
		t.Errorf("large logits: loss %v, gradient %v", v, grad)
	}
}

// exactLoss returns a loss of one entry and its gradient in float64, without
// cancellation, and the bound of the gradient's error.
type exactLoss func(x, t float64) (loss, grad, bound float64)

func exactMSE(x, t float64) (loss, grad, bound float64) {
	d := x - t
	return d * d, 2 * d, 2e-7 * math.Abs(d)
}

func exactSmoothL1(beta float64) exactLoss {
	return func(x, t float64) (loss, grad, bound float64) {
		d := x - t
		if a := math.Abs(d); a >= beta && a > 0 {
			return a - beta/2, d / a, 2e-7
		}
		if d == 0 {
			return 0, 0, 0
		}
		return d * d / (2 * beta), d / beta, 2e-7 * math.Abs(d/beta)
	}
}

// The gradient is a difference of terms from 0 to 1.
func exactBCE(x, t float64) (loss, grad, bound float64) {
	sign, u := 1.0, 1-t
	if x < 0 {
		sign, u = -1, t
	}
	z := math.Exp(-math.Abs(x))
	p := z / (1 + z)
	return math.Abs(x)*u + math.Log1p(z), sign * (u - p), 4e-7 * (u + p)
}

// Every loss is as accurate alone as among others, from the least numbers to the
// largest.
func TestLossAccuracy(t *testing.T) {
	xs := []float32{0, 1e-30, 1e-9, 1e-3, 0.01, 0.249, 0.25, 0.251, 0.5, 1, 3, 10, 30, 88, 100, 1e4, 1e18}
	for _, v := range xs {
		xs = append(xs, -v)
	}
	const tiny = 3e-45 // two steps of the subnormal numbers
	for name, loss := range map[string]struct {
		run   func(x, t, grad []float32) float64
		exact exactLoss
	}{
		"mse":       {func(x, t, grad []float32) float64 { return MSE(nil, x, t, grad) }, exactMSE},
		"smooth l1": {func(x, t, grad []float32) float64 { return SmoothL1(nil, x, t, 0.25, grad) }, exactSmoothL1(0.25)},
		"l1":        {func(x, t, grad []float32) float64 { return SmoothL1(nil, x, t, 0, grad) }, exactSmoothL1(0)},
		"bce":       {func(x, t, grad []float32) float64 { return BCEWithLogits(nil, x, t, grad) }, exactBCE},
	} {
		t.Run(name, func(t *testing.T) {
			for _, x := range xs {
				for _, target := range []float32{0, 1e-8, 0.25, 0.5, 0.75, 0.9999999, 1} {
					grad := []float32{0}
					got := loss.run([]float32{x}, []float32{target}, grad)
					value, slope, bound := loss.exact(float64(x), float64(target))
					if math.Abs(got-value) > 4e-7*value+tiny {
						t.Errorf("x %g, target %g: loss %g, want %g", x, target, got, value)
					}
					if math.Abs(float64(grad[0])-slope) > bound+tiny {
						t.Errorf("x %g, target %g: gradient %g, want %g", x, target, grad[0], slope)
					}
				}
			}
		})
	}
}

// The assembly gives the bits of the code in Go, in whole vectors and in tails,
// and writes nothing behind the end.
func TestLossSameBits(t *testing.T) {
	const n = 70
	r := newRand(12)
	x, target := randomFloats(r, n), randomFloats(r, n)
	copy(x[20:], odd)
	copy(target[25:], odd)
	for name, kernel := range map[string]struct {
		vec, portable func(lanes *lossLanes, out, x, y []float32)
	}{
		"mse": {func(l *lossLanes, out, x, y []float32) { mseVec(l, out, x, y, 0.3) },
			func(l *lossLanes, out, x, y []float32) { mseGo(l, out, x, y, 0.3) }},
		"smooth l1": {func(l *lossLanes, out, x, y []float32) { smoothL1Vec(l, out, x, y, 0.3, 0.7, 0.35) },
			func(l *lossLanes, out, x, y []float32) { smoothL1Go(l, out, x, y, 0.3, 0.7, 0.35) }},
		"bce": {func(l *lossLanes, out, x, y []float32) { bceVec(l, out, x, y, 0.3) },
			func(l *lossLanes, out, x, y []float32) { bceGo(l, out, x, y, 0.3) }},
		"sum of exp": {func(l *lossLanes, out, x, _ []float32) { expSumVec(l, out, x, 1.25) },
			func(l *lossLanes, out, x, _ []float32) { expSumGo(l, out, x, 1.25) }},
		"weighted sum": {func(l *lossLanes, _, x, y []float32) { weightedSumVec(l, y, x) },
			func(l *lossLanes, _, x, y []float32) { weightedSumGo(l, y, x) }},
		"row max": {func(l *lossLanes, out, x, _ []float32) { out[0] = rowMaxVec(x) },
			func(l *lossLanes, out, x, _ []float32) { out[0] = rowMaxGo(x) }},
	} {
		t.Run(name, func(t *testing.T) {
			withVectors(t, func(t *testing.T) {
				for lo := range 36 {
					for hi := lo + 1; hi <= n; hi++ {
						var got, want lossLanes
						out, wantOut := make([]float32, hi-lo+1), make([]float32, hi-lo+1)
						kernel.vec(&got, out, x[lo:hi], target[lo:hi])
						kernel.portable(&want, wantOut, x[lo:hi], target[lo:hi])
						for l := range want {
							if g, w := math.Float64bits(got[l]), math.Float64bits(want[l]); g != w && (got[l] == got[l] || want[l] == want[l]) {
								t.Fatalf("entries %d to %d: lane %d is %g, in Go %g", lo, hi, l, got[l], want[l])
							}
						}
						for i := range out {
							if !sameBits(out[i], wantOut[i]) {
								t.Fatalf("entries %d to %d: output %d is %g, in Go %g", lo, hi, i, out[i], wantOut[i])
							}
						}
					}
				}
			})
		})
	}
}

func BenchmarkLoss(b *testing.B) {
	const n, classes = 1 << 20, 1024
	x, target, grad := randomFloats(newRand(1), n), make([]float32, n), make([]float32, n)
	labels := make([]int32, n/8)
	for i := range target {
		target[i] = sigmoid32(-x[i])
	}
	crossEntropy := func(classes int) func() {
		return func() {
			if _, err := CrossEntropy(nil, x, labels, n/classes, classes, nil, 0, grad); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, loss := range []struct {
		name string
		run  func()
	}{
		{"mse", func() { MSE(nil, x, target, grad) }},
		{"smoothL1", func() { SmoothL1(nil, x, target, 1, grad) }},
		{"bce", func() { BCEWithLogits(nil, x, target, grad) }},
		{"crossEntropy/classes=8", crossEntropy(8)},
		{fmt.Sprintf("crossEntropy/classes=%d", classes), crossEntropy(classes)},
		{"softmax/cols=8", func() { Softmax(nil, grad, x, n/8, 8) }},
		{fmt.Sprintf("softmax/cols=%d", classes), func() { Softmax(nil, grad, x, n/classes, classes) }},
	} {
		b.Run(loss.name+"/n=1M", func(b *testing.B) {
			for b.Loop() {
				loss.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		})
	}
}
