package shard_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/nn/shard"
)

// convolution is an uncoded convolution in float64: the reference.
type convolution struct {
	shard.Conv2dConfig
	n, h, w int // of the input
}

func (c convolution) out(size, kernel int) int {
	return (size+2*c.Padding-c.Dilation*(kernel-1)-1)/c.Stride + 1
}

func (c convolution) outShape() []int {
	return []int{c.n, c.Out, c.out(c.h, c.KernelH), c.out(c.w, c.KernelW)}
}

// each calls f with the indices into x, the weight and y of every product that the
// convolution is made of.
func (c convolution) each(f func(x, w, y int)) {
	in, out := c.In/c.Groups, c.Out/c.Groups
	oh, ow := c.out(c.h, c.KernelH), c.out(c.w, c.KernelW)
	for y := range c.n * c.Out * oh * ow {
		n, o, i, j := y/(c.Out*oh*ow), y/(oh*ow)%c.Out, y/ow%oh, y%ow
		for tap := range in * c.KernelH * c.KernelW {
			q, p, r := tap/(c.KernelH*c.KernelW), tap/c.KernelW%c.KernelH, tap%c.KernelW
			xi, xj := i*c.Stride-c.Padding+p*c.Dilation, j*c.Stride-c.Padding+r*c.Dilation
			if xi >= 0 && xi < c.h && xj >= 0 && xj < c.w {
				f(((n*c.In+o/out*in+q)*c.h+xi)*c.w+xj, o*in*c.KernelH*c.KernelW+tap, y)
			}
		}
	}
}

func (c convolution) weights() int { return c.Out * c.In / c.Groups * c.KernelH * c.KernelW }

// forward is Y, backward dX, gradient dW.
func (c convolution) forward(x, w []float32) coded.Tensor {
	return c.sum(c.outShape(), func(y []float64) {
		c.each(func(i, j, k int) { y[k] += float64(x[i]) * float64(w[j]) })
	})
}

func (c convolution) backward(dy, w []float32) coded.Tensor {
	return c.sum([]int{c.n, c.In, c.h, c.w}, func(dx []float64) {
		c.each(func(i, j, k int) { dx[i] += float64(dy[k]) * float64(w[j]) })
	})
}

func (c convolution) gradient(x, dy []float32, dw []float64) {
	c.each(func(i, j, k int) { dw[j] += float64(x[i]) * float64(dy[k]) })
}

func (c convolution) sum(shape []int, f func([]float64)) coded.Tensor {
	t := coded.NewTensor(shape...)
	acc := make([]float64, len(t.Data))
	f(acc)
	copy(t.Data, narrow(acc))
	return t
}

func newConvLayer(t testing.TB, c shard.Config, code coded.Spec, chunks int) coded.Layer {
	t.Helper()
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return coded.Layer{Name: "conv1", Kind: c.Kind(), Code: code, Chunks: chunks, Config: raw}
}

func newConvShards(t testing.TB, l coded.Layer, c shard.Conv2dConfig, weight []float32) []*shard.Conv2d {
	t.Helper()
	code := newCode(t, l.Code)
	shards := make([]*shard.Conv2d, code.N())
	for slot := range shards {
		state, err := c.Encode(weight, nil, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		if shards[slot], err = shard.NewConv2d(l, slot, nil); err != nil {
			t.Fatal(err)
		}
		if err := shards[slot].SetState(state); err != nil {
			t.Fatal(err)
		}
	}
	return shards
}

// conv3x3 is a convolution of 3x3 with padding.
func conv3x3(in, out int) shard.Conv2dConfig {
	return shard.Conv2dConfig{In: in, Out: out, KernelH: 3, KernelW: 3, Stride: 1, Padding: 1, Dilation: 1, Groups: 1, Backward: true}
}

func with(c shard.Conv2dConfig, change func(*shard.Conv2dConfig)) shard.Conv2dConfig {
	change(&c)
	return c
}

// Both products are decoded from every sufficient set, whatever the geometry and
// whether chunks are channels or samples.
func TestConvProductsFromEverySet(t *testing.T) {
	plain := conv3x3(9, 10)
	cases := map[string]struct {
		convolution
		code   coded.Spec
		chunks int
	}{
		"padded":   {convolution{plain, 3, 7, 6}, trigonometric(6, 4), 2},
		"samples":  {convolution{conv3x3(4, 5), 7, 9, 9}, trigonometric(6, 4), 1},
		"batches":  {convolution{conv3x3(8, 8), 9, 12, 12}, trigonometric(6, 4), 2},
		"channels": {convolution{conv3x3(24, 24), 1, 2, 3}, trigonometric(6, 4), 5},
		"strided": {convolution{with(plain, func(c *shard.Conv2dConfig) { c.Stride, c.Padding = 2, 0 }), 2, 8, 9},
			trigonometric(5, 3), 2}, // the last row is not read
		"wide stride": {convolution{with(plain, func(c *shard.Conv2dConfig) { c.Stride, c.KernelH, c.KernelW, c.Padding = 3, 1, 2, 0 }), 2, 9, 8},
			trigonometric(5, 3), 1},
		"dilated": {convolution{with(plain, func(c *shard.Conv2dConfig) { c.Dilation = 2 }), 2, 7, 7}, trigonometric(5, 3), 3},
		"groups": {convolution{with(plain, func(c *shard.Conv2dConfig) { c.In, c.Out, c.Groups = 12, 18, 3 }), 2, 5, 5},
			trigonometric(5, 3), 2},
		"groups in samples": {convolution{with(plain, func(c *shard.Conv2dConfig) { c.In, c.Out, c.Groups, c.Stride = 8, 10, 2, 2 }), 4, 13, 12},
			trigonometric(6, 4), 1},
		"uncoded":     {convolution{plain, 2, 4, 5}, coded.Spec{Name: "uncoded", N: 4, K: 4}, 2},
		"replication": {convolution{plain, 2, 4, 5}, coded.Spec{Name: "replication", N: 4, K: 2}, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			layer := newConvLayer(t, c.Conv2dConfig, c.code, c.chunks)
			weight := normal(rng, c.weights())
			shards := newConvShards(t, layer, c.Conv2dConfig, weight)
			x := coded.Tensor{Shape: []int{c.n, c.In, c.h, c.w}, Data: normal(rng, c.n*c.In*c.h*c.w)}
			y := c.forward(x.Data, weight)
			dy := coded.Tensor{Shape: y.Shape, Data: normal(rng, len(y.Data))}
			dx := c.backward(dy.Data, weight)
			tracker := coded.NewTracker(newCode(t, c.code))
			for _, set := range everySet(c.code.N, c.code.K) {
				tracker.Reset()
				for _, slot := range set {
					tracker.Add(slot)
				}
				if !tracker.Ready() {
					continue
				}
				got := coded.NewTensor(y.Shape...)
				decodeTo(t, got, shards, layer, c.Conv2dConfig, coded.Forward, x, set)
				if d := difference(t, got.Data, y.Data); !(d <= 1e-5) {
					t.Errorf("slots %v: Y differs by %.2g of its largest entry", set, d)
				}
				got = coded.NewTensor(dx.Shape...)
				decodeTo(t, got, shards, layer, c.Conv2dConfig, coded.Backward, dy, set)
				if d := difference(t, got.Data, dx.Data); !(d <= 1e-5) {
					t.Errorf("slots %v: dX differs by %.2g of its largest entry", set, d)
				}
			}
		})
	}
}

// Hundred steps with a strided convolution of two groups and no multiple of k
// channels: the copies stay one codeword and follow the uncoded layer.
func TestConvTrainingFollowsTheUncodedLayer(t *testing.T) {
	config := with(conv3x3(10, 14), func(c *shard.Conv2dConfig) { c.Groups, c.Stride = 2, 2 })
	for name, u := range map[string]coded.Update{
		"plain":    {LR: 0.02, Scale: 1},
		"momentum": {LR: 0.01, Momentum: 0.9, Scale: 0.5, Decay: 1e-2},
		"nesterov": {LR: 0.01, Momentum: 0.9, Scale: 0.5, Decay: 1e-2, Nesterov: true},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			c := convolution{config, 3, 6, 5}
			weight, target := normal(rng, c.weights()), normal(rng, c.weights())
			ref := &uncoded{w: make([]float64, c.weights()), v: make([]float64, c.weights()), g: make([]float64, c.weights())}
			for i, w := range weight {
				ref.w[i] = float64(w)
			}
			layer := newConvLayer(t, config, trigonometric(6, 4), 2)
			shards := newConvShards(t, layer, config, weight)
			sets := everySet(6, 4)
			for step := 1; step <= 100; step++ {
				u.Step = step
				for range 1 + step%2 { // every other step has two micro-batches
					x := coded.Tensor{Shape: []int{c.n, c.In, c.h, c.w}, Data: normal(rng, c.n*c.In*c.h*c.w)}
					dy := coded.NewTensor(c.outShape()...)
					decodeTo(t, dy, shards, layer, config, coded.Forward, x, sets[step%len(sets)])
					for i, v := range c.forward(x.Data, target).Data {
						dy.Data[i] = (dy.Data[i] - v) / 30
					}
					c.gradient(x.Data, dy.Data, ref.g)
					for _, s := range shards {
						if err := s.Accumulate(x, dy); err != nil {
							t.Fatal(err)
						}
					}
				}
				ref.apply(u)
				for _, s := range shards {
					if err := s.Apply(u); err != nil {
						t.Fatal(err)
					}
				}
			}
			if d := fromCodeword(t, layer.Code, shards); !(d <= 2e-5) {
				t.Errorf("shards differ from the nearest codeword by %.2g, want at most 2e-5", d)
			}
			compareConv(t, c, layer, shards, ref, u.Momentum > 0)
		})
	}
}

// compareConv decodes weight and momentum from every set, and a product from R.
func compareConv(t *testing.T, c convolution, layer coded.Layer, shards []*shard.Conv2d, ref *uncoded, momentum bool) {
	t.Helper()
	d := coded.NewDecoder(newCode(t, layer.Code), coded.DecoderConfig{})
	dy := coded.Tensor{Shape: c.outShape(), Data: normal(rand.New(rand.NewPCG(1, 1)), len(c.forward(make([]float32, c.n*c.In*c.h*c.w), ref.weight()).Data))}
	dx := c.backward(dy.Data, ref.weight())
	for _, set := range everySet(6, 4) {
		w, v, err := c.Decode(states(shards, set), d)
		if err != nil {
			t.Fatal(err)
		}
		if e := difference(t, w, ref.weight()); !(e <= 2e-5) {
			t.Errorf("slots %v: weight differs by %.2g", set, e)
		}
		if e := difference(t, v, ref.momentum()); momentum && !(e <= 1e-4) {
			t.Errorf("slots %v: momentum differs by %.2g", set, e)
		}
		got := coded.NewTensor(dx.Shape...)
		decodeTo(t, got, shards, layer, c.Conv2dConfig, coded.Backward, dy, set)
		if e := difference(t, got.Data, dx.Data); !(e <= 2e-5) {
			t.Errorf("slots %v: dX from R differs by %.2g", set, e)
		}
	}
}

// A first layer keeps no R, and may have fewer input channels than blocks.
func TestConvWithoutBackward(t *testing.T) {
	config := with(conv3x3(1, 9), func(c *shard.Conv2dConfig) { c.Backward = false })
	layer := newConvLayer(t, config, trigonometric(6, 4), 3)
	s := newConvShards(t, layer, config, make([]float32, 81))[1]
	if n := len(s.State()); n != 2 {
		t.Errorf("state of %d tensors, want F and its momentum", n)
	}
	_, err := s.Multiply(coded.Backward, coded.NewTensor(1, 9, 4, 4), 0)
	wantError(t, err, "layer conv1, slot 1", "backward", "without")
	if got := s.Flops(coded.Backward, []int{1, 9, 4, 4}); got != 0 {
		t.Errorf("%v flops of a product that it does not have", got)
	}
	config.Backward = true
	wantError(t, config.Validate(4, 1), "in has 1 channels", "4 blocks", "stay local")
}

func TestConvFlops(t *testing.T) {
	config := conv3x3(8, 12) // blocks of 3 output and 2 input channels
	s := newConvShards(t, newConvLayer(t, config, trigonometric(6, 4), 1), config, make([]float32, 8*12*9))[0]
	x, dy := []int{5, 8, 6, 7}, []int{5, 12, 6, 7}
	f, b := s.Flops(coded.Forward, x), s.Flops(coded.Backward, dy)
	if u := s.UpdateFlops(x); f != 2*5*42*3*8*9 || b != 2*5*42*12*2*9 || u != f+b {
		t.Errorf("flops forward %v, backward %v, update %v", f, b, u)
	}
	if s.Flops(coded.Forward, dy) != 0 || s.UpdateFlops([]int{5}) != 0 {
		t.Error("flops for operands that do not fit")
	}
}

func TestConvOperandsAreChecked(t *testing.T) {
	config := conv3x3(8, 6)
	s := newConvShards(t, newConvLayer(t, config, trigonometric(6, 4), 2), config, make([]float32, 8*6*9))[3]
	good := coded.NewTensor(2, 8, 5, 5)
	for _, x := range []coded.Tensor{
		{}, coded.NewTensor(2, 8), coded.NewTensor(2, 7, 5, 5), coded.NewTensor(0, 8, 5, 5), coded.NewTensor(2, 8, 0, 5),
		{Shape: []int{2, 8, 5, 5}, Data: make([]float32, 399)}, {Shape: []int{-2, 8, -5, 5}, Data: make([]float32, 400)},
		{Shape: []int{1 << 40, 8, 1 << 40, 1}},
	} {
		_, err := s.Multiply(coded.Forward, x, 0)
		wantError(t, err, "layer conv1, slot 3", "operand of shape")
		wantError(t, s.Accumulate(x, coded.NewTensor(2, 6, 5, 5)), "layer conv1, slot 3", "X")
	}
	wantError(t, s.Accumulate(good, coded.NewTensor(2, 6, 5, 4)), "dY", "want [2 6 5 5]")
	_, err := s.Multiply(coded.Forward, good, 2)
	wantError(t, err, "chunk 2", "0 to 1")
	_, err = s.Multiply(7, good, 0)
	wantError(t, err, "unknown product(7)")
	// A kernel larger than the padded input has no output.
	big := with(config, func(c *shard.Conv2dConfig) { c.KernelH, c.Padding = 3, 0 })
	_, err = newConvShards(t, newConvLayer(t, big, trigonometric(6, 4), 2), big, make([]float32, 8*6*9))[0].Multiply(coded.Forward, coded.NewTensor(1, 8, 2, 5), 0)
	wantError(t, err, "larger than the padded input")
}

func TestConvConfigListsEveryProblem(t *testing.T) {
	wantError(t, shard.Conv2dConfig{}.Validate(0, 1), "0 blocks", "in channels 0", "out channels 0", "groups 0", "kernel height 0", "stride 0", "dilation 0")
	bad := with(conv3x3(10, 12), func(c *shard.Conv2dConfig) { c.Groups, c.Padding = 4, -1 })
	wantError(t, bad.Validate(4, 1), "padding -1")
	bad.Padding = 0
	wantError(t, bad.Validate(4, 1), "10 input and 12 output channels", "multiples")
	wantError(t, with(conv3x3(8, 8), func(c *shard.Conv2dConfig) { c.Groups = 4 }).Validate(3, 1),
		"in has 2 channels a group", "out has 2 channels a group, fewer than the 3 blocks")
	wantError(t, conv3x3(8, 16).Validate(4, 3), "3 chunks, want 1 to 2")
	wantError(t, conv3x3(1<<24, 1<<24).Validate(4, 1), "values, want at most")
}

func TestConvConfigRoundTrip(t *testing.T) {
	c := with(conv3x3(5, 7), func(c *shard.Conv2dConfig) { c.Stride, c.KernelW, c.Dilation = 2, 5, 3 })
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := shard.ParseConv2dConfig(raw); err != nil || got != c {
		t.Errorf("%+v came back as %+v, %v", c, got, err)
	}
	for i := range raw {
		if _, err := shard.ParseConv2dConfig(raw[:i]); err == nil {
			t.Errorf("%d of %d bytes were accepted", i, len(raw))
		}
	}
	_, err = shard.ParseConv2dConfig(append(slices.Clone(raw), 0))
	wantError(t, err, "conv2d configuration", "after the end")
	linear, err := shard.LinearConfig{In: 8, Out: 8}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	_, err = shard.NewConv2d(coded.Layer{Name: "a", Kind: shard.KindLinear, Config: linear, Code: trigonometric(3, 2), Chunks: 1}, 0, nil)
	wantError(t, err, "layer a, slot 0", `kind "linear", want "conv2d"`)
}

func TestConvShardAllocatesNoTensor(t *testing.T) {
	config := conv3x3(16, 16)
	s := newConvShards(t, newConvLayer(t, config, trigonometric(6, 4), 2), config, make([]float32, 16*16*9))[0]
	x := coded.NewTensor(8, 16, 12, 12)
	step := 0
	run := func() {
		step++
		for range 2 {
			for chunk := range 2 {
				for _, p := range []coded.Product{coded.Forward, coded.Backward} {
					if _, err := s.Multiply(p, x, chunk); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.Accumulate(x, x); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Apply(coded.Update{Step: step, LR: 0.1, Momentum: 0.9, Scale: 1}); err != nil {
			t.Fatal(err)
		}
	}
	smallest := uint64(4 * 4 * 4 * 12 * 12) // a chunk's result
	if b := steady.Bytes(10, run); b >= smallest {
		t.Errorf("%d bytes allocated a step, want less than the %d of the smallest tensor", b, smallest)
	}
}

// A lost slot's state is a combination of the others', tensor by tensor.
func TestConvStateIsLinear(t *testing.T) {
	config := with(conv3x3(6, 9), func(c *shard.Conv2dConfig) { c.Groups = 1 })
	layer := newConvLayer(t, config, trigonometric(6, 4), 1)
	shards := newConvShards(t, layer, config, normal(rand.New(rand.NewPCG(1, 1)), 6*9*9))
	for lost := range shards {
		donors, weights, _, err := newCode(t, layer.Code).Repair(lost, slices.DeleteFunc([]int{0, 1, 2, 3, 4, 5}, func(s int) bool { return s == lost }))
		if err != nil {
			t.Fatal(err)
		}
		for q, want := range shards[lost].State() {
			sum := make([]float64, len(want.Data))
			for i, donor := range donors {
				for j, v := range shards[donor].State()[q].Data {
					sum[j] += weights[i] * float64(v)
				}
			}
			if d := difference(t, narrow(sum), want.Data); !(d <= 5e-6) {
				t.Errorf("slot %d, tensor %d: repaired state differs by %.2g", lost, q, d)
			}
		}
	}
}

func ExampleConv2dConfig() {
	config := shard.Conv2dConfig{
		In: 64, Out: 128, KernelH: 3, KernelW: 3, Stride: 1, Padding: 1, Dilation: 1, Groups: 1, Backward: true,
	}
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 6, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := config.Encode(make([]float32, 128*64*9), nil, code, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, name := range []string{"F", "momentum of F", "R", "momentum of R"} {
		fmt.Println(name, state[i].Shape)
	}
	// Output:
	// F [32 64 3 3]
	// momentum of F [32 64 3 3]
	// R [128 16 3 3]
	// momentum of R [128 16 3 3]
}
