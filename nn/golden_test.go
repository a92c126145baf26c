package nn

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
)

// The golden files hold values of PyTorch 1.13 in float32. Its sums run in
// another order than ours: 1e-5 of the largest entry covers both roundings.
const goldenTolerance = 1e-5

func TestLinearGolden(t *testing.T) {
	g := readGolden(t, "testdata/linear_5x7_3.safetensors")
	l := &Linear{Weight: g.param("weight"), Bias: g.param("bias")}
	b := newBench(t, l, g.shapes["input"], g.floats["input"], g.floats["grad_out"], true)
	wantClose(t, "out", b.out, g.floats["out"], goldenTolerance)
	wantClose(t, "grad input", b.gradX, g.floats["grad_input"], goldenTolerance)
	wantClose(t, "grad weight", b.grads["weight"], g.floats["grad_weight"], goldenTolerance)
	wantClose(t, "grad bias", b.grads["bias"], g.floats["grad_bias"], goldenTolerance)
}

func TestConv2dGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/conv2d_*.safetensors")
	if err != nil || len(files) != 6 {
		t.Fatalf("%d golden files, want 6: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := readGolden(t, file)
			l := &Conv2d{Weight: g.param("weight"), Bias: g.param("bias"), Config: Conv2dConfig{
				Stride: int(g.config["stride"]), Padding: int(g.config["padding"]),
				Dilation: int(g.config["dilation"]), Groups: int(g.config["groups"]),
			}}
			b := newBench(t, l, g.shapes["x"], g.floats["x"], g.floats["grad_out"], true)
			wantClose(t, "out", b.out, g.floats["out"], goldenTolerance)
			wantClose(t, "grad x", b.gradX, g.floats["grad_x"], goldenTolerance)
			wantClose(t, "grad weight", b.grads["weight"], g.floats["grad_weight"], goldenTolerance)
			wantClose(t, "grad bias", b.grads["bias"], g.floats["grad_bias"], goldenTolerance)
		})
	}
}

func TestMaxPool2dGolden(t *testing.T) {
	for _, c := range []MaxPool2d{{Kernel: 2}, {Kernel: 3, Stride: 2, Padding: 1}, {Kernel: 3, Stride: 1, Padding: 1}} {
		stride := c.Stride
		if stride == 0 {
			stride = c.Kernel
		}
		g := readGolden(t, fmt.Sprintf("testdata/maxpool_k%ds%dp%d.safetensors", c.Kernel, stride, c.Padding))
		b := newBench(t, c, g.shapes["x"], g.floats["x"], g.floats["grad_out"], true)
		wantClose(t, "out", b.out, g.floats["out"], 0)
		wantClose(t, "grad x", b.gradX, g.floats["grad_x"], goldenTolerance)
	}
}

func TestReLUGolden(t *testing.T) {
	g := readGolden(t, "testdata/act_relu.safetensors")
	b := newBench(t, ReLU{}, g.shapes["x"], g.floats["x"], g.floats["grad_out"], true)
	wantClose(t, "out", b.out, g.floats["out"], 0)
	wantClose(t, "grad x", b.gradX, g.floats["grad_x"], 0)
}

// TestCrossEntropyGolden goes through a Network whose logits are the weights
// of a Linear without bias: row i of the identity picks the logits of sample i.
func TestCrossEntropyGolden(t *testing.T) {
	for _, scale := range []int{1, 100, 10000} {
		for _, smoothing := range []string{"0", "0.1"} {
			g := readGolden(t, fmt.Sprintf("testdata/cross_entropy_scale%d_smooth%s.safetensors", scale, smoothing))
			n, classes := g.shapes["x"][0], g.shapes["x"][1]
			l := &Linear{Weight: NewParam(classes, n)}
			eye := make([]float32, n*n)
			labels := make([]int32, n)
			for i := range n {
				eye[i*n+i] = 1
				labels[i] = int32(g.ints["target"][i])
				for c := range classes {
					l.Weight.Value.Data[c*n+i] = g.floats["x"][i*classes+c]
				}
			}
			net := newNetwork(t, l, []int{n}, Config{LabelSmoothing: g.config["label_smoothing"]})
			loss, correct, err := net.Train(t.Context(), 1, eye, labels)
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(g.floats["loss"][0]); math.Abs(loss-want) > 1e-6*want {
				t.Errorf("scale %d, smoothing %s: loss %v, want %v", scale, smoothing, loss, want)
			}
			sum, evalCorrect, err := net.Evaluate(t.Context(), eye, labels)
			if err != nil {
				t.Fatal(err)
			}
			if sum != loss*float64(n) || evalCorrect != correct {
				t.Errorf("evaluation gives %v, %d; training %v, %d", sum, evalCorrect, loss*float64(n), correct)
			}
			transposed := make([]float32, n*classes)
			for i := range n {
				for c := range classes {
					transposed[c*n+i] = g.floats["grad_x"][i*classes+c]
				}
			}
			wantClose(t, "grad", l.Weight.Grad, transposed, goldenTolerance)
		}
	}
}
