package nn

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
)

// trainedNorms brings the running statistics of a model's batch normalisations
// away from where they began, and its biases from 0.
func trainedNorms(t *testing.T, net *Network, shape []int) {
	t.Helper()
	for step := range 8 {
		x, labels := batchFor(shape, 6, uint64(step))
		if _, _, err := net.Train(t.Context(), step+1, x, labels); err != nil {
			t.Fatal(err)
		}
		descend(net, 0.1)
	}
}

// TestEvaluationUsesRunningStatistics: the folded and fused graph gives what a
// float64 reference gives with the running statistics, and nothing depends on
// the rest of the batch.
func TestEvaluationUsesRunningStatistics(t *testing.T) {
	model, shape := normalisedNet()
	net := newNetwork(t, model, shape, Config{Threads: 2})
	trainedNorms(t, net, shape)
	modules, err := Modules(model)
	if err != nil {
		t.Fatal(err)
	}
	x, labels := batchFor(shape, 5, 99)
	got, err := net.Predict(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range net.programs[len(net.programs)-1].g.ops {
		kinds[o.kind]++
	}
	if kinds["conv2d with batchnorm"] != 2 || kinds["relu"] != 0 || kinds["add"] != 0 {
		t.Errorf("operations %v: want two folded convolutions, nothing that can be fused", kinds)
	}
	values := map[*Param][]float64{}
	for _, p := range net.Params() {
		for _, v := range p.Value.Data {
			values[p.Param] = append(values[p.Param], float64(v))
		}
	}
	in := make([]float64, len(x))
	for i, v := range x {
		in[i] = float64(v)
	}
	for _, m := range modules {
		if norm, ok := m.Module.(*BatchNorm); ok {
			norm.Config.Frozen = true // for the reference
		}
	}
	out, _ := refChain(t, model, values, in, append([]int{len(labels)}, shape...))
	want := make([]float32, len(out))
	for i, v := range out {
		want[i] = float32(v)
	}
	wantClose(t, "evaluation", got, want, 1e-5)
	one, err := net.Predict(t.Context(), x[:size(shape)])
	if err != nil {
		t.Fatal(err)
	}
	wantClose(t, "a sample alone", one, got[:3], 1e-5)
}

// TestNormOfOneValue: a channel with one value has no variance; nothing is
// divided by 0, and the running statistics stay.
func TestNormOfOneValue(t *testing.T) {
	norm := NewBatchNorm(3, BatchNormConfig{})
	copy(norm.Bias.Value.Data, []float32{1, 2, 3})
	b := newBench(t, norm, []int{1, 3}, []float32{5, -1e4, 0}, []float32{1, 1, 1}, true)
	if !slices.Equal(b.out, []float32{1, 2, 3}) || !slices.Equal(b.gradX, []float32{0, 0, 0}) {
		t.Errorf("output %v, gradient %v; want the bias, 0", b.out, b.gradX)
	}
	if !slices.Equal(norm.RunningMean.Value.Data, []float32{0, 0, 0}) || !slices.Equal(norm.RunningVar.Value.Data, []float32{1, 1, 1}) {
		t.Errorf("running statistics %v, %v", norm.RunningMean.Value.Data, norm.RunningVar.Value.Data)
	}
	constant := []float32{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}
	b = newBench(t, norm, []int{4, 3}, constant, constant, true)
	if !slices.Equal(b.out[:3], []float32{1, 2, 3}) || !finite(b.gradX) || !finite(b.grads["weight"]) {
		t.Errorf("constant channels: output %v, gradients %v, %v", b.out, b.gradX, b.grads["weight"])
	}
}

// layersNet has every kind of layer that computes on the pool.
func layersNet() (Sequential, []int) {
	rng := newRand(21)
	return Sequential{
		NewConv2d(rng, 2, 8, 3, Conv2dConfig{Padding: 1}, NoBias()), NewBatchNorm(8, BatchNormConfig{}), ReLU{}, Dropout{Rate: 0.2},
		&Residual{Body: Sequential{NewConv2d(rng, 8, 8, 3, Conv2dConfig{Padding: 1}), NewBatchNorm(8, BatchNormConfig{})}, ReLU: true},
		Concat{AvgPool2d{Kernel: 2}, MaxPool2d{Kernel: 2}, AdaptiveAvgPool2d{Height: 8, Width: 8}}, GELU{}, NewLayerNorm(8, 8),
		Concat{GlobalAvgPool2d{}, Flatten{}}, Dropout{Rate: 0.5}, NewLinear(rng, 24+24*64, 16), NewBatchNorm(16, BatchNormConfig{}), SiLU{},
		Softmax{}, NewLinear(rng, 16, 3),
	}, []int{2, 16, 16}
}

// TestLayersSameBits: neither chance nor the number of threads changes a bit of
// gradients and buffers.
func TestLayersSameBits(t *testing.T) {
	run := func(threads int) (all []float32) {
		model, shape := layersNet()
		net := newNetwork(t, model, shape, Config{Threads: threads, Seed: 3, Loss: CrossEntropy{Weights: []float32{1, 2, 0.5}}})
		for step := range 4 {
			x, labels := batchFor(shape, 9+step%2, uint64(step))
			if _, _, err := net.Train(t.Context(), step+1, x, labels); err != nil {
				t.Fatal(err)
			}
			all = append(all, flatGrads(net)...)
			descend(net, 0.1)
		}
		state, err := State(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range state {
			if v.Buffer != nil {
				all = append(all, v.Buffer.Value.Data...)
			}
		}
		return all
	}
	want := run(1)
	for _, threads := range []int{1, 2, 3} {
		if !slices.Equal(run(threads), want) {
			t.Errorf("%d threads: not the bits of one", threads)
		}
	}
}

// maskOf returns what a Dropout makes of ones, forward and backward.
func maskOf(t *testing.T, net *Network, step int, accumulate bool) []float32 {
	t.Helper()
	ones := make([]float32, size(net.shape))
	fill(ones, 1)
	run := net.TrainTargets
	if accumulate {
		run = net.AccumulateTargets
	}
	if _, err := run(t.Context(), step, ones, make([]float32, net.outputs)); err != nil {
		t.Fatal(err)
	}
	p := net.programs[len(net.programs)-1]
	for _, o := range p.g.ops {
		if o.kind == "dropout" {
			return slices.Clone(o.buf)
		}
	}
	t.Fatal("no dropout in the graph")
	return nil
}

func TestDropout(t *testing.T) {
	const n = 4000
	build := func(seed uint64, rate float64) *Network {
		l := NewLinear(newRand(1), n, 1)
		return newNetwork(t, Sequential{&scaled{NewParam(n)}, Dropout{Rate: rate}, l}, []int{n}, Config{Threads: 2, Seed: seed, Loss: MSE{}})
	}
	net := build(1, 0.3)
	fill(net.Params()[0].Value.Data, 1)
	mask := maskOf(t, net, 5, false)
	kept := 0
	for _, v := range mask {
		switch v {
		case 0:
		case float32(1 / 0.7):
			kept++
		default:
			t.Fatalf("an entry of 1 becomes %v", v)
		}
	}
	// A binomial's standard deviation is 29.
	if math.Abs(float64(kept)-0.7*n) > 4*29 {
		t.Errorf("%d of %d kept, want about 70 %%", kept, n)
	}
	// What was dropped gets no gradient, and the rest the factor.
	w, dy := net.Params()[1].Value.Data, net.Params()[0].Grad
	scale := dy[slices.IndexFunc(mask, func(v float32) bool { return v != 0 })] / w[slices.IndexFunc(mask, func(v float32) bool { return v != 0 })]
	for i, v := range mask {
		if d := math.Abs(float64(dy[i] - v*0.7*scale*w[i])); d > 1e-5*math.Abs(float64(scale)) {
			t.Fatalf("gradient %d is %v for the mask %v", i, dy[i], v)
		}
	}
	if !slices.Equal(maskOf(t, net, 5, false), mask) {
		t.Error("the same step drops other entries")
	}
	part := maskOf(t, net, 5, true)
	others := [][]float32{part, maskOf(t, net, 5, true), maskOf(t, net, 6, false)}
	for i, other := range append(others, func() []float32 {
		net := build(2, 0.3)
		fill(net.Params()[0].Value.Data, 1)
		return maskOf(t, net, 5, false)
	}()) {
		if slices.Equal(other, mask) {
			t.Errorf("mask %d of another step, part or seed is the same", i)
		}
	}
	out, err := net.Predict(t.Context(), make([]float32, n))
	if err != nil || len(out) != 1 {
		t.Fatal(err)
	}
	for _, o := range net.programs[len(net.programs)-1].g.ops {
		if o.kind == "dropout" {
			t.Error("evaluation drops")
		}
	}
	if _, err := NewNetwork(Sequential{Dropout{Rate: 1.5}}, []int{3}, Config{}); !contains(err, "dropout1: rate 1.5") {
		t.Errorf("rate 1.5: error %v", err)
	}
}

// scaled multiplies by a parameter, entry by entry, a sample at a time.
type scaled struct{ Weight *Param }

func (m *scaled) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	w, err := g.Param(m.Weight)
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: "scaled", kind: "scale", in: []*gorgonia.Node{x, w}, shape: x.Shape(), diff: []bool{false, true},
		run: func(_ *runContext, v [][]float32, y []float32) error {
			for i := range y {
				y[i] = v[0][i] * v[1][i]
			}
			return nil
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dw, err := g.reshape("scaled", dy, m.Weight.Value.Shape...) // of ones
			return []*gorgonia.Node{nil, dw}, err
		},
	})
}

func TestLayersRefuse(t *testing.T) {
	torn := NewBatchNorm(3, BatchNormConfig{})
	torn.Bias = NewParam(2)
	short := NewBatchNorm(3, BatchNormConfig{})
	short.RunningVar = NewBuffer(1, 2)
	for _, c := range []struct {
		m     Module
		shape []int
		want  []string
	}{
		{NewBatchNorm(2, BatchNormConfig{}), []int{3}, []string{"batchnorm", "weight of shape [2] for 3 channels"}},
		{torn, []int{3}, []string{"bias of shape [2] for 3 channels"}},
		{short, []int{3}, []string{"running variance of shape [2] for 3 channels"}},
		{NewBatchNorm(3, BatchNormConfig{Momentum: 2}), []int{3}, []string{"momentum 2"}},
		{NewBatchNorm(3, BatchNormConfig{Eps: -1}), []int{3}, []string{"epsilon -1"}},
		{NewLayerNorm(4), []int{3}, []string{"layernorm", "[1 3]", "ending with [4]"}},
		{NewLayerNorm(), []int{3}, []string{"layernorm", "ending with []"}},
		{&LayerNorm{Weight: NewParam(3), Bias: NewParam(2)}, []int{3}, []string{"a weight and a bias of one shape"}},
		{&LayerNorm{Weight: NewParam(3), Bias: NewParam(3), Eps: -1}, []int{3}, []string{"epsilon -1"}},
		{AvgPool2d{Kernel: 2}, []int{3}, []string{"avgpool1", "[1 3]"}},
		{AvgPool2d{Kernel: 4}, []int{1, 3, 3}, []string{"avgpool1", "kernel 4x4"}},
		{GlobalAvgPool2d{}, []int{3}, []string{"globalavgpool1", "[1 3]"}},
		{AdaptiveAvgPool2d{Height: 1, Width: 1}, []int{3}, []string{"adaptiveavgpool1", "[1 3]"}},
		{AdaptiveAvgPool2d{Height: 1}, []int{1, 3, 3}, []string{"output of 1x0"}},
		{&Embedding{Weight: NewParam(3)}, []int{3}, []string{"embedding", "[vocabulary, dim]"}},
		{Concat{}, []int{3}, []string{"concat1", "nothing to join"}},
		{Concat{ReLU{}, GlobalAvgPool2d{}}, []int{1, 2, 2}, []string{"concat1", "[1 1]", "[1 1 2 2]"}},
		{&Residual{Body: Sequential{NewLinear(newRand(1), 3, 2)}}, []int{3}, []string{"add1", "[1 2]", "[1 3]"}},
		{&Residual{Body: Sequential{NewLinear(newRand(1), 3, 2), NewBatchNorm(2, BatchNormConfig{})}}, []int{3}, []string{"body.1", "[1 2]", "residual, [1 3]"}},
	} {
		_, err := NewNetwork(c.m, c.shape, Config{Threads: 1})
		if err == nil {
			t.Errorf("%T on %v: no error", c.m, c.shape)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%T on %v: error %q, want it to say %q", c.m, c.shape, err, want)
			}
		}
	}
}

func TestEmbeddingRefusesIDs(t *testing.T) {
	net := newNetwork(t, Sequential{NewEmbedding(newRand(1), 4, 3), Flatten{}}, []int{2}, Config{Threads: 1})
	for id, want := range map[float32]string{
		4: "id 4", -1: "id -1", 0.5: "id 0.5", float32(math.NaN()): "id NaN", float32(math.Inf(1)): "id +Inf",
	} {
		_, err := net.Predict(t.Context(), []float32{0, id})
		var op *OpError
		if !errors.As(err, &op) || op.Layer != "0" || !strings.Contains(err.Error(), want+" at position 1, want a whole number from 0 to 3") {
			t.Errorf("id %v: error %v", id, err)
		}
	}
	if _, err := net.Predict(t.Context(), []float32{0, 3}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestLossesRefuse(t *testing.T) {
	linear := NewLinear(newRand(1), 4, 2)
	nan := float32(math.NaN())
	for want, loss := range map[string]Loss{
		"label smoothing 1":             CrossEntropy{Smoothing: 1},
		"3 class weights for 2 classes": CrossEntropy{Weights: []float32{1, 1, 1}},
		"weight -1 of class 1":          CrossEntropy{Weights: []float32{1, -1}},
		"weight NaN of class 0":         CrossEntropy{Weights: []float32{nan, 1}},
		"beta -1":                       SmoothL1{Beta: -1},
	} {
		if _, err := NewNetwork(linear, []int{4}, Config{Loss: loss}); !contains(err, want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
	x := make([]float32, 8)
	labels := newNetwork(t, linear, []int{4}, Config{Threads: 1})
	numbers := newNetwork(t, linear, []int{4}, Config{Threads: 1, Loss: MSE{}})
	binary := newNetwork(t, linear, []int{4}, Config{Threads: 1, Loss: BCEWithLogits{}})
	for want, run := range map[string]func() error{
		"takes labels":                 func() error { _, err := labels.TrainTargets(t.Context(), 1, x, x[:4]); return err },
		"takes numbers":                func() error { _, _, err := numbers.Evaluate(t.Context(), x, []int32{0, 1}); return err },
		"3 targets, want 4":            func() error { _, err := numbers.AccumulateTargets(t.Context(), 1, x, x[:3]); return err },
		"7 numbers, want 4":            func() error { _, err := numbers.EvaluateTargets(t.Context(), x[:7], x[:2]); return err },
		"target 2 of output 1 of samp": func() error { _, err := binary.TrainTargets(t.Context(), 1, x, []float32{0, 1, 1, 2}); return err },
	} {
		if err := run(); !contains(err, want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
	// No sample of a class that counts: the loss is 0/0, and says so.
	none := newNetwork(t, linear, []int{4}, Config{Threads: 1, Loss: CrossEntropy{Weights: []float32{0, 1}}})
	_, _, err := none.Train(t.Context(), 3, x, []int32{0, 0})
	var e *NonFiniteError
	if !errors.As(err, &e) || e.Step != 3 {
		t.Errorf("error %v, want a NonFiniteError of step 3", err)
	}
}

// TestNonFiniteInNorms: the first place is named, also where it is a running
// statistic; NaN in the input does no lasting harm.
func TestNonFiniteInNorms(t *testing.T) {
	model, shape := layersNet()
	net := newNetwork(t, model, shape, Config{Threads: 2})
	x, labels := batchFor(shape, 4, 1)
	spoilt := slices.Clone(x)
	spoilt[17] = float32(math.NaN())
	where := func(x []float32) string {
		t.Helper()
		_, _, err := net.Train(t.Context(), 7, x, labels)
		var e *NonFiniteError
		if err == nil {
			return "nowhere"
		}
		if !errors.As(err, &e) || e.Step != 7 {
			t.Fatalf("error %v, want a NonFiniteError of step 7", err)
		}
		return e.Where
	}
	if got := where(spoilt); got != "the input" {
		t.Errorf("NaN in the input: %s", got)
	}
	if got := where(x); got != "nowhere" {
		t.Errorf("after NaN in the input: not finite: %s", got)
	}
	for i := range x {
		x[i] *= 3e38 / 4
	}
	if got := where(x); got != "output of layer 1 (batchnorm)" {
		t.Errorf("overflow: %s", got)
	}
	norm := model[1].(*BatchNorm)
	norm.Config.Frozen = true
	norm.RunningVar.Value.Data[2] = float32(math.NaN())
	frozen := newNetwork(t, model, shape, Config{Threads: 2})
	x, labels = batchFor(shape, 4, 1)
	_, _, err := frozen.Train(t.Context(), 1, x, labels)
	var e *NonFiniteError
	if !errors.As(err, &e) || e.Where != "buffer 1.running_var" {
		t.Errorf("error %v, want the running variance", err)
	}
}
