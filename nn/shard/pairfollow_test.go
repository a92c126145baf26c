package shard_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// pairLayer is a layer of which both factors are sent, and what slots are sent for a
// product.
type pairLayer struct {
	coded.Layer
	shards   []coded.Shard
	follower coded.Follower
	factors  map[coded.Product][2][]coded.Tensor // by slot
}

func newPairLayer(t *testing.T, l coded.Layer) *pairLayer {
	t.Helper()
	p := &pairLayer{Layer: l, factors: map[coded.Product][2][]coded.Tensor{}}
	for slot := range l.Code.N {
		s, err := shard.Factories()[l.Kind](l, slot)
		if err != nil {
			t.Fatal(err)
		}
		p.shards = append(p.shards, s)
	}
	var err error
	if p.follower, err = shard.Followers()[l.Kind](l, newRand()); err != nil {
		t.Fatal(err)
	}
	return p
}

// newShippedPair is a shipped layer whose factors are a case's.
func newShippedPair(t *testing.T, c shippedCase, spec coded.Spec, chunks int) *pairLayer {
	t.Helper()
	code := newCode(t, spec)
	l := newPairLayer(t, newBatchLayer(t, shard.KindShipped, c.config, spec, min(chunks, shard.ShippedChunks(c.config, code))))
	for p := coded.Forward; p <= coded.Gradient; p++ {
		a, b, _ := c.factors(p)
		l.factors[p] = [2][]coded.Tensor{
			shard.Slots(nil, encodeFactor(t, c.config, code, p, shard.FactorA, a)),
			shard.Slots(nil, encodeFactor(t, c.config, code, p, shard.FactorB, b)),
		}
	}
	return l
}

// newGradientPair is the gradient over coded batch blocks, of shapes, whose elements
// are drawn.
func newGradientPair(t *testing.T, c shard.Config, x, dy []int, chunks int, draw func(n int) []float32) *pairLayer {
	t.Helper()
	l := newPairLayer(t, newBatchLayer(t, shard.KindGradient, c, coded.Spec{Name: "trigonometric-matdot", N: 4, P: 2}, chunks))
	var factors [2][]coded.Tensor
	for range l.Code.N {
		for i, shape := range [][]int{dy, x} {
			size := 1
			for _, d := range shape {
				size *= d
			}
			factors[i] = append(factors[i], coded.Tensor{Shape: shape, Data: draw(size)})
		}
	}
	l.factors[coded.Gradient] = factors
	return l
}

func (l *pairLayer) operands(p coded.Product, slot int) []coded.Tensor {
	return []coded.Tensor{l.factors[p][0][slot], l.factors[p][1][slot]}
}

// each computes every chunk of every product at every slot.
func (l *pairLayer) each(t *testing.T, do func(p coded.Product, slot, chunk int, y coded.Tensor)) {
	t.Helper()
	for p := coded.Forward; p <= coded.Gradient; p++ {
		if _, ok := l.factors[p]; !ok {
			continue
		}
		for slot := range l.Code.N {
			for chunk := range l.Chunks {
				y, err := coded.Multiply(nil, l.shards[slot], p, l.operands(p, slot), chunk)
				if err != nil {
					t.Fatal(err)
				}
				do(p, slot, chunk, clone(y))
			}
		}
	}
}

func (l *pairLayer) check(p coded.Product, slot, chunk int, y coded.Tensor) (float64, error) {
	return l.follower.Check(p, slot, chunk, l.operands(p, slot), y)
}

// honest believes what the shards compute.
func (l *pairLayer) honest(t *testing.T) {
	t.Helper()
	l.each(t, func(p coded.Product, slot, chunk int, y coded.Tensor) {
		if residual, err := l.check(p, slot, chunk, y); err != nil || !(residual < 1e-4) {
			t.Errorf("%s product, slot %d, chunk %d: residual %g, %v", p, slot, chunk, residual, err)
		}
	})
}

// refuses finds errors in single entries, and results of other slots.
func (l *pairLayer) refuses(t *testing.T) {
	t.Helper()
	l.each(t, func(p coded.Product, slot, chunk int, y coded.Tensor) {
		refused := func(what string) {
			t.Helper()
			var wrong *coded.VerifyError
			if residual, err := l.check(p, slot, chunk, y); !errors.As(err, &wrong) || residual < 1e-5 {
				t.Errorf("%s product, slot %d, chunk %d: %s: residual %g, %v", p, slot, chunk, what, residual, err)
			}
		}
		for i := 0; i < len(y.Data); i += 1 + len(y.Data)/6 {
			v := y.Data[i]
			flipped := math.Float32frombits(math.Float32bits(v) ^ 1<<30)
			for _, wrong := range []float32{v + 0.1, flipped, -1e3, float32(math.NaN()), float32(math.Inf(1))} {
				y.Data[i] = wrong
				refused(fmt.Sprintf("entry %d is %v in place of %v", i, wrong, v))
			}
			y.Data[i] = v
		}
		zero := true // a combination of a single sample may be
		for i, v := range y.Data {
			y.Data[i], zero = -v, zero && v == 0
		}
		if !zero {
			refused("of the other sign")
		}
	})
}

func pairCases(t *testing.T) map[string]shippedCase {
	strided := with(conv3x3(5, 6), func(c *shard.Conv2dConfig) { c.Stride, c.Padding = 2, 0 })
	return map[string]shippedCase{
		"linear":  newShippedCase(t, shard.LinearConfig{In: 7, Out: 9, Backward: true}, convolution{matrix11(7, 9), 6, 1, 1}),
		"conv":    newShippedCase(t, conv3x3(6, 5), convolution{conv3x3(6, 5), 9, 5, 4}),
		"strided": newShippedCase(t, strided, convolution{strided, 1, 8, 7}),
	}
}

// Of every code of two factors, an honest answer is believed and a liar's is not.
func TestPairFollowerOfEveryCode(t *testing.T) {
	for name, c := range pairCases(t) {
		for _, spec := range twoSided {
			t.Run(fmt.Sprintf("%s/%s", spec.Name, name), func(t *testing.T) {
				l := newShippedPair(t, c, spec, 2)
				l.honest(t)
				l.refuses(t)
			})
		}
	}
}

// So it is of gradients over coded batch blocks: a convolution's by its outputs and by
// its inputs, and with groups.
func TestPairFollowerOfGradients(t *testing.T) {
	rng := newRand()
	draw := func(n int) []float32 { return normal(rng, n) }
	grouped := with(conv3x3(6, 4), func(c *shard.Conv2dConfig) { c.Groups = 2 })
	strided := with(conv3x3(2, 8), func(c *shard.Conv2dConfig) { c.Stride, c.Dilation = 2, 2 })
	for name, l := range map[string]*pairLayer{
		"linear":   newGradientPair(t, shard.LinearConfig{In: 5, Out: 7}, []int{4, 5}, []int{4, 7}, 3, draw),
		"inputs":   newGradientPair(t, conv3x3(6, 8), []int{3, 6, 5, 4}, []int{3, 8, 5, 4}, 4, draw),
		"outputs":  newGradientPair(t, conv3x3(2, 8), []int{3, 2, 5, 4}, []int{3, 8, 5, 4}, 2, draw),
		"strided":  newGradientPair(t, strided, []int{3, 2, 8, 7}, []int{3, 8, 3, 3}, 2, draw),
		"groups":   newGradientPair(t, grouped, []int{3, 6, 5, 4}, []int{3, 4, 5, 4}, 1, draw),
		"one each": newGradientPair(t, conv3x3(1, 1), []int{1, 1, 3, 3}, []int{1, 1, 3, 3}, 1, draw),
	} {
		t.Run(name, func(t *testing.T) {
			l.honest(t)
			l.refuses(t)
		})
	}
}

// Rounding is never taken for a lie: not of long sums of terms of one sign, of equal
// terms, of terms of very different sizes, nor of sums that cancel.
func TestPairFollowerNeverAccusesRounding(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for name, one := range map[string]func(i int) float32{
			"normal":   func(int) float32 { return float32(rng.NormFloat64()) },
			"positive": func(int) float32 { return rng.Float32() },
			"equal":    func(int) float32 { return 0.1 },
			"sizes":    func(int) float32 { return float32(math.Exp(4 * rng.NormFloat64())) },
			"cancel":   func(i int) float32 { return float32(1-i%2*2) * (1000 + rng.Float32()) },
			"zeros":    func(int) float32 { return 0 },
		} {
			draw := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = one(i)
				}
				return x
			}
			for kind, l := range map[string]*pairLayer{
				"linear":  newGradientPair(t, shard.LinearConfig{In: 16, Out: 16}, []int{512, 16}, []int{512, 16}, 2, draw),
				"inputs":  newGradientPair(t, conv3x3(6, 4), []int{8, 6, 16, 16}, []int{8, 4, 16, 16}, 2, draw),
				"outputs": newGradientPair(t, conv3x3(2, 4), []int{8, 2, 16, 16}, []int{8, 4, 16, 16}, 1, draw),
				"shipped": newDrawnShipped(t, draw),
			} {
				l.each(t, func(p coded.Product, slot, chunk int, y coded.Tensor) {
					if _, err := l.check(p, slot, chunk, y); err != nil {
						t.Errorf("%s, %s, seed %d: %v", kind, name, seed, err)
					}
				})
			}
		}
	}
}

// newDrawnShipped is a shipped convolution in which the coded blocks are drawn.
func newDrawnShipped(t *testing.T, draw func(n int) []float32) *pairLayer {
	t.Helper()
	c := newShippedCase(t, conv3x3(16, 8), convolution{conv3x3(16, 8), 2, 6, 6})
	l := newShippedPair(t, c, coded.Spec{Name: "ortho-polynomial", N: 4, M: 2, Q: 2}, 2)
	for _, sides := range l.factors {
		for _, side := range sides {
			for _, x := range side {
				copy(x.Data, draw(len(x.Data)))
			}
		}
	}
	return l
}

func TestPairFollowerErrors(t *testing.T) {
	c := pairCases(t)["conv"]
	l := newShippedPair(t, c, coded.Spec{Name: "ortho-polynomial", N: 4, M: 2, Q: 2}, 2)
	ops := l.operands(coded.Forward, 1)
	check := func(p coded.Product, slot, chunk int, y coded.Tensor, operands ...coded.Tensor) error {
		_, err := l.follower.Check(p, slot, chunk, operands, y)
		return err
	}
	y := coded.NewTensor(1, 1, 1, 1, 1)
	wantError(t, check(coded.Forward, 4, 0, y, ops...), "layer conv1: slot 4")
	wantError(t, check(coded.Forward, 0, 2, y, ops...), "chunk 2 of the forward product: there is no such thing")
	wantError(t, check(0, 0, 0, y, ops...), "there is no such thing")
	wantError(t, check(coded.Forward, 0, 0, y, ops[0]), "forward product of 1 operands, want 2")
	wantError(t, check(coded.Forward, 1, 0, y, ops...), "slot 1, chunk 0 of the forward product", "result has shape")
	wantError(t, check(coded.Forward, 1, 0, coded.NewTensor(2, 3, 3), ops...), "result has shape [2 3 3]")
	good, err := coded.Multiply(nil, l.shards[1], coded.Forward, ops, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, check(coded.Forward, 1, 0, good, ops[0], ops[0]), "verify: B has shape")
	wantError(t, check(coded.Forward, 1, 0, y, coded.NewTensor(3, 1), ops[1]), "A has shape [3 1]")
	wantError(t, l.follower.CheckState(0, []coded.Tensor{y}), "the shard has no weights")
	wantError(t, l.follower.Reset([]coded.ShardState{{Slot: 2, State: []coded.Tensor{y}}}), "slot 2: state of 1 tensors")
	wantError(t, l.follower.Accumulate(y, y), "the shard has no weights")
	if err := errors.Join(l.follower.Apply(coded.Update{Step: 1}), l.follower.Reset([]coded.ShardState{{}})); err != nil {
		t.Error(err)
	}
	_, err = shard.NewPairFollower(coded.Layer{Name: "conv1", Kind: "other"}, newRand())
	wantError(t, err, `kind "other"`)
	bad := newBatchLayer(t, shard.KindGradient, shard.LinearConfig{In: 4, Out: 4}, coded.Spec{Name: "rotation", N: 6, M: 4, Q: 4}, 1)
	_, err = shard.NewPairFollower(bad, newRand())
	wantError(t, err, "want one coded block of each factor")
	// Of a training that diverges nothing can be told.
	ops[0].Data[0] = float32(math.Inf(1))
	if err := check(coded.Forward, 1, 0, y, ops...); err != nil {
		t.Errorf("operands that are not finite: %v", err)
	}
}

// What a test costs beside the product.
func BenchmarkPairFollower(b *testing.B) {
	rng := newRand()
	draw := func(shape ...int) coded.Tensor {
		x := coded.NewTensor(shape...)
		copy(x.Data, normal(rng, len(x.Data)))
		return x
	}
	linear, conv := shard.LinearConfig{In: 1024, Out: 1024, Backward: true}, conv3x3(64, 64)
	for _, c := range []struct {
		name   string
		config shard.Config
		kind   string
		code   coded.Spec
		p      coded.Product
		a, b   coded.Tensor
	}{
		{"shipped/512x512,batch=64", linear, shard.KindShipped, coded.Spec{Name: "ortho-polynomial", N: 4, M: 2, Q: 2}, coded.Forward, draw(1, 32, 1024), draw(1, 512, 1024)},
		{"shipped/64x32x16x16,batch=32", conv, shard.KindShipped, coded.Spec{Name: "ortho-polynomial", N: 4, M: 2, Q: 2}, coded.Forward, draw(1, 16, 64, 16, 16), draw(1, 32, 64, 3, 3)},
		{"gradient/64x64x16x16,batch=16", conv, shard.KindGradient, coded.Spec{Name: "trigonometric-matdot", N: 4, P: 2}, coded.Gradient, draw(16, 64, 16, 16), draw(16, 64, 16, 16)},
	} {
		wrapped, err := shard.NewBatchConfig(c.config)
		if err != nil {
			b.Fatal(err)
		}
		raw, err := wrapped.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		l := coded.Layer{Name: "l", Kind: c.kind, Code: c.code, Chunks: 4, Config: raw}
		s, err := shard.Factories()[c.kind](l, 1)
		if err != nil {
			b.Fatal(err)
		}
		f, err := shard.NewPairFollower(l, rng)
		if err != nil {
			b.Fatal(err)
		}
		operands := []coded.Tensor{c.a, c.b}
		y, err := coded.Multiply(nil, s, c.p, operands, 1)
		if err != nil {
			b.Fatal(err)
		}
		y = clone(y)
		b.Run(c.name+"/work", func(b *testing.B) {
			for b.Loop() {
				if _, err := coded.Multiply(nil, s, c.p, operands, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/test", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Check(c.p, 1, 1, operands, y); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
