package kernel

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/golden"
)

func TestCrossEntropyGolden(t *testing.T) {
	for _, c := range golden.Read(t, "cross_entropy_scale*") {
		t.Run(c.Name, func(t *testing.T) {
			n, classes := c.Shape("x")[0], c.Shape("x")[1]
			x, labels := c.Floats("x"), c.Labels("target")
			grad := make([]float32, len(x))
			loss, err := SoftmaxCrossEntropy(x, labels, n, classes, c.Setting("label_smoothing"), grad)
			if err != nil {
				t.Fatal(err)
			}
			checkNear(t, "loss", []float32{float32(loss)}, c.Floats("loss"), 1e-6)
			checkNear(t, "gradient", grad, c.Floats("grad_x"), 1e-6)
			alone, err := SoftmaxCrossEntropy(x, labels, n, classes, c.Setting("label_smoothing"), nil)
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
		got, err := SoftmaxCrossEntropy(x, labels, n, classes, smoothing, grad)
		if want := loss(); err != nil || math.Abs(got-want) > 1e-12*(1+want) {
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
		got, err := SoftmaxCrossEntropy(c.row, []int32{0}, 1, len(c.row), 0, grad)
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
		_, err := SoftmaxCrossEntropy(make([]float32, 6), []int32{2, label}, 2, 3, 0, nil)
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
