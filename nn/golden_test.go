package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/coda-ml/coda/internal/golden"
)

// PyTorch's sums run in another order than ours: 1e-5 of the largest entry covers both roundings.
const goldenTolerance = 1e-5

func TestLinearGolden(t *testing.T) {
	g := golden.Read(t, "linear_5x7_3")[0]
	l := &Linear{Weight: goldenParam(g, "weight"), Bias: goldenParam(g, "bias")}
	b := newBench(t, l, g.Shape("input"), g.Floats("input"), g.Floats("grad_out"), true)
	wantClose(t, "out", b.out, g.Floats("out"), goldenTolerance)
	wantClose(t, "grad input", b.gradX, g.Floats("grad_input"), goldenTolerance)
	wantClose(t, "grad weight", b.grads["weight"], g.Floats("grad_weight"), goldenTolerance)
	wantClose(t, "grad bias", b.grads["bias"], g.Floats("grad_bias"), goldenTolerance)
}

func TestConv2dGolden(t *testing.T) {
	cases := golden.Read(t, "conv2d_*")
	if len(cases) != 6 {
		t.Errorf("%d golden files, want 6", len(cases))
	}
	for _, g := range cases {
		t.Run(g.Name, func(t *testing.T) {
			l := &Conv2d{Weight: goldenParam(g, "weight"), Bias: goldenParam(g, "bias"), Config: Conv2dConfig{
				Stride: int(g.Setting("stride")), Padding: int(g.Setting("padding")),
				Dilation: int(g.Setting("dilation")), Groups: int(g.Setting("groups")),
			}}
			b := newBench(t, l, g.Shape("x"), g.Floats("x"), g.Floats("grad_out"), true)
			wantClose(t, "out", b.out, g.Floats("out"), goldenTolerance)
			wantClose(t, "grad x", b.gradX, g.Floats("grad_x"), goldenTolerance)
			wantClose(t, "grad weight", b.grads["weight"], g.Floats("grad_weight"), goldenTolerance)
			wantClose(t, "grad bias", b.grads["bias"], g.Floats("grad_bias"), goldenTolerance)
		})
	}
}

func TestMaxPool2dGolden(t *testing.T) {
	for _, c := range []MaxPool2d{{Kernel: 2}, {Kernel: 3, Stride: 2, Padding: 1}, {Kernel: 3, Stride: 1, Padding: 1}} {
		stride := c.Stride
		if stride == 0 {
			stride = c.Kernel
		}
		g := golden.Read(t, fmt.Sprintf("maxpool_k%ds%dp%d", c.Kernel, stride, c.Padding))[0]
		b := newBench(t, c, g.Shape("x"), g.Floats("x"), g.Floats("grad_out"), true)
		wantClose(t, "out", b.out, g.Floats("out"), 0)
		wantClose(t, "grad x", b.gradX, g.Floats("grad_x"), goldenTolerance)
	}
}

func TestReLUGolden(t *testing.T) {
	g := golden.Read(t, "act_relu")[0]
	b := newBench(t, ReLU{}, g.Shape("x"), g.Floats("x"), g.Floats("grad_out"), true)
	wantClose(t, "out", b.out, g.Floats("out"), 0)
	wantClose(t, "grad x", b.gradX, g.Floats("grad_x"), 0)
}

// TestCrossEntropyGolden goes through a Network whose logits are the weights
// of a Linear without bias: row i of the identity picks the logits of sample i.
func TestCrossEntropyGolden(t *testing.T) {
	for _, scale := range []int{1, 100, 10000} {
		for _, smoothing := range []string{"0", "0.1"} {
			g := golden.Read(t, fmt.Sprintf("cross_entropy_scale%d_smooth%s", scale, smoothing))[0]
			n, classes := g.Shape("x")[0], g.Shape("x")[1]
			l := &Linear{Weight: NewParam(classes, n)}
			eye := make([]float32, n*n)
			x, labels := g.Floats("x"), g.Labels("target")
			for i := range n {
				eye[i*n+i] = 1
				for c := range classes {
					l.Weight.Value.Data[c*n+i] = x[i*classes+c]
				}
			}
			net := newNetwork(t, l, []int{n}, Config{Loss: CrossEntropy{Smoothing: g.Setting("label_smoothing")}})
			loss, correct, err := net.Train(t.Context(), 1, eye, labels)
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(g.Floats("loss")[0]); math.Abs(loss-want) > 1e-6*want {
				t.Errorf("scale %d, smoothing %s: loss %v, want %v", scale, smoothing, loss, want)
			}
			sum, evalCorrect, err := net.Evaluate(t.Context(), eye, labels)
			if err != nil {
				t.Fatal(err)
			}
			if sum != loss*float64(n) || evalCorrect != correct {
				t.Errorf("evaluation gives %v, %d; training %v, %d", sum, evalCorrect, loss*float64(n), correct)
			}
			grad, transposed := g.Floats("grad_x"), make([]float32, n*classes)
			for i := range n {
				for c := range classes {
					transposed[c*n+i] = grad[i*classes+c]
				}
			}
			wantClose(t, "grad", l.Weight.Grad, transposed, goldenTolerance)
		}
	}
}
