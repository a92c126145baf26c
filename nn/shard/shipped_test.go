package shard_test

import (
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// shippedCase is a layer with all that its three products have and should give.
type shippedCase struct {
	config    shard.Config
	x, w, dy  coded.Tensor
	y, dx, dw coded.Tensor
}

func newShippedCase(t *testing.T, c shard.Config, ref convolution) shippedCase {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	weight := normal(rng, ref.weights())
	x := coded.Tensor{Shape: []int{ref.n, ref.In, ref.h, ref.w}, Data: normal(rng, ref.n*ref.In*ref.h*ref.w)}
	y := ref.forward(x.Data, weight)
	dy := coded.Tensor{Shape: y.Shape, Data: normal(rng, len(y.Data))}
	dw := make([]float64, ref.weights())
	ref.gradient(x.Data, dy.Data, dw)
	w := coded.Tensor{Shape: []int{ref.Out, ref.In, ref.KernelH, ref.KernelW}, Data: weight}
	s := shippedCase{config: c, x: x, w: w, dy: dy, y: y, dx: ref.backward(dy.Data, weight), dw: coded.Tensor{Shape: w.Shape, Data: narrow(dw)}}
	if c.Kind() == shard.KindLinear {
		for _, m := range []*coded.Tensor{&s.x, &s.w, &s.dy, &s.y, &s.dx, &s.dw} {
			m.Shape = m.Shape[:2]
		}
	}
	return s
}

// factors are A, B and the result of a product.
func (s shippedCase) factors(p coded.Product) (a, b, want coded.Tensor) {
	switch p {
	case coded.Forward:
		return s.x, s.w, s.y
	case coded.Backward:
		return s.dy, s.w, s.dx
	}
	return s.dy, s.x, s.dw
}

func newShippedShards(t *testing.T, l coded.Layer) []coded.Shard {
	t.Helper()
	var shards []coded.Shard
	for slot := range l.Code.N {
		s, err := shard.NewShipped(l, slot, nil)
		if err != nil {
			t.Fatal(err)
		}
		shards = append(shards, s)
	}
	return shards
}

func encodeFactor(t *testing.T, c shard.Config, code *coded.Code, p coded.Product, f shard.Factor, x coded.Tensor) coded.Tensor {
	t.Helper()
	coder := shard.NewFactorCoder(c, code, p, f)
	blocks := coded.NewTensor(coder.Shape(x.Shape)...)
	if err := coder.Encode(nil, blocks.Data, x); err != nil {
		t.Fatal(err)
	}
	return blocks
}

// twoSided are codes of every family that a shipped layer may have.
var twoSided = []coded.Spec{
	{Name: "polynomial", N: 6, M: 2, Q: 2}, {Name: "matdot", N: 5, P: 2}, {Name: "systematic-matdot", N: 5, P: 2},
	{Name: "trigonometric-matdot", N: 6, P: 3}, {Name: "polydot", N: 7, M: 2, P: 2, Q: 1}, {Name: "entangled", N: 8, M: 1, P: 2, Q: 3},
	{Name: "entangled", N: 7, M: 2, P: 2, Q: 1}, {Name: "summed-entangled", N: 6, M: 2, P: 2, Q: 2}, {Name: "ortho-polynomial", N: 8, M: 3, Q: 2},
	{Name: "ortho-matdot", N: 5, P: 2}, {Name: "random-khatri-rao", N: 6, M: 2, Q: 2, Seed: 1}, {Name: "systematic-khatri-rao", N: 6, M: 2, Q: 2, Seed: 1},
	{Name: "rotation", N: 6, M: 4, Q: 4}, {Name: "product", N: 9, M: 2, Q: 2, Groups: 3}, {Name: "bivariate", N: 5, M: 4, Q: 2, Load: 2, Seed: 1},
}

// Y, dX and dW are decoded from every sufficient set of as many answers as the code
// says that it needs, for blocks that do not divide the layer or the batch.
func TestShippedFromEverySet(t *testing.T) {
	linear := shard.LinearConfig{In: 7, Out: 9, Backward: true}
	strided := with(conv3x3(5, 6), func(c *shard.Conv2dConfig) { c.Stride, c.Padding = 2, 0 })
	cases := map[string]shippedCase{
		"linear":  newShippedCase(t, linear, convolution{matrix11(7, 9), 6, 1, 1}),
		"conv":    newShippedCase(t, conv3x3(6, 5), convolution{conv3x3(6, 5), 9, 5, 4}),
		"strided": newShippedCase(t, strided, convolution{strided, 1, 8, 7}),
	}
	for _, spec := range twoSided {
		code := newCode(t, spec)
		for name, c := range cases {
			t.Run(spec.Name+"/"+name, func(t *testing.T) {
				layer := newBatchLayer(t, shard.KindShipped, c.config, spec, min(2, shard.ShippedChunks(c.config, code)))
				shards := newShippedShards(t, layer)
				d := coded.NewDecoder(code, coded.DecoderConfig{})
				for p := coded.Forward; p <= coded.Gradient; p++ {
					a, b, want := c.factors(p)
					as, bs := encodeFactor(t, c.config, code, p, shard.FactorA, a), encodeFactor(t, c.config, code, p, shard.FactorB, b)
					decoder := shard.NewShippedDecoder(layer, c.config, d, p)
					for _, set := range everySet(spec.N, code.Threshold()) {
						got := coded.NewTensor(want.Shape...)
						if err := decoder.Decode(nil, got, a.Shape, answers(t, shards, layer, p, set, as, bs)); err != nil {
							t.Fatalf("%s product, slots %v: %v", p, set, err)
						}
						if e := difference(t, got.Data, want.Data); !(e <= 1e-5) {
							t.Errorf("%s product, slots %v: differs by %.2g of its largest entry", p, set, e)
						}
					}
				}
			})
		}
	}
}

// A worker's flops are those of its products of coded blocks: of all of them together,
// what the code says that a task has of the whole.
func TestShippedFlops(t *testing.T) {
	conv := convolution{conv3x3(8, 8), 8, 6, 6}
	for name, c := range map[string]shippedCase{
		"linear": newShippedCase(t, shard.LinearConfig{In: 8, Out: 8, Backward: true}, convolution{matrix11(8, 8), 8, 1, 1}),
		"conv":   newShippedCase(t, conv.Conv2dConfig, conv),
	} {
		for _, spec := range []coded.Spec{{Name: "entangled", N: 11, M: 2, P: 2, Q: 2}, {Name: "rotation", N: 6, M: 4, Q: 4}, {Name: "summed-entangled", N: 6, M: 2, P: 2, Q: 2}} {
			code := newCode(t, spec)
			s, err := shard.NewShipped(newBatchLayer(t, shard.KindShipped, c.config, spec, 1), 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			whole := 2 * float64(len(c.w.Data)*len(c.y.Data)/8)
			for p := coded.Forward; p <= coded.Gradient; p++ {
				a, _, _ := c.factors(p)
				blocks := shard.NewFactorCoder(c.config, code, p, shard.FactorA).Shape(a.Shape)[1:]
				if got, want := s.Flops(p, blocks), whole*code.Loads().Compute; got != want {
					t.Errorf("%s, %v, %s product: %g flops, want %g", name, spec, p, got, want)
				}
			}
		}
	}
}

func TestShippedRefuses(t *testing.T) {
	c := conv3x3(4, 6)
	good := newBatchLayer(t, shard.KindShipped, c, coded.Spec{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}, 2)
	for want, change := range map[string]func(l *coded.Layer){
		`kind "linear"`:             func(l *coded.Layer) { l.Kind = shard.KindLinear },
		"configuration":             func(l *coded.Layer) { l.Config = []byte{0xc1} },
		"want one layer":            func(l *coded.Layer) { l.Config = []byte{0x80} },
		"3 chunks, want 1 to 2":     func(l *coded.Layer) { l.Chunks = 3 },
		"m must be at least 1":      func(l *coded.Layer) { l.Code.M = 0 },
		"two coded factors":         func(l *coded.Layer) { l.Code = trigonometric(6, 4) },
		"two coded factors, such":   func(l *coded.Layer) { l.Code = coded.Spec{Name: "sketch", N: 6, P: 4} },
		"coded factors, such as":    func(l *coded.Layer) { l.Code = coded.Spec{Name: "entangled", N: 6, M: 2, P: 1, Q: 1} },
		"in has 4 channels, fewer":  func(l *coded.Layer) { l.Code = coded.Spec{Name: "ortho-matdot", N: 10, P: 5} },
		"out has 6 channels, fewer": func(l *coded.Layer) { l.Code = coded.Spec{Name: "ortho-polynomial", N: 14, M: 7, Q: 2} },
		"of groups": func(l *coded.Layer) {
			*l = newBatchLayer(t, shard.KindShipped, with(c, func(c *shard.Conv2dConfig) { c.Groups = 2 }), l.Code, 1)
		},
		"kernel height 0": func(l *coded.Layer) {
			*l = newBatchLayer(t, shard.KindShipped, shard.Conv2dConfig{In: 1, Out: 1}, l.Code, 1)
		},
	} {
		l := good
		change(&l)
		_, err := shard.NewShipped(l, 0, nil)
		wantError(t, err, "layer conv1, slot 0", want)
	}
	_, err := shard.NewShipped(good, 6, nil)
	wantError(t, err, "slot 6", "no such task")

	s, err := shard.NewShipped(good, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, w, dy := coded.NewTensor(1, 2, 4, 5, 5), coded.NewTensor(1, 3, 4, 3, 3), coded.NewTensor(1, 2, 6, 5, 5)
	for want, f := range map[string]func() error{
		"chunk 0 to 1": func() error { _, err := s.MultiplyPair(coded.Forward, x, w, 2); return err },
		"product(9)":   func() error { _, err := s.MultiplyPair(9, x, w, 0); return err },
		"A of shape [2 4 5 5]": func() error {
			x := x
			x.Shape = x.Shape[1:]
			_, err := s.MultiplyPair(coded.Forward, x, w, 0)
			return err
		},
		"B of shape [1 3]":         func() error { _, err := s.MultiplyPair(coded.Forward, x, coded.NewTensor(1, 3), 0); return err },
		"weights of shape":         func() error { _, err := s.MultiplyPair(coded.Forward, x, dy, 0); return err },
		"operand of shape":         func() error { _, err := s.MultiplyPair(coded.Forward, dy, w, 0); return err },
		"X:":                       func() error { _, err := s.MultiplyPair(coded.Gradient, x, dy, 0); return err },
		"forward product of one":   func() error { _, err := s.Multiply(coded.Forward, x, 0); return err },
		"accumulate":               func() error { return s.Accumulate(x, dy) },
		"state of 1 tensors":       func() error { return s.SetState([]coded.Tensor{x}) },
		"product of 3 operands by": func() error { _, err := coded.Multiply(nil, s, coded.Forward, []coded.Tensor{x, x, x}, 0); return err },
	} {
		wantError(t, f(), want)
	}
	linear, err := shard.NewShipped(newBatchLayer(t, shard.KindShipped, shard.LinearConfig{In: 4, Out: 4}, good.Code, 1), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = linear.MultiplyPair(coded.Forward, coded.NewTensor(1, 2, 4), coded.NewTensor(1, 3, 4), 0)
	wantError(t, err, "blocks of shapes [2 4] and [3 4], want [batch 4] and [2 4]")
	if f := s.Flops(9, x.Shape) + s.Flops(coded.Forward, []int{1}) + s.Flops(coded.Forward, dy.Shape); f != 0 {
		t.Errorf("%g flops of products that cannot be", f)
	}
}

func TestShippedDecoderRefuses(t *testing.T) {
	c, spec := conv3x3(4, 6), coded.Spec{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}
	code := newCode(t, spec)
	layer := newBatchLayer(t, shard.KindShipped, c, spec, 1)
	d := shard.NewShippedDecoder(layer, c, coded.NewDecoder(code, coded.DecoderConfig{}), coded.Forward)
	x, y := []int{3, 4, 5, 5}, coded.NewTensor(3, 6, 5, 5)
	chunk := func(a ...coded.Answer) [][]coded.Answer { return [][]coded.Answer{a} }
	wantError(t, d.Decode(nil, y, x, nil), "0 chunks, want 1")
	wantError(t, d.Decode(nil, y, []int{3}, chunk()), "factor of shape [3]")
	wantError(t, d.Decode(nil, y, y.Shape, chunk()), "want [batch 4 ..]")
	wantError(t, d.Decode(nil, coded.NewTensor(3, 4, 5, 5), x, chunk()), "result of shape [3 4 5 5]", "want [3 6 ..]")
	wantError(t, d.Decode(nil, y, x, chunk()), "chunk 0")
	wantError(t, d.Decode(nil, y, x, chunk(coded.Answer{Slot: 2, Result: coded.NewTensor(2, 3, 5, 5)})), "slot 2", "want [1 2 3 5 5]")
	coder := shard.NewFactorCoder(c, code, coded.Forward, shard.FactorA)
	wantError(t, coder.Encode(nil, nil, coded.Tensor{Shape: x}), "factor of shape [3 4 5 5] with 0 values")
	wantError(t, coder.Encode(nil, nil, coded.NewTensor(x...)), "0 values for coded blocks of shape [6 1 2 4 5 5]")
}
