package nn

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
)

func TestNetworkRefuses(t *testing.T) {
	linear := NewLinear(newRand(1), 4, 2)
	for _, c := range []struct {
		name  string
		model Module
		shape []int
		c     Config
		want  []string
	}{
		{"nil model", nil, []int{4}, Config{}, []string{"nil model"}},
		{"no shape", linear, nil, Config{}, []string{"input shape []"}},
		{"zero dimension", linear, []int{4, 0}, Config{}, []string{"input shape [4 0]"}},
		{"every setting", linear, []int{4}, Config{Threads: -1, MaxGraphs: -2}, []string{"threads -1", "at most -2 graphs"}},
		{"NaN smoothing", linear, []int{4}, Config{Loss: CrossEntropy{Smoothing: math.NaN()}}, []string{"smoothing NaN"}},
		{"shapes", Sequential{linear, NewLinear(newRand(1), 3, 2)}, []int{4}, Config{}, []string{"layer 1", "[1 2]", "[batch, 3]"}},
		{"image into linear", linear, []int{2, 2}, Config{}, []string{"linear", "[1 2 2]", "[batch, 4]"}},
		{"vector into conv", NewConv2d(newRand(1), 1, 1, 3, Conv2dConfig{}), []int{4}, Config{}, []string{"conv2d", "[1 4]", "[batch, 1, height, width]"}},
		{"kernel too large", Sequential{NewConv2d(newRand(1), 1, 1, 3, Conv2dConfig{})}, []int{1, 2, 2}, Config{}, []string{"layer 0", "[1 1 2 2]", "kernel 3x3"}},
		{"negative stride", Sequential{NewConv2d(newRand(1), 1, 1, 1, Conv2dConfig{Stride: -1})}, []int{1, 2, 2}, Config{}, []string{"layer 0", "stride -1"}},
		{"pool of a vector", MaxPool2d{Kernel: 2}, []int{4}, Config{}, []string{"maxpool1", "[1 4]"}},
		{"pool too large", MaxPool2d{Kernel: 3}, []int{1, 2, 2}, Config{}, []string{"maxpool1", "kernel 3x3"}},
		{"no logits", ReLU{}, []int{1, 2, 2}, Config{}, []string{"[1 1 2 2]", "[1, outputs]"}},
		{"no weight", Sequential{&Linear{Weight: NewParam(3)}}, []int{4}, Config{}, []string{"layer 0", "no weight of shape [out, in]"}},
		{"bias of another size", Sequential{&Linear{Weight: NewParam(3, 4), Bias: NewParam(2)}}, []int{4}, Config{}, []string{"layer 0", "bias of shape [2]", "[3, 4]"}},
		{"conv bias of another size", Sequential{&Conv2d{Weight: NewParam(3, 1, 1, 1), Bias: NewParam(2)}}, []int{1, 2, 2}, Config{}, []string{"layer 0", "bias of shape [2]", "3 output channels"}},
		{"torn parameter", Sequential{&Linear{Weight: &Param{Value: tensorOf([]int{3, 4}, 5)}}}, []int{4}, Config{}, []string{"0.weight", "5 numbers for shape [3 4]"}},
		{"hidden parameter", &hidden{fc: linear}, []int{4}, Config{}, []string{"must be exported"}},
		{"panic", broken{}, []int{4}, Config{}, []string{"broken", "panic: no forward"}},
		{"nil node", nothing{}, []int{4}, Config{}, []string{"nothing.Forward returned no node"}},
	} {
		net, err := NewNetwork(c.model, c.shape, c.c)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			if err := net.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q, want it to say %q", c.name, err, want)
			}
		}
	}
}

type hidden struct{ fc *Linear }

func (h *hidden) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return h.fc.Forward(g, x)
}

type broken struct{}

func (broken) Forward(*Graph, *gorgonia.Node) (*gorgonia.Node, error) { panic("no forward") }

type nothing struct{}

func (nothing) Forward(*Graph, *gorgonia.Node) (*gorgonia.Node, error) { return nil, nil }

func TestRunRefuses(t *testing.T) {
	net, err := NewNetwork(NewLinear(newRand(1), 4, 3), []int{4}, Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	x := make([]float32, 8)
	for what, run := range map[string]func() error{
		"0 numbers, want 0":      func() error { _, _, err := net.Train(ctx, 1, nil, nil); return err },
		"8 numbers, want 4":      func() error { _, _, err := net.Train(ctx, 1, x, []int32{0}); return err },
		"8 numbers, want 12":     func() error { _, _, err := net.Evaluate(ctx, x, []int32{0, 1, 2}); return err },
		"want a multiple of 4":   func() error { _, err := net.Predict(ctx, x[:7]); return err },
		"label 3 of row 1":       func() error { _, _, err := net.Train(ctx, 1, x, []int32{0, 3}); return err },
		"label -1 of row 0":      func() error { _, _, err := net.Evaluate(ctx, x, []int32{-1, 0}); return err },
		context.Canceled.Error(): func() error { c, stop := context.WithCancel(ctx); stop(); _, err := net.Predict(c, x); return err },
	} {
		if err := run(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want it to say %q", err, what)
		}
	}
	if logits, err := net.Predict(ctx, x); err != nil || len(logits) != 2*net.Outputs() || net.Outputs() != 3 {
		t.Errorf("after all the errors: logits %v of %d outputs, error %v", logits, net.Outputs(), err)
	}
	if err := net.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Predict(ctx, x); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	if err := net.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestNonFinite(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		where string
		spoil func(net *Network, x []float32)
	}{
		{"the input", func(_ *Network, x []float32) { x[3] = nan }},
		{"parameter 3.weight", func(net *Network, _ []float32) { net.Params()[2].Value.Data[0] = float32(math.Inf(1)) }},
		{"output of layer 5 (conv2d)", func(net *Network, _ []float32) {
			for _, p := range net.Params()[2:6] {
				for i := range p.Value.Data {
					p.Value.Data[i] = 1e25
				}
			}
		}},
	} {
		model, shape := smallNet()
		net := newNetwork(t, model, shape, Config{Threads: 1})
		x, labels := batchFor(shape, 3, 1)
		c.spoil(net, x)
		_, _, err := net.Train(t.Context(), 77, x, labels)
		var e *NonFiniteError
		if !errors.As(err, &e) || e.Step != 77 || e.Where != c.where {
			t.Errorf("error %v, want a NonFiniteError of step 77 at %s", err, c.where)
			continue
		}
		if !strings.Contains(err.Error(), "step 77") || !strings.Contains(err.Error(), c.where) {
			t.Errorf("error %q does not say step and place", err)
		}
		if got := flatGrads(net); got != nil {
			t.Error("gradients are left after an error")
		}
	}
}
