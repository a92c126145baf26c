package kernel

import (
	"testing"

	"github.com/coda-ml/coda/internal/golden"
)

const goldenTolerance = 1e-5

// copyOf returns a copy, since kernels update some of their arguments.

// batchNormOf returns the geometry and the parameters of a golden case.
func batchNormOf(c *golden.Case) (BatchNorm, BatchNormParams) {
	shape := c.Shape("x")
	g := BatchNorm{N: shape[0], C: shape[1], Plane: 1, Eps: c.Setting("eps")}
	for _, d := range shape[2:] {
		g.Plane *= d
	}
	return g, BatchNormParams{
		Gamma: c.Floats("weight"), Beta: c.Floats("bias"),
		Mean: make([]float32, g.C), InvStd: make([]float32, g.C),
	}
}

func TestBatchNormGolden(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, c := range golden.Read(t, "batchnorm_train_*") {
			g, params := batchNormOf(c)
			g.Momentum = c.Setting("momentum")
			params.RunningMean, params.RunningVar = c.Floats("mean_before"), c.Floats("var_before")
			x, y, dx := c.Floats("x"), make([]float32, g.Len()), make([]float32, g.Len())
			dgamma, dbeta := make([]float32, g.C), make([]float32, g.C)
			BatchNormTrain(nil, g, params, x, nil, y)
			BatchNormBackward(nil, g, params, x, nil, c.Floats("grad_out"), dx, nil, dgamma, dbeta)
			checkNear(t, c.Name+": output", y, c.Floats("out"), goldenTolerance)
			checkNear(t, c.Name+": running mean", params.RunningMean, c.Floats("mean_after"), goldenTolerance)
			checkNear(t, c.Name+": running variance", params.RunningVar, c.Floats("var_after"), goldenTolerance)
			checkNear(t, c.Name+": dx", dx, c.Floats("grad_x"), goldenTolerance)
			checkNear(t, c.Name+": dgamma", dgamma, c.Floats("grad_weight"), goldenTolerance)
			checkNear(t, c.Name+": dbeta", dbeta, c.Floats("grad_bias"), goldenTolerance)
		}
		for _, dims := range []string{"2d", "4d"} {
			c, stats := golden.Read(t, "batchnorm_eval_"+dims+"")[0], golden.Read(t, "batchnorm_eval_"+dims+"_stats")[0]
			g, params := batchNormOf(c)
			params.RunningMean, params.RunningVar = stats.Floats("mean"), stats.Floats("var")
			x, y, dx := c.Floats("x"), make([]float32, g.Len()), make([]float32, g.Len())
			dgamma, dbeta := make([]float32, g.C), make([]float32, g.C)
			BatchNormEval(nil, g, params, x, nil, y)
			BatchNormEvalBackward(nil, g, params, x, nil, c.Floats("grad_out"), dx, nil, dgamma, dbeta)
			checkNear(t, c.Name+": output", y, c.Floats("out"), goldenTolerance)
			checkNear(t, c.Name+": dx", dx, c.Floats("grad_x"), goldenTolerance)
			checkNear(t, c.Name+": dgamma", dgamma, c.Floats("grad_weight"), goldenTolerance)
			checkNear(t, c.Name+": dbeta", dbeta, c.Floats("grad_bias"), goldenTolerance)
		}
	})
}

func TestActivationGolden(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for _, test := range []struct {
			file      string
			a         Activation
			parameter float32
		}{
			{"relu", ActReLU, 0}, {"leaky_relu_0.01", ActLeakyReLU, 0.01}, {"tanh", ActTanh, 0}, {"sigmoid", ActSigmoid, 0}, {"silu", ActSiLU, 0},
			{"gelu", ActGELU, 0}, {"softplus", ActSoftplus, 0}, {"elu", ActELU, 1}, {"hardswish", ActHardswish, 0},
		} {
			c := golden.Read(t, "act_"+test.file+"")[0]
			x := c.Floats("x")
			y, dx := make([]float32, len(x)), make([]float32, len(x))
			Activate(nil, test.a, test.parameter, y, x)
			checkNear(t, c.Name+": output", y, c.Floats("out"), goldenTolerance)
			z := x
			if test.a.UsesOutput() {
				z = y
			}
			ActivateBackward(nil, test.a, test.parameter, dx, c.Floats("grad_out"), z)
			checkNear(t, c.Name+": gradient", dx, c.Floats("grad_x"), goldenTolerance)
		}
	})
}

func TestSoftmaxGolden(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		for file, f := range map[string]struct {
			forward  func(p *Pool, dst, x []float32, rows, cols int)
			backward func(p *Pool, dx, dy, y []float32, rows, cols int)
		}{"softmax": {Softmax, SoftmaxBackward}, "log_softmax": {LogSoftmax, LogSoftmaxBackward}} {
			c := golden.Read(t, "act_"+file+"")[0]
			shape := c.Shape("x")
			y, dx := make([]float32, shape[0]*shape[1]), make([]float32, shape[0]*shape[1])
			f.forward(nil, y, c.Floats("x"), shape[0], shape[1])
			checkNear(t, c.Name+": output", y, c.Floats("out"), goldenTolerance)
			f.backward(nil, dx, c.Floats("grad_out"), y, shape[0], shape[1])
			checkNear(t, c.Name+": gradient", dx, c.Floats("grad_x"), goldenTolerance)
		}
	})
}

func TestAvgPoolGolden(t *testing.T) {
	for _, c := range golden.Read(t, "avgpool_*") {
		in := c.Shape("x")
		k, s, p := int(c.Setting("kernel")), int(c.Setting("stride")), int(c.Setting("padding"))
		g := AvgPool{N: in[0], C: in[1], H: in[2], W: in[3], KH: k, KW: k, StrideH: s, StrideW: s, PadH: p, PadW: p}
		y, dx := make([]float32, g.OutLen()), make([]float32, g.InLen())
		AvgPoolForward(nil, g, c.Floats("x"), y)
		checkNear(t, c.Name+": output", y, c.Floats("out"), goldenTolerance)
		AvgPoolBackward(nil, g, c.Floats("grad_out"), dx)
		checkNear(t, c.Name+": gradient", dx, c.Floats("grad_x"), goldenTolerance)
	}
	c := golden.Read(t, "global_avgpool")[0]
	in := c.Shape("x")
	planes, size := in[0]*in[1], in[2]*in[3]
	y, dx := make([]float32, planes), make([]float32, planes*size)
	GlobalAvgPool(nil, planes, size, c.Floats("x"), y)
	checkNear(t, c.Name+": output", y, c.Floats("out"), goldenTolerance)
	GlobalAvgPoolBackward(nil, planes, size, c.Floats("grad_out"), dx)
	checkNear(t, c.Name+": gradient", dx, c.Floats("grad_x"), goldenTolerance)
}

func TestLayerNormGolden(t *testing.T) {
	withVectors(t, func(t *testing.T) {
		c := golden.Read(t, "layernorm")[0]
		shape := c.Shape("x")
		g := LayerNorm{Rows: shape[0], Cols: shape[1] * shape[2], Eps: c.Setting("eps")}
		x, gamma := c.Floats("x"), c.Floats("weight")
		y, dx := make([]float32, len(x)), make([]float32, len(x))
		mean, inv := make([]float32, g.Rows), make([]float32, g.Rows)
		dgamma, dbeta := make([]float32, g.Cols), make([]float32, g.Cols)
		LayerNormForward(nil, g, x, gamma, c.Floats("bias"), y, mean, inv)
		LayerNormBackward(nil, g, x, gamma, mean, inv, c.Floats("grad_out"), dx, dgamma, dbeta)
		checkNear(t, "output", y, c.Floats("out"), goldenTolerance)
		checkNear(t, "dx", dx, c.Floats("grad_x"), goldenTolerance)
		checkNear(t, "dgamma", dgamma, c.Floats("grad_weight"), goldenTolerance)
		checkNear(t, "dbeta", dbeta, c.Floats("grad_bias"), goldenTolerance)
	})
}

func TestEmbeddingGolden(t *testing.T) {
	c := golden.Read(t, "embedding")[0]
	shape := c.Shape("weight")
	ids := []int32{0, 3, 3, 6, 1, 0} // the case's index
	y, dw := make([]float32, len(ids)*shape[1]), make([]float32, shape[0]*shape[1])
	if err := Embedding(nil, c.Floats("weight"), shape[0], shape[1], ids, y); err != nil {
		t.Fatal(err)
	}
	checkSame(t, "output", y, c.Floats("out"))
	if err := EmbeddingBackward(nil, c.Floats("grad_out"), shape[0], shape[1], ids, dw); err != nil {
		t.Fatal(err)
	}
	checkNear(t, "gradient", dw, c.Floats("grad_weight"), goldenTolerance)
}

func TestLossGolden(t *testing.T) {
	for file, f := range map[string]func(x, target, grad []float32) float64{
		"mse":       func(x, target, grad []float32) float64 { return MSE(nil, x, target, grad) },
		"smooth_l1": func(x, target, grad []float32) float64 { return SmoothL1(nil, x, target, 1, grad) },
		"bce_logits": func(x, target, grad []float32) float64 {
			for i, v := range target { // the case's targets went through a sigmoid
				target[i] = sigmoid32(v)
			}
			return BCEWithLogits(nil, x, target, grad)
		},
	} {
		c := golden.Read(t, "loss_"+file+"")[0]
		x := c.Floats("x")
		grad := make([]float32, len(x))
		loss := f(x, c.Floats("target"), grad)
		checkNear(t, c.Name+": loss", []float32{float32(loss)}, c.Floats("loss"), goldenTolerance)
		checkNear(t, c.Name+": gradient", grad, c.Floats("grad_x"), goldenTolerance)
		if alone := f(x, c.Floats("target"), nil); alone != loss {
			t.Errorf("%s: loss without gradient %v, want %v", c.Name, alone, loss)
		}
	}
	for _, c := range append(golden.Read(t, "cross_entropy_scale*"), golden.Read(t, "cross_entropy_weighted*")...) {
		shape := c.Shape("x")
		var weights []float32
		smoothing := 0.0
		if c.Name == "cross_entropy_weighted" {
			weights = c.Floats("class_weight")
		} else {
			smoothing = c.Setting("label_smoothing")
		}
		x := c.Floats("x")
		grad := make([]float32, len(x))
		loss, err := CrossEntropy(nil, x, c.Labels("target"), shape[0], shape[1], weights, smoothing, grad)
		if err != nil {
			t.Fatal(err)
		}
		checkNear(t, c.Name+": loss", []float32{float32(loss)}, c.Floats("loss"), goldenTolerance)
		checkNear(t, c.Name+": gradient", grad, c.Floats("grad_x"), goldenTolerance)
	}
}
