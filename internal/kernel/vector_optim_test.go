package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

var (
	testSGD  = SGDStep{LR: 0.1, Momentum: 0.9, Decay: 1e-2, Scale: 0.25}
	testAdam = AdamStep{LR: 1e-2, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-3, Decay: 1e-2, Shrink: 1e-3, Scale: 0.5, Step: 3}
	testRMS  = RMSStep{LR: 1e-2, Keep: 0.9, Rest: 0.1, Epsilon: 1e-3, Momentum: 0.8, Decay: 1e-2, Scale: 0.5}
)

// meanSquares lists the arrays of a test that are not negative.
var meanSquares = map[string][]int{
	"Adam": {2}, "AMSGrad": {2, 3}, "Lamb": {3}, "RMSProp": {1}, "RMSProp momentum": {1}, "Adagrad": {1},
}

func optimTests() []elementTest {
	nesterov, plain := testSGD, testSGD
	nesterov.Nesterov, plain.Momentum = true, 0
	adam, lamb := testAdam.constants(), testAdam
	lamb.LR = 1
	lambConstants := lamb.constants()
	lambConstants.shrink = float32(-lamb.Shrink)
	return []elementTest{
		{"SGD", 2, 1, func(x [][]float32) { SGD(x[0], nil, x[1], plain) },
			func(x [][]float32) { sgdGo(x[0], x[1], &plain) },
			func(x []float64) []float64 { return wantSGD(plain, x[0], 0, x[1])[:1] }},
		{"SGD momentum", 3, 2, func(x [][]float32) { SGD(x[0], x[1], x[2], testSGD) },
			func(x [][]float32) { sgdMomentumGo(x[0], x[1], x[2], &testSGD) },
			func(x []float64) []float64 { return wantSGD(testSGD, x[0], x[1], x[2]) }},
		{"SGD Nesterov", 3, 2, func(x [][]float32) { SGD(x[0], x[1], x[2], nesterov) },
			func(x [][]float32) { sgdMomentumGo(x[0], x[1], x[2], &nesterov) },
			func(x []float64) []float64 { return wantSGD(nesterov, x[0], x[1], x[2]) }},
		{"Adam", 4, 3, func(x [][]float32) { Adam(x[0], x[1], x[2], x[3], testAdam) },
			func(x [][]float32) { adamGo(x[0], x[0], x[1], x[2], x[3], &adam) },
			func(x []float64) []float64 {
				m, v := wantMoments(x[0], x[1], x[2], x[3])
				return []float64{(1-testAdam.Shrink)*x[0] + testAdam.LR*wantChange(m, v), m, v}
			}},
		{"AMSGrad", 5, 4, func(x [][]float32) { AMSGrad(x[0], x[1], x[2], x[3], x[4], testAdam) },
			func(x [][]float32) { amsgradGo(x[0], x[1], x[2], x[3], x[4], &adam) },
			func(x []float64) []float64 {
				m, v := wantMoments(x[0], x[1], x[2], x[4])
				most := max(x[3], v)
				return []float64{(1-testAdam.Shrink)*x[0] + testAdam.LR*wantChange(m, most), m, v, most}
			}},
		{"Lamb", 5, 4, func(x [][]float32) { Lamb(x[0], x[1], x[2], x[3], x[4], testAdam) },
			func(x [][]float32) { adamGo(x[0], x[1], x[2], x[3], x[4], &lambConstants) },
			func(x []float64) []float64 {
				m, v := wantMoments(x[1], x[2], x[3], x[4])
				return []float64{wantChange(m, v) - testAdam.Shrink*x[1], x[1], m, v}
			}},
		rmsTest("RMSProp", RMSStep{LR: 1e-2, Keep: 0.9, Rest: 0.1, Epsilon: 1e-3, Decay: 1e-2, Scale: 0.5}),
		rmsTest("Adagrad", RMSStep{LR: 1e-2, Keep: 1, Rest: 1, Epsilon: 1e-3, Decay: 1e-2, Scale: 0.5}),
		rmsTest("RMSProp momentum", testRMS),
	}
}

// wantSGD returns the new w and v.
func wantSGD(s SGDStep, w, v, grad float64) []float64 {
	g := float64(s.Scale)*grad + float64(s.Decay)*w
	v = float64(s.Momentum)*v + g
	if s.Nesterov {
		return []float64{w - float64(s.LR)*(g+float64(s.Momentum)*v), v}
	}
	return []float64{w - float64(s.LR)*v, v}
}

// wantMoments returns the moments of testAdam after a step.
func wantMoments(w, m, v, grad float64) (float64, float64) {
	s := testAdam
	g := s.Scale*grad + s.Decay*w
	return s.Beta1*m + (1-s.Beta1)*g, s.Beta2*v + (1-s.Beta2)*g*g
}

// wantChange is what testAdam adds to w at a learning rate of 1.
func wantChange(m, v float64) float64 {
	s, t := testAdam, float64(testAdam.Step)
	return -m / (1 - math.Pow(s.Beta1, t)) / (math.Sqrt(v)/math.Sqrt(1-math.Pow(s.Beta2, t)) + s.Epsilon)
}

// rmsTest has the arrays w, v, grad, and the velocity after v if there is momentum.
func rmsTest(name string, s RMSStep) elementTest {
	c := rmsConstants{
		scale: float32(s.Scale), decay: float32(s.Decay), keep: float32(s.Keep), rest: float32(s.Rest),
		eps: float32(s.Epsilon), momentum: float32(s.Momentum), lr: float32(s.LR),
	}
	want := func(w, v, b, grad float64) []float64 {
		g := s.Scale*grad + s.Decay*w
		v = s.Keep*v + s.Rest*g*g
		b = s.Momentum*b + g/(math.Sqrt(v)+s.Epsilon)
		return []float64{w - s.LR*b, v, b}
	}
	if s.Momentum == 0 {
		return elementTest{name, 3, 2, func(x [][]float32) { RMSProp(x[0], x[1], nil, x[2], s) },
			func(x [][]float32) { rmsGo(x[0], x[1], x[2], &c) },
			func(x []float64) []float64 { return want(x[0], x[1], 0, x[2])[:2] }}
	}
	return elementTest{name, 4, 3, func(x [][]float32) { RMSProp(x[0], x[1], x[2], x[3], s) },
		func(x [][]float32) { rmsMomentumGo(x[0], x[1], x[2], x[3], &c) },
		func(x []float64) []float64 { return want(x[0], x[1], x[2], x[3]) }}
}

// The sums of Lamb are those of SumSquares over blocks, in order.
func TestLambNorms(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, n := range []int{0, 1, 31, sumBlock, 2*sumBlock + 77} {
			var x [5][]float32
			for i := range x {
				x[i] = randomSlice(r, n)
			}
			clear(x[3])
			weight, change := Lamb(x[0], x[1], x[2], x[3], x[4], testAdam)
			for i, got := range []float64{change, weight} {
				var want float64
				for _, v := range x[i] {
					want += float64(v) * float64(v)
				}
				if !(math.Abs(got-want) <= 1e-12*want) {
					t.Errorf("n %d: sum %d is %v, want %v", n, i, got, want)
				}
			}
		}
	})
}

func TestSumSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	bits := map[int]uint64{} // of the first set of instructions
	x, around := testVector(r, 3000, false)
	for i := range x {
		x[i] *= 1e25 // the squares overflow float32
	}
	withVectors(t, func(t *testing.T) {
		for n := 0; n <= len(x); n += 1 + n/7 {
			got, want := SumSquares(x[:n]), 0.0
			for _, v := range x[:n] {
				want += float64(v) * float64(v)
			}
			if !(math.Abs(got-want) <= 1e-13*want) {
				t.Fatalf("n %d: %v, want %v", n, got, want)
			}
			if first, ok := bits[n]; ok && first != math.Float64bits(got) {
				t.Fatalf("n %d: %v, other bits than with other instructions", n, got)
			}
			bits[n] = math.Float64bits(got)
		}
		if got := SumSquares(around); !math.IsNaN(got) {
			t.Errorf("with NaN: %v", got)
		}
		if got := SumSquares([]float32{1, inf}); !math.IsInf(got, 1) {
			t.Errorf("with infinity: %v", got)
		}
	})
}

func TestOptimPanics(t *testing.T) {
	x, y := make([]float32, 4), make([]float32, 5)
	for name, f := range map[string]func(){
		"sgd: the gradient has 5":                      func() { SGD(x, nil, y, SGDStep{}) },
		"sgd: the velocity has 0":                      func() { SGD(x, nil, x, SGDStep{Momentum: 1}) },
		"adam: the first moment has 5":                 func() { Adam(x, y, x, x, testAdam) },
		"adam: the second moment has 5":                func() { Adam(x, x, y, x, testAdam) },
		"adam: the gradient has 5":                     func() { Adam(x, x, x, y, testAdam) },
		"amsgrad: the first moment has 5":              func() { AMSGrad(x, y, x, x, x, testAdam) },
		"amsgrad: the largest second moment has 5":     func() { AMSGrad(x, x, x, y, x, testAdam) },
		"lamb: the change has 5":                       func() { Lamb(y, x, x, x, x, testAdam) },
		"lamb: the gradient has 5":                     func() { Lamb(x, x, x, x, y, testAdam) },
		"rmsprop: the mean square has 5":               func() { RMSProp(x, y, nil, x, RMSStep{}) },
		"rmsprop: the gradient has 5":                  func() { RMSProp(x, x, nil, y, RMSStep{}) },
		"rmsprop: the velocity has 0 elements, the de": func() { RMSProp(x, x, nil, x, testRMS) },
	} {
		if got := fmt.Sprint(catch(f)); !strings.Contains(got, name) {
			t.Errorf("panic %q, want %q", got, name)
		}
	}
}

// BenchmarkOptim counts the bytes that are read and written.
func BenchmarkOptim(b *testing.B) {
	const n = 1 << 20
	r := rand.New(rand.NewPCG(1, 2))
	var x [6][]float32
	for i := range x {
		x[i] = randomSlice(r, n)
		for j, v := range x[i] {
			x[i][j] = max(v, -v)
		}
	}
	// At a learning rate of 0 the weights stay as they are.
	adam := AdamStep{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Scale: 1, Step: 1}
	rms := RMSStep{Keep: 0.99, Rest: 0.01, Epsilon: 1e-8, Scale: 1}
	moving := rms
	moving.Momentum = 0.9
	for _, bench := range []struct {
		name   string
		arrays int // read or written
		run    func()
	}{
		{"SGD", 3, func() { SGD(x[0], nil, x[3], SGDStep{Scale: 1}) }},
		{"SGDMomentum", 5, func() { SGD(x[0], x[1], x[3], SGDStep{Scale: 1, Momentum: 0.9}) }},
		{"Adam", 7, func() { Adam(x[0], x[1], x[2], x[3], adam) }},
		{"AMSGrad", 9, func() { AMSGrad(x[0], x[1], x[2], x[4], x[3], adam) }},
		{"RMSProp", 5, func() { RMSProp(x[0], x[1], nil, x[3], rms) }},
		{"RMSPropMomentum", 7, func() { RMSProp(x[0], x[1], x[2], x[3], moving) }},
		{"Lamb", 7, func() { Lamb(x[5], x[0], x[1], x[2], x[3], adam) }},
		{"SumSquares", 1, func() { SumSquares(x[0]) }},
	} {
		b.Run(bench.name+"/n=1M", func(b *testing.B) {
			b.SetBytes(int64(4 * n * bench.arrays))
			b.ReportAllocs()
			for b.Loop() {
				bench.run()
			}
		})
	}
}
