package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/coda-ml/coda/internal/golden"
)

func TestBatchNormGolden(t *testing.T) {
	for _, g := range golden.Read(t, "batchnorm_train_*") {
		l := &BatchNorm{
			Weight: goldenParam(g, "weight"), Bias: goldenParam(g, "bias"), NumBatchesTracked: &Counter{},
			RunningMean: &Buffer{goldenParam(g, "mean_before").Value}, RunningVar: &Buffer{goldenParam(g, "var_before").Value},
			Config: BatchNormConfig{Eps: g.Setting("eps"), Momentum: g.Setting("momentum")},
		}
		checkNormGolden(t, g, l)
		wantClose(t, g.Name+": running mean", l.RunningMean.Value.Data, g.Floats("mean_after"), goldenTolerance)
		wantClose(t, g.Name+": running variance", l.RunningVar.Value.Data, g.Floats("var_after"), goldenTolerance)
		if l.NumBatchesTracked.Value != 1 {
			t.Errorf("%s: %d batches tracked, want 1", g.Name, l.NumBatchesTracked.Value)
		}
	}
	for _, dims := range []string{"2d", "4d"} {
		g, stats := golden.Read(t, "batchnorm_eval_"+dims)[0], golden.Read(t, "batchnorm_eval_"+dims+"_stats")[0]
		l := &BatchNorm{
			Weight: goldenParam(g, "weight"), Bias: goldenParam(g, "bias"), NumBatchesTracked: &Counter{},
			RunningMean: &Buffer{goldenParam(stats, "mean").Value}, RunningVar: &Buffer{goldenParam(stats, "var").Value},
			Config: BatchNormConfig{Eps: g.Setting("eps"), Frozen: true},
		}
		checkNormGolden(t, g, l)
		wantClose(t, g.Name+": running mean", l.RunningMean.Value.Data, stats.Floats("mean"), 0)
		if l.NumBatchesTracked.Value != 0 {
			t.Errorf("%s: %d batches tracked, want 0", g.Name, l.NumBatchesTracked.Value)
		}
	}
}

func checkNormGolden(t *testing.T, g *golden.Case, m Module) {
	t.Helper()
	b := newBench(t, m, g.Shape("x"), g.Floats("x"), g.Floats("grad_out"), true)
	wantClose(t, g.Name+": out", b.out, g.Floats("out"), goldenTolerance)
	wantClose(t, g.Name+": grad x", b.gradX, g.Floats("grad_x"), goldenTolerance)
	wantClose(t, g.Name+": grad weight", b.grads["weight"], g.Floats("grad_weight"), goldenTolerance)
	wantClose(t, g.Name+": grad bias", b.grads["bias"], g.Floats("grad_bias"), goldenTolerance)
}

func TestLayerNormGolden(t *testing.T) {
	g := golden.Read(t, "layernorm")[0]
	checkNormGolden(t, g, &LayerNorm{Weight: goldenParam(g, "weight"), Bias: goldenParam(g, "bias"), Eps: g.Setting("eps")})
}

func TestEmbeddingGolden(t *testing.T) {
	g := golden.Read(t, "embedding")[0]
	var c struct{ Index [][]float32 }
	g.Settings(&c)
	b := newBench(t, &Embedding{Weight: goldenParam(g, "weight")}, []int{2, 3}, append(c.Index[0], c.Index[1]...), g.Floats("grad_out"), false)
	wantClose(t, "out", b.out, g.Floats("out"), 0)
	wantClose(t, "grad weight", b.grads["weight"], g.Floats("grad_weight"), goldenTolerance)
}

func TestMapsGolden(t *testing.T) {
	maps := map[string]Module{
		"act_leaky_relu_0.01": LeakyReLU{}, "act_gelu": GELU{}, "act_silu": SiLU{}, "act_tanh": Tanh{}, "act_sigmoid": Sigmoid{},
		"act_softplus": Softplus{}, "act_elu": ELU{}, "act_hardswish": Hardswish{}, "act_softmax": Softmax{}, "act_log_softmax": LogSoftmax{},
		"global_avgpool": GlobalAvgPool2d{},
	}
	for _, m := range []AvgPool2d{{Kernel: 2}, {Kernel: 3, Stride: 2, Padding: 1}, {Kernel: 3, Stride: 1, Padding: 1}} {
		stride := m.Stride
		if stride == 0 {
			stride = m.Kernel
		}
		maps[fmt.Sprintf("avgpool_k%ds%dp%d", m.Kernel, stride, m.Padding)] = m
	}
	for name, m := range maps {
		g := golden.Read(t, name)[0]
		b := newBench(t, m, g.Shape("x"), g.Floats("x"), g.Floats("grad_out"), true)
		wantClose(t, name+": out", b.out, g.Floats("out"), goldenTolerance)
		wantClose(t, name+": grad x", b.gradX, g.Floats("grad_x"), goldenTolerance)
	}
}

// outputsOf returns a network whose outputs for eye, a batch of the rows of the
// identity, are the numbers x [n, outputs]: they are its weights. Their
// gradient is what lossGradient returns.
func outputsOf(t *testing.T, x []float32, n, outputs int, loss Loss) (net *Network, eye []float32) {
	t.Helper()
	l := &Linear{Weight: NewParam(outputs, n)}
	eye = make([]float32, n*n)
	for i := range n {
		eye[i*n+i] = 1
		for c := range outputs {
			l.Weight.Value.Data[c*n+i] = x[i*outputs+c]
		}
	}
	return newNetwork(t, l, []int{n}, Config{Loss: loss, Threads: 2}), eye
}

func lossGradient(net *Network, n, outputs int) []float32 {
	w := net.Params()[0]
	grad := make([]float32, n*outputs)
	for i := range n {
		for c := range outputs {
			grad[i*outputs+c] = w.Grad[c*n+i]
		}
	}
	return grad
}

func TestTargetLossesGolden(t *testing.T) {
	for name, loss := range map[string]Loss{"loss_mse": MSE{}, "loss_smooth_l1": SmoothL1{}, "loss_bce_logits": BCEWithLogits{}} {
		g := golden.Read(t, name)[0]
		n, outputs := g.Shape("x")[0], g.Shape("x")[1]
		targets := g.Floats("target")
		if name == "loss_bce_logits" { // these went through a sigmoid
			for i, v := range targets {
				targets[i] = float32(1 / (1 + math.Exp(-float64(v))))
			}
		}
		net, eye := outputsOf(t, g.Floats("x"), n, outputs, loss)
		mean, err := net.TrainTargets(t.Context(), 1, eye, targets)
		if err != nil {
			t.Fatal(err)
		}
		wantClose(t, name, []float32{float32(mean)}, g.Floats("loss"), 1e-6)
		wantClose(t, name+": gradient", lossGradient(net, n, outputs), g.Floats("grad_x"), goldenTolerance)
		if sum, err := net.EvaluateTargets(t.Context(), eye, targets); err != nil || sum != mean*float64(n) {
			t.Errorf("%s: evaluation gives %v, training %v; error %v", name, sum, mean*float64(n), err)
		}
		if _, err := net.AccumulateTargets(t.Context(), 1, eye, targets); err != nil {
			t.Fatal(err)
		}
		twice := g.Floats("grad_x")
		for i := range twice {
			twice[i] *= 2
		}
		wantClose(t, name+": accumulated", lossGradient(net, n, outputs), twice, goldenTolerance)
	}
}

func TestClassWeightsGolden(t *testing.T) {
	g := golden.Read(t, "cross_entropy_weighted")[0]
	n, classes := g.Shape("x")[0], g.Shape("x")[1]
	net, eye := outputsOf(t, g.Floats("x"), n, classes, CrossEntropy{Weights: g.Floats("class_weight")})
	loss, _, err := net.Train(t.Context(), 1, eye, g.Labels("target"))
	if err != nil {
		t.Fatal(err)
	}
	wantClose(t, "loss", []float32{float32(loss)}, g.Floats("loss"), 1e-6)
	wantClose(t, "gradient", lossGradient(net, n, classes), g.Floats("grad_x"), goldenTolerance)
}
