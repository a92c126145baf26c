package shard_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/nn/shard"
)

// followConv makes a convolution of inputs of a size; updates are of three samples.
func followConv(t *testing.T, c shard.Conv2dConfig, code coded.Spec, chunks, h, w int) *followedLayer {
	t.Helper()
	return followConvLayer(t, newConvLayer(t, c, code, chunks), convolution{c, 3, h, w})
}

func followConvLayer(t *testing.T, l coded.Layer, c convolution) *followedLayer {
	t.Helper()
	f := follow(t, l, convShapes(c), c.weights(), c.Encode)
	f.update = func() (x, dy coded.Tensor) { return f.random(c.n, c.In, c.h, c.w), f.random(c.outShape()...) }
	return f
}

func convShapes(c convolution) map[coded.Product][]int {
	shapes := map[coded.Product][]int{coded.Forward: {c.In, c.h, c.w}}
	if c.Backward {
		shapes[coded.Backward] = c.outShape()[1:]
	}
	return shapes
}

// followedConvs are convolutions of every geometry, cut into channels (where the
// weights outweigh the operand, or there are too few samples) and into samples.
func followedConvs() map[string]func(*testing.T) *followedLayer {
	return map[string]func(*testing.T) *followedLayer{
		"3x3 by samples": func(t *testing.T) *followedLayer { return followConv(t, conv3x3(8, 8), trigonometric(6, 4), 2, 9, 9) },
		"3x3 by channels": func(t *testing.T) *followedLayer {
			return followConv(t, conv3x3(16, 16), trigonometric(6, 4), 4, 4, 4)
		},
		"stride, padded blocks": func(t *testing.T) *followedLayer {
			c := with(conv3x3(7, 11), func(c *shard.Conv2dConfig) { c.Stride = 2 })
			return followConv(t, c, trigonometric(5, 3), 2, 8, 7)
		},
		"groups": func(t *testing.T) *followedLayer {
			c := with(conv3x3(10, 14), func(c *shard.Conv2dConfig) { c.Groups = 2 })
			return followConv(t, c, trigonometric(5, 3), 2, 5, 6)
		},
		"groups by channels": func(t *testing.T) *followedLayer {
			c := with(conv3x3(18, 18), func(c *shard.Conv2dConfig) { c.Groups, c.Padding = 2, 2 })
			return followConv(t, c, trigonometric(5, 3), 3, 2, 2)
		},
		"dilation, 2x3, without backward": func(t *testing.T) *followedLayer {
			c := with(conv3x3(6, 6), func(c *shard.Conv2dConfig) { c.Dilation, c.KernelH, c.Padding, c.Backward = 2, 2, 0, false })
			return followConv(t, c, coded.Spec{Name: "replication", N: 4, K: 2}, 3, 7, 8)
		},
		"by batch": func(t *testing.T) *followedLayer {
			c := convolution{conv3x3(8, 8), 3, 4, 4}
			l := newConvLayer(t, c.Conv2dConfig, trigonometric(6, 4), 2)
			l.ByBatch = true
			return followConvLayer(t, l, c)
		},
		"winograd": func(t *testing.T) *followedLayer {
			return followConv(t, conv3x3(128, 128), trigonometric(5, 4), 1, 10, 10)
		},
	}
}

// The sums follow every form of the update, whatever the geometry.
func TestConvFollowerBelievesTheHonest(t *testing.T) {
	updates := []coded.Update{
		{LR: 1e-3, Scale: 1},
		{LR: 1e-3, Momentum: 0.9, Decay: 5e-4, Scale: 0.5},
		{LR: 1e-3, Momentum: 0.9, Decay: 5e-4, Scale: 1, Nesterov: true},
	}
	for name, build := range followedConvs() {
		for i, u := range updates {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				f := build(t)
				f.honest("at first")
				steps := 200
				if name == "winograd" { // each is a hundred times as large
					steps = 5
				}
				for step := 1; step <= steps; step++ {
					u.Step = step
					f.train(u, 1+step%2)
				}
				f.honest("after the updates")
			})
		}
	}
}

// A result with one wrong entry, of another slot, chunk or operand, or of before the
// update, is refused.
func TestConvFollowerRefusesWrongResults(t *testing.T) {
	for name, build := range followedConvs() {
		if name == "winograd" {
			continue // the results are large, and not of another kind
		}
		t.Run(name, func(t *testing.T) {
			f := build(t)
			for step := 1; step <= 5; step++ {
				f.train(coded.Update{Step: step, LR: 1e-3, Momentum: 0.9, Scale: 1}, 1)
			}
			refused := func(what string, p coded.Product, slot, chunk int, x, y coded.Tensor) {
				t.Helper()
				var wrong *coded.VerifyError
				if err := f.check(p, slot, chunk, x, y); !errors.As(err, &wrong) {
					t.Errorf("%s product, slot %d, chunk %d: %s: %v", p, slot, chunk, what, err)
				}
			}
			f.each(func(p coded.Product, slot, chunk int) {
				x := f.operand(p)
				y := f.multiply(p, slot, chunk, x)
				if f.layer.Code.Name != "replication" {
					refused("of another slot", p, (slot+1)%len(f.shards), chunk, x, y)
				}
				refused("of another operand", p, slot, chunk, f.operand(p), y)
				for i := f.rng.IntN(7); i < len(y.Data); i += 7 {
					v := y.Data[i]
					for _, e := range []float32{2e-2, -1e3, float32(math.NaN()), float32(math.Inf(1))} {
						y.Data[i] = v + e
						refused(fmt.Sprintf("entry %d is off by %v", i, e), p, slot, chunk, x, y)
					}
					y.Data[i] = v
				}
			})
			x := f.operand(coded.Forward)
			old := f.multiply(coded.Forward, 2, 1, x)
			f.train(coded.Update{Step: 6, LR: 1e-2, Scale: 1}, 1)
			refused("of before the update", coded.Forward, 2, 1, x, old)
			var shape *coded.ShapeError
			if err := f.check(coded.Forward, 2, 1, x, coded.NewTensor(3, 3)); !errors.As(err, &shape) {
				t.Errorf("a result of another shape: %v", err)
			}
			if err := f.check(coded.Forward, 2, 1, coded.NewTensor(3, 3), old); err == nil {
				t.Error("a result for an operand of another shape is believed")
			}
		})
	}
}

// A flipped bit in a shard shows in its results and in its state.
func TestConvFollowerFindsSoftErrors(t *testing.T) {
	for name, build := range followedConvs() {
		t.Run(name, func(t *testing.T) {
			f := build(t)
			f.train(coded.Update{Step: 1, LR: 1e-3, Scale: 1}, 1)
			for tensor, p := range map[int]coded.Product{0: coded.Forward, 2: coded.Backward} {
				if f.shapes[p] == nil {
					continue
				}
				data := f.shards[3].State()[tensor].Data
				before := data[4] // of the first channel, which no padding hides
				for _, bit := range []int{31, 30, 23} {
					f.flip(3, tensor, 4, bit)
					x, found := f.operand(p), false
					for chunk := range f.layer.Chunks {
						found = found || f.check(p, 3, chunk, x, f.multiply(p, 3, chunk, x)) != nil
					}
					if !found {
						t.Errorf("tensor %d: %g in place of %g was not found in the %s product", tensor, data[4], before, p)
					}
					var wrong *coded.VerifyError
					if err := f.follower.CheckState(3, f.shards[3].State()); !errors.As(err, &wrong) {
						t.Errorf("tensor %d: %g in place of %g was not found in the state: %v", tensor, data[4], before, err)
					}
					f.flip(3, tensor, 4, bit)
				}
			}
			f.honest("with every bit back")
		})
	}
}

// Momenta are not tested, but what comes of wrong ones is found.
func TestWrongMomentumShowsInTheWeights(t *testing.T) {
	f := followConv(t, conv3x3(8, 8), trigonometric(6, 4), 2, 9, 9)
	f.shards[3].State()[1].Data[4] += 10
	f.honest("with a wrong momentum")
	f.train(coded.Update{Step: 1, LR: 1e-2, Momentum: 0.9, Scale: 1}, 1)
	x := f.operand(coded.Forward)
	if err := f.check(coded.Forward, 3, 0, x, f.multiply(coded.Forward, 3, 0, x)); err == nil {
		t.Error("the product of weights that a wrong momentum has changed is believed")
	}
}

// Operands of updates that are cut by samples make one part of all: what is cut by
// channels even so is not tested, and what is not is.
func TestConvFollowerMergesParts(t *testing.T) {
	c := conv3x3(8, 8)
	f := followConv(t, c, trigonometric(6, 4), 2, 9, 9)
	one := f.random(1, 8, 9, 9) // fewer samples than chunks
	wrong := func(x coded.Tensor) coded.Tensor {
		y := f.multiply(coded.Forward, 2, 1, x)
		y.Data[3] += 1
		return y
	}
	if err := f.check(coded.Forward, 2, 1, one, wrong(one)); err == nil {
		t.Error("before an update a wrong answer cut by channels is believed")
	}
	f.train(coded.Update{Step: 1, LR: 1e-3, Momentum: 0.9, Scale: 1}, 1)
	if err := f.check(coded.Forward, 2, 1, one, wrong(one)); err != nil {
		t.Errorf("an answer that cannot be tested is refused: %v", err)
	}
	x := f.operand(coded.Forward)
	if err := f.check(coded.Forward, 2, 1, x, wrong(x)); err == nil {
		t.Error("a wrong answer cut by samples is believed")
	}
	f.honest("after the update")
	if err := f.follower.Reset(f.states()); err != nil {
		t.Fatal(err)
	}
	f.honest("after a reset")
}

// Where the operand of a place is zero, or nearly, honest results pass as well.
func TestConvFollowerOfSparseOperands(t *testing.T) {
	f := followConv(t, conv3x3(8, 8), trigonometric(6, 4), 2, 9, 9)
	for _, p := range []coded.Product{coded.Forward, coded.Backward} {
		x := f.operand(p)
		for i := range x.Data {
			switch {
			case i%13 > 2:
				x.Data[i] = 0
			case i%3 == 0:
				x.Data[i] *= 1e-6
			}
		}
		for chunk := range 2 {
			if err := f.check(p, 1, chunk, x, f.multiply(p, 1, chunk, x)); err != nil {
				t.Errorf("a right result is refused: %v", err)
			}
		}
	}
}

func TestConvFollowerErrors(t *testing.T) {
	f := followConv(t, with(conv3x3(8, 8), func(c *shard.Conv2dConfig) { c.Backward = false }), trigonometric(6, 4), 2, 4, 4)
	x, y := f.operand(coded.Forward), coded.NewTensor(3, 8, 4, 4)
	wantError(t, f.check(coded.Backward, 0, 0, x, y), "layer conv1", "unknown or missing backward")
	wantError(t, f.check(coded.Forward, 6, 0, x, y), "slot 6, chunk 0")
	wantError(t, f.follower.Reset([]coded.ShardState{{}}), "follow: slot 0: state of")
	wantError(t, f.follower.Accumulate(coded.NewTensor(2, 7, 4, 4), y), "layer conv1: X: operand of shape [2 7 4 4]")
	wantError(t, f.follower.Accumulate(x, coded.NewTensor(3, 8, 4, 5)), "layer conv1: dY has shape [3 8 4 5]")
	_, err := shard.NewConv2dFollower(coded.Layer{Name: "conv1", Kind: "other"}, f.rng)
	wantError(t, err, `kind "other"`)
}

// A step with a test of every answer allocates nothing of the size of a tensor.
func TestConvFollowerAllocatesNoTensor(t *testing.T) {
	f := followConv(t, conv3x3(16, 16), trigonometric(6, 4), 2, 24, 24)
	dx, dy := f.update()
	x := f.operand(coded.Forward)
	results := []coded.Tensor{f.multiply(coded.Forward, 1, 0, x), f.multiply(coded.Forward, 1, 1, x)}
	step := 0
	b := steady.Bytes(1, func() { // in several the race detector empties the pool of scratch memory
		for chunk, y := range results {
			// The results are of the first step: a test that ends in an error costs as much.
			if err := f.check(coded.Forward, 1, chunk, x, y); err == nil && step > 0 {
				t.Fatal("a result of before the updates is believed")
			}
		}
		step++
		for range 2 {
			if err := f.follower.Accumulate(dx, dy); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.follower.Apply(coded.Update{Step: step, LR: 0.01, Momentum: 0.9, Scale: 1}); err != nil {
			t.Fatal(err)
		}
	})
	if plane := uint64(4 * 3 * 24 * 24); b >= plane {
		t.Errorf("%d bytes allocated a step, want less than the %d of a plane of a result", b, plane)
	}
}

// BenchmarkConvTest compares the test of an answer with the work on it.
func BenchmarkConvTest(b *testing.B) {
	const batch = 64
	for _, size := range []struct{ channels, side int }{{64, 16}, {256, 16}} {
		config := conv3x3(size.channels, size.channels)
		l := newConvLayer(b, config, trigonometric(8, 6), 8)
		s, err := shard.NewConv2d(l, 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		f, err := shard.NewConv2dFollower(l, newRand())
		if err != nil {
			b.Fatal(err)
		}
		x := coded.NewTensor(batch, size.channels, size.side, size.side)
		copy(x.Data, normal(newRand(), len(x.Data)))
		shape := fmt.Sprintf("%d->%d/%dx%d/batch=%d/chunks=8", size.channels, size.channels, size.side, size.side, batch)
		y, err := s.Multiply(coded.Forward, x, 3)
		if err != nil {
			b.Fatal(err)
		}
		y = clone(y)
		b.Run("work/"+shape, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Multiply(coded.Forward, x, 3); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("test/"+shape, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Check(coded.Forward, 1, 3, []coded.Tensor{x}, y); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("follow/"+shape, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Accumulate(x, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
