package optim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/optim"
)

// descend makes steps on a function of w from a rate to 0, and returns the last value.
func descend(t *testing.T, name string, c optim.Config, lr float64, steps int, w []float32, f func(w, grad []float32) float64) float64 {
	t.Helper()
	c.LR = must(optim.Cosine(lr, 0, steps))
	o, err := optim.New(name, c)
	if err != nil {
		t.Fatal(err)
	}
	p := []optim.Param{{Name: "w", Value: w, Grad: make([]float32, len(w))}}
	for step := 1; step <= steps; step++ {
		f(w, p[0].Grad)
		if err := o.Step(step, p); err != nil {
			t.Fatal(err)
		}
	}
	return f(w, p[0].Grad)
}

// rosenbrock has its minimum, 0, at (1, 1), at the end of a curved valley.
func rosenbrock(w, grad []float32) float64 {
	x, y := float64(w[0]), float64(w[1])
	grad[0] = float32(-2*(1-x) - 400*x*(y-x*x))
	grad[1] = float32(200 * (y - x*x))
	return (1-x)*(1-x) + 100*(y-x*x)*(y-x*x)
}

// quadratic has its minimum, 0, where w is 3, and curvatures from 1 to 10.
func quadratic(w, grad []float32) float64 {
	var sum float64
	for i, v := range w {
		c := 1 + 9*float64(i)/float64(len(w)-1)
		d := float64(v) - 3
		grad[i] = float32(c * d)
		sum += c * d * d / 2
	}
	return sum
}

func TestMinimises(t *testing.T) {
	for _, c := range []struct {
		name                  string
		config                optim.Config
		quadratic, rosenbrock float64 // learning rates
	}{
		{"sgd", optim.Config{}, 0.1, 1e-3},
		{"sgd", optim.Config{Momentum: 0.9}, 0.02, 3e-4},
		{"sgd", optim.Config{Momentum: 0.9, Nesterov: true}, 0.02, 3e-4},
		{"adam", optim.Config{}, 0.1, 0.02},
		{"adamw", optim.Config{}, 0.1, 0.02},
		{"amsgrad", optim.Config{}, 0.1, 0.02},
		{"rmsprop", optim.Config{}, 0.05, 0.005},
		{"rmsprop", optim.Config{Momentum: 0.5}, 0.05, 0.002},
		{"adagrad", optim.Config{}, 1, 0.5},
		{"lamb", optim.Config{}, 0.05, 0.01},
	} {
		t.Run(fmt.Sprintf("%s/momentum=%v/nesterov=%v", c.name, c.config.Momentum, c.config.Nesterov), func(t *testing.T) {
			w := make([]float32, 40)
			for i := range w {
				w[i] = float32(i%5) - 2
			}
			if f := descend(t, c.name, c.config, c.quadratic, 1000, w, quadratic); !(f < 1e-6) {
				t.Errorf("quadratic: %v left", f)
			}
			w = []float32{-1.2, 1} // the usual start, where the function is 24.2
			if f := descend(t, c.name, c.config, c.rosenbrock, 20_000, w, rosenbrock); !(f < 1e-4) {
				t.Errorf("Rosenbrock: %v left, at %v", f, w)
			}
		})
	}
}

// lamb is algorithm 2 of the paper in float64 for one parameter.
type lamb struct{ m, v []float64 }

func (l *lamb) step(t int, lr, decay float64, adapt bool, w, grad []float64) {
	var ww, uu float64
	u := make([]float64, len(w))
	for i, g := range grad {
		l.m[i] = 0.9*l.m[i] + 0.1*g
		l.v[i] = 0.999*l.v[i] + 0.001*g*g
		m, v := l.m[i]/(1-math.Pow(0.9, float64(t))), l.v[i]/(1-math.Pow(0.999, float64(t)))
		u[i] = m/(math.Sqrt(v)+1e-6) + decay*w[i]
		ww, uu = ww+w[i]*w[i], uu+u[i]*u[i]
	}
	ratio := 1.0
	if adapt && ww > 0 && uu > 0 {
		ratio = math.Sqrt(ww / uu)
	}
	for i := range w {
		w[i] -= lr * ratio * u[i]
	}
}

func TestLAMBIsThePaper(t *testing.T) {
	const n = 40_000 // more than one piece
	for name, c := range map[string]struct {
		noDecay, zero bool
		decay         float64
	}{
		"decay": {decay: 0.1}, "no decay": {}, "excluded": {noDecay: true}, "zero weights": {zero: true, decay: 0.1},
	} {
		r := rand.New(rand.NewPCG(3, 4))
		w, grad := make([]float32, n), make([]float32, n)
		want, wide := make([]float64, n), make([]float64, n)
		for i := range w {
			if !c.zero {
				w[i] = float32(r.NormFloat64())
			}
			want[i] = float64(w[i])
		}
		o, err := optim.NewLAMB(optim.LAMBConfig{LR: optim.Constant(0.05), Decay: c.decay})
		if err != nil {
			t.Fatal(err)
		}
		reference := lamb{make([]float64, n), make([]float64, n)}
		for step := 1; step <= 4; step++ {
			for i := range grad {
				grad[i] = float32(r.NormFloat64())
				wide[i] = float64(grad[i])
			}
			if err := o.Step(step, []optim.Param{{Name: "w", Value: w, Grad: grad, NoDecay: c.noDecay}}); err != nil {
				t.Fatal(err)
			}
			reference.step(step, 0.05, c.decay, !c.noDecay, want, wide)
		}
		for i := range w {
			if d := math.Abs(float64(w[i]) - want[i]); !(d <= 3e-6) {
				t.Fatalf("%s: w[%d] = %v, want %v", name, i, w[i], want[i])
			}
		}
	}
}

// AdamW with a gradient of 0 only shrinks the weights; Adam's penalty goes
// through the moments instead.
func TestAdamWShrinks(t *testing.T) {
	w := []float32{2}
	o, err := optim.NewAdamW(optim.AdamConfig{LR: optim.Constant(0.1), Decay: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 3; step++ {
		if err := o.Step(step, []optim.Param{{Name: "w", Value: w, Grad: []float32{0}}}); err != nil {
			t.Fatal(err)
		}
	}
	if want := 2 * 0.95 * 0.95 * 0.95; math.Abs(float64(w[0])-want) > 1e-6 {
		t.Errorf("%v, want %v", w[0], want)
	}
	for _, m := range o.State().Tensors {
		if m.Data[0] != 0 {
			t.Errorf("%s is %v, want 0", m.Name, m.Data[0])
		}
	}
}
