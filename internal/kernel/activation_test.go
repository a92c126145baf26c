package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
)

// activationTest is an activation and its derivative in float64, and the bound
// of its error in units in the last place, from least to most.
type activationTest struct {
	a            Activation
	parameter    float32
	value, slope func(x float64) float64
	ulps         float64
	least, most  float32
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func logistic(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / (1 + math.Exp(x))
	}
	return 1 / (1 + math.Exp(-x))
}

var activationTests = []activationTest{
	{ActReLU, 0, func(x float64) float64 { return max(x, 0) }, step, 0, -inf, inf},
	{ActLeakyReLU, 0.25, func(x float64) float64 { return max(x, x/4) }, func(x float64) float64 { return 0.25 + 0.75*step(x) }, 0.5, -inf, inf},
	{ActExp, 0, math.Exp, math.Exp, 1, -inf, inf},
	{ActTanh, 0, math.Tanh, func(x float64) float64 { return 1 - math.Tanh(x)*math.Tanh(x) }, 1.4, -inf, inf},
	{ActSigmoid, 0, logistic, func(x float64) float64 { return logistic(x) * (1 - logistic(x)) }, 2.4, -inf, inf},
	{ActSiLU, 0, func(x float64) float64 { return x * logistic(x) },
		func(x float64) float64 { return logistic(x) * (1 + x*(1-logistic(x))) }, 3, -87, math.MaxFloat32},
	{ActGELU, 0, func(x float64) float64 { return x * phi(x) },
		func(x float64) float64 { return phi(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi) }, 6, -12.9, math.MaxFloat32},
	{ActGELU, 0, func(x float64) float64 { return x * phi(x) }, nil, 2.5, -0.1, math.MaxFloat32},
	{ActSoftplus, 0, func(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }, logistic, 2.7, -inf, inf},
	{ActELU, 1, func(x float64) float64 { return max(x, 0) + math.Expm1(min(x, 0)) },
		func(x float64) float64 { return math.Exp(min(x, 0)) }, 1, -inf, inf},
	{ActHardswish, 0, func(x float64) float64 { return x * min(max(x+3, 0), 6) / 6 },
		func(x float64) float64 {
			switch {
			case x < -3:
				return 0
			case x > 3:
				return 1
			}
			return x/3 + 0.5
		}, 2.5, -inf, math.MaxFloat32},
}

func step(x float64) float64 {
	if x > 0 {
		return 1
	}
	return 0
}

// ulpError returns the distance of got from want in units in the last place of
// float32 at want.
func ulpError(got float32, want float64) float64 {
	near := float32(want)
	if got == near || got != got && want != want {
		return 0
	}
	if math.IsInf(float64(near), 0) != math.IsInf(float64(got), 0) {
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
}

// everyFloat calls f with float32 numbers over all bit patterns, a stride apart,
// in slices of equal length.
func everyFloat(stride int, f func(x []float32)) {
	x := make([]float32, 1<<12)
	for base := 0; base < 1<<32; base += len(x) * stride {
		for i := range x {
			x[i] = math.Float32frombits(uint32(base + i*stride))
		}
		f(x)
	}
}

// Each function is as accurate as promised, over all of float32: zeros,
// subnormal and infinite numbers and NaN among them.
func TestActivationAccuracy(t *testing.T) {
	for _, test := range activationTests {
		worst, at := 0.0, float32(0)
		var y []float32
		everyFloat(39769, func(x []float32) {
			y = grow(y, len(x))
			Activate(nil, test.a, test.parameter, y, x)
			for i, v := range x {
				if v < test.least || v > test.most {
					continue
				}
				if e := ulpError(y[i], test.value(float64(v))); e > worst {
					worst, at = e, v
				}
			}
		})
		if worst > test.ulps {
			t.Errorf("%v: error of %.2f units in the last place at %g, want at most %v", test.a, worst, at, test.ulps)
		}
	}
}

// The assembly gives the bits of the code in Go, forward and backward, over all
// of float32, in whole vectors and in tails.
func TestActivationSameBits(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, test := range activationTests {
			var got, want, dy []float32
			n := 0
			everyFloat(49999, func(x []float32) {
				n++
				x = x[:len(x)-n%40]
				got, want, dy = grow(got, len(x)), grow(want, len(x)), grow(dy, len(x))
				for i := range dy {
					dy[i] = float32(i%7) - 2.5
				}
				check := func(what string) {
					for i := range got {
						if !sameBits(got[i], want[i]) {
							t.Fatalf("%v %s at %g: %g, in Go %g", test.a, what, x[i], got[i], want[i])
						}
					}
				}
				Activate(nil, test.a, test.parameter, got, x)
				activateGo(test.a, want, x, test.parameter)
				check("forward")
				ActivateBackward(nil, test.a, test.parameter, got, dy, x)
				activateBackGo(test.a, want, dy, x, test.parameter)
				check("backward")
			})
		}
	})
}

// The gradients are those of the formulas, which are the difference quotients.
func TestActivationGradients(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, test := range activationTests {
			if test.slope == nil {
				continue
			}
			var x []float32
			for i := range 256 { // kinks lie between
				v := float32(i-128)/14 + 0.02
				x = append(x, v)
			}
			y, dx, dy := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
			for i := range dy {
				dy[i] = 1.5
			}
			Activate(nil, test.a, test.parameter, y, x)
			z := x
			if test.a.UsesOutput() {
				z = y
			}
			ActivateBackward(nil, test.a, test.parameter, dx, dy, z)
			for i, v := range x {
				const h = 1e-5
				slope := test.slope(float64(v))
				quotient := (test.value(float64(v)+h) - test.value(float64(v)-h)) / (2 * h)
				if math.Abs(slope-quotient) > 1e-6*max(1, math.Abs(slope)) {
					t.Fatalf("%v at %g: slope %g, difference quotient %g", test.a, v, slope, quotient)
				}
				if math.Abs(float64(dx[i])-1.5*slope) > 1e-6*max(1, math.Abs(slope)) {
					t.Fatalf("%v at %g: gradient %g, want %g", test.a, v, dx[i], 1.5*slope)
				}
			}
		}
	})
}

// NaN stays NaN, and infinities give what PyTorch gives.
func TestActivationLimits(t *testing.T) {
	for _, c := range []struct {
		a                Activation
		minus, zero, inf float32
	}{
		{ActReLU, 0, 0, inf}, {ActLeakyReLU, -inf, 0, inf}, {ActExp, 0, 1, inf}, {ActTanh, -1, 0, 1}, {ActSigmoid, 0, 0.5, 1},
		{ActSiLU, nan, 0, inf}, {ActGELU, nan, 0, inf}, {ActSoftplus, 0, float32(math.Ln2), inf}, {ActELU, -0.25, 0, inf}, {ActHardswish, nan, 0, inf},
	} {
		x := []float32{-inf, 0, inf, nan}
		y, dx := make([]float32, 4), make([]float32, 4)
		Activate(nil, c.a, 0.25, y, x)
		for i, want := range []float32{c.minus, c.zero, c.inf, nan} {
			if y[i] != want && !sameBits(y[i], want) {
				t.Errorf("%v(%v) = %v, want %v", c.a, x[i], y[i], want)
			}
		}
		ActivateBackward(nil, c.a, 0.25, dx, []float32{nan, nan, nan, nan}, []float32{0.5, 0.25, 0.75, 1})
		for i, v := range dx {
			if v == v {
				t.Errorf("%v: gradient %d of NaN is %v", c.a, i, v)
			}
		}
	}
}

func TestActivationParallel(t *testing.T) {
	x := randomFloats(newRand(1), 3*activationChunk+17)
	want, wantDX := make([]float32, len(x)), make([]float32, len(x))
	Activate(nil, ActGELU, 0, want, x)
	ActivateBackward(nil, ActGELU, 0, wantDX, x, x)
	for threads := 1; threads <= 3; threads++ {
		p := NewPool(threads)
		y, dx := make([]float32, len(x)), make([]float32, len(x))
		step := func() {
			Activate(p, ActGELU, 0, y, x)
			ActivateBackward(p, ActGELU, 0, dx, x, x)
		}
		step()
		checkSame(t, "output", y, want)
		checkSame(t, "gradient", dx, wantDX)
		if n := steady.Allocs(5, step); n > 0 {
			t.Errorf("%d threads: %v allocations, want none", threads, n)
		}
		p.Close()
	}
}

func TestActivationPanics(t *testing.T) {
	x, y := make([]float32, 4), make([]float32, 5)
	for want, f := range map[string]func(){
		"gelu: x has 5":           func() { Activate(nil, ActGELU, 0, x, y) },
		"gelu backward: dy has 5": func() { ActivateBackward(nil, ActGELU, 0, x, y, x) },
		"gelu backward: z has 5":  func() { ActivateBackward(nil, ActGELU, 0, x, x, y) },
	} {
		if got := fmt.Sprint(catch(f)); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}
	if got := Activation(200).String(); got != "activation 200" {
		t.Errorf("name %q", got)
	}
}

func BenchmarkActivation(b *testing.B) {
	const n = 1 << 20
	x, dy, y := randomFloats(newRand(1), n), randomFloats(newRand(2), n), make([]float32, n)
	for a := range activationCount {
		b.Run(fmt.Sprintf("forward/%v/n=1M", a), func(b *testing.B) {
			for b.Loop() {
				Activate(nil, a, 0.5, y, x)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		})
		b.Run(fmt.Sprintf("backward/%v/n=1M", a), func(b *testing.B) {
			for b.Loop() {
				ActivateBackward(nil, a, 0.5, y, dy, x)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
		})
	}
}
