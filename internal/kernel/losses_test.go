package kernel

import (
	"math"
	"strings"
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
		if math.Abs(got-want) > 1e-12 {
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

func TestCrossEntropyWeighted(t *testing.T) {
	r := newRand(8)
	const n, classes = 9, 7
	x, labels := randomFloats(r, n*classes), make([]int32, n)
	weights := []float32{1, 2, 0.5, 0, 3, 1, 1}
	for i := range labels {
		labels[i] = r.Int32N(classes)
	}
	wx := toFloat64(x)
	loss := func() float64 {
		sum, total := 0.0, 0.0
		for i, label := range labels {
			z := 0.0
			for _, v := range wx[i*classes:][:classes] {
				z += math.Exp(v)
			}
			for c, v := range wx[i*classes:][:classes] {
				target := 0.1 / classes
				if c == int(label) {
					target += 0.9
				}
				sum -= float64(weights[c]) * target * (v - math.Log(z))
			}
			total += float64(weights[label])
		}
		return sum / total
	}
	grad := make([]float32, len(x))
	got, err := CrossEntropy(nil, x, labels, n, classes, weights, 0.1, grad)
	if err != nil || math.Abs(got-loss()) > 1e-12 {
		t.Fatalf("loss %v, error %v; want %v", got, err, loss())
	}
	checkQuotients(t, "logits", wx, grad, loss, 1e-6)
	for threads := 1; threads <= 3; threads++ {
		p := NewPool(threads)
		parallel := make([]float32, len(x))
		again := 0.0
		if a := steady.Allocs(2, func() { again, _ = CrossEntropy(p, x, labels, n, classes, weights, 0.1, parallel) }); a > 0 || again != got {
			t.Errorf("%d threads: loss %v, want %v; %v allocations", threads, again, got, a)
		}
		checkSame(t, "gradient", parallel, grad)
		p.Close()
	}
	zero := make([]float32, classes)
	if v, err := CrossEntropy(nil, x, labels, n, classes, zero, 0, grad); err != nil || v == v || grad[0] == grad[0] {
		t.Errorf("no weight at all: loss %v, gradient %v, error %v", v, grad[0], err)
	}
	labels[3] = classes
	if _, err := CrossEntropy(nil, x, labels, n, classes, nil, 0, nil); err == nil || !strings.Contains(err.Error(), "label 7 of row 3, want 0 to 6") {
		t.Errorf("error %v", err)
	}
}
