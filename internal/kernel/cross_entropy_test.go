package kernel

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/golden"
	"github.com/coda-ml/coda/internal/steady"
)

func TestCrossEntropyGolden(t *testing.T) {
	for _, c := range golden.Read(t, "cross_entropy_scale*") {
		t.Run(c.Name, func(t *testing.T) {
			n, classes := c.Shape("x")[0], c.Shape("x")[1]
			x, labels := c.Floats("x"), c.Labels("target")
			grad := make([]float32, len(x))
			loss, err := CrossEntropy(nil, x, labels, n, classes, nil, c.Setting("label_smoothing"), grad)
			if err != nil {
				t.Fatal(err)
			}
			checkNear(t, "loss", []float32{float32(loss)}, c.Floats("loss"), 1e-6)
			checkNear(t, "gradient", grad, c.Floats("grad_x"), 1e-6)
			alone, err := CrossEntropy(nil, x, labels, n, classes, nil, c.Setting("label_smoothing"), nil)
			if err != nil || alone != loss {
				t.Errorf("loss without gradient %v, error %v; want %v", alone, err, loss)
			}
		})
	}
}

// The loss is that of the definition, its gradient the difference quotient,
// and each row of the gradient sums to zero.
func TestCrossEntropyLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, classes := rapid.IntRange(1, 4).Draw(rt, "n"), rapid.IntRange(1, 6).Draw(rt, "classes")
		smoothing := rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(rt, "smoothing")
		r := newRand(uint64(rapid.IntRange(0, 1<<20).Draw(rt, "seed")))
		x, labels := randomFloats(r, n*classes), make([]int32, n)
		for i := range labels {
			labels[i] = r.Int32N(int32(classes))
		}
		loss := func() float64 {
			total := 0.0
			for i := range n {
				sum := 0.0
				for _, v := range x[i*classes:][:classes] {
					sum += math.Exp(float64(v))
				}
				for c, v := range x[i*classes:][:classes] {
					target := smoothing / float64(classes)
					if c == int(labels[i]) {
						target += 1 - smoothing
					}
					total -= target * (float64(v) - math.Log(sum))
				}
			}
			return total / float64(n)
		}
		grad := make([]float32, len(x))
		got, err := CrossEntropy(nil, x, labels, n, classes, nil, smoothing, grad)
		if want := loss(); err != nil || math.Abs(got-want) > 1e-6*want+1e-15 { // logits are less than 14 apart
			rt.Fatalf("loss %v, error %v; want %v", got, err, want)
		}
		for i := range n {
			sum := 0.0
			for c := range classes {
				at := i*classes + c
				old := x[at]
				x[at] = old + 1e-2
				plus, up := loss(), float64(x[at])
				x[at] = old - 1e-2
				minus, down := loss(), float64(x[at])
				x[at] = old
				if want := (plus - minus) / (up - down); math.Abs(float64(grad[at])-want) > 1e-4 {
					rt.Fatalf("gradient %d is %v, difference quotient %v", at, grad[at], want)
				}
				sum += float64(grad[at])
			}
			if math.Abs(sum) > 1e-6 {
				rt.Fatalf("gradient of row %d sums to %v", i, sum)
			}
		}
	})
}

func TestCrossEntropyExtremes(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		row  []float32
		want float64
	}{
		{[]float32{1e4, -1e4}, 0},
		{[]float32{-1e4, 1e4}, 2e4},
		{[]float32{-math.MaxFloat32, math.MaxFloat32}, 2 * math.MaxFloat32},
		{[]float32{0, -inf}, 0},
		{[]float32{-inf, 0}, math.Inf(1)},
		{[]float32{5}, 0},
		{[]float32{0, nan}, math.NaN()},
		{[]float32{nan, 0}, math.NaN()},
		{[]float32{inf, 0}, math.NaN()},
	} {
		grad := make([]float32, len(c.row))
		got, err := CrossEntropy(nil, c.row, []int32{0}, 1, len(c.row), nil, 0, grad)
		if err != nil || got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("logits %v: loss %v, error %v; want %v", c.row, got, err, c.want)
		}
		if g := float64(grad[0]); math.IsNaN(g) != math.IsNaN(c.want) {
			t.Errorf("logits %v: gradient %v, loss %v", c.row, grad, got)
		}
	}
}

func TestCrossEntropyBadLabel(t *testing.T) {
	for _, label := range []int32{-1, 3} {
		_, err := CrossEntropy(nil, make([]float32, 6), []int32{2, label}, 2, 3, nil, 0, nil)
		if err == nil || !strings.Contains(err.Error(), "of row 1, want 0 to 2") {
			t.Errorf("label %d: error %v", label, err)
		}
	}
}

func TestCorrect(t *testing.T) {
	nan := float32(math.NaN())
	logits := []float32{
		1, 2, 0,
		3, 3, 1, // the first of equals
		0, nan, 9, // NaN counts as the largest
		-1, -3, -2,
	}
	for label, want := range []int{2, 2, 0} {
		l := int32(label)
		if got := Correct(logits, []int32{l, l, l, l}, 4, 3); got != want {
			t.Errorf("label %d: %d correct, want %d", label, got, want)
		}
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
	if err != nil || math.Abs(got-loss()) > 1e-6*loss() {
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

// Many classes, in parallel, are as exact as few, from rows that are certain of
// their label to rows that are certain of another.
func TestCrossEntropyManyClasses(t *testing.T) {
	const n, classes = 11, 2050
	r := newRand(3)
	x, labels, weights := randomFloats(r, n*classes), make([]int32, n), make([]float32, classes)
	for i := range labels {
		labels[i] = r.Int32N(classes)
		x[i*classes+int(labels[i])] = float32(5 * (i - 4))
	}
	for c := range weights {
		weights[c] = float32(c%5) / 2
	}
	for _, smoothing := range []float64{0, 0.1} {
		want, wantGrad := exactCrossEntropy(x, labels, classes, weights, smoothing)
		grad := make([]float32, len(x))
		onThreads(t, func(p *Pool) [][]float32 {
			var loss, alone float64
			if a := steady.Allocs(2, func() {
				loss, _ = CrossEntropy(p, x, labels, n, classes, weights, smoothing, grad)
				alone, _ = CrossEntropy(p, x, labels, n, classes, weights, smoothing, nil)
			}); a > 0 {
				t.Errorf("%v allocations, want none", a)
			}
			if math.Abs(loss-want) > 2e-7*want || alone != loss {
				t.Errorf("smoothing %v: loss %v, without gradient %v; want %v", smoothing, loss, alone, want)
			}
			return [][]float32{grad, {float32(loss)}}
		})
		for i, g := range grad {
			if math.Abs(float64(g)-wantGrad[i]) > 2e-6*math.Abs(wantGrad[i])+1e-9 {
				t.Fatalf("smoothing %v: gradient %d is %g, want %g", smoothing, i, g, wantGrad[i])
			}
		}
	}
}

// exactCrossEntropy computes the loss and its gradient in float64.
func exactCrossEntropy(x []float32, labels []int32, classes int, weights []float32, smoothing float64) (loss float64, grad []float64) {
	total := 0.0
	for _, label := range labels {
		total += float64(weights[label])
	}
	for i, label := range labels {
		row, z, mass := x[i*classes:][:classes], 0.0, 0.0
		for _, v := range row {
			z += math.Exp(float64(v))
		}
		targets := make([]float64, classes)
		for c, v := range row {
			targets[c] = float64(weights[c]) * smoothing / float64(classes)
			if c == int(label) {
				targets[c] += float64(weights[c]) * (1 - smoothing)
			}
			loss -= targets[c] * (float64(v) - math.Log(z))
			mass += targets[c]
		}
		for c, v := range row {
			grad = append(grad, (mass*math.Exp(float64(v))/z-targets[c])/total)
		}
	}
	return loss / total, grad
}

// A class of weight 0 plays no part in a smoothed loss, not even at -Inf.
func TestCrossEntropyWeightZero(t *testing.T) {
	got, err := CrossEntropy(nil, []float32{-inf, 1, 1}, []int32{1}, 1, 3, []float32{0, 1, 1}, 0.3, nil)
	want := 0.9 * math.Ln2
	if err != nil || math.Abs(got-want) > 1e-7 {
		t.Errorf("loss %v, error %v; want %v", got, err, want)
	}
}
