package shard_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(3, 3)) }

// followBatch makes a layer with coded batch blocks, whose updates bring new weights.
func followBatch(t *testing.T, c shard.Config, shapes map[coded.Product][]int, weight []int, chunks int) *followedLayer {
	t.Helper()
	size := 1
	for _, d := range weight {
		size *= d
	}
	f := follow(t, newBatchLayer(t, shard.KindBatch, c, trigonometric(6, 4), chunks), shapes, size,
		func(w, _ []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
			return shard.EncodeBatch(c, w, code, slot)
		})
	f.update = func() (x, dy coded.Tensor) { return f.random(weight...), coded.NewTensor(1) }
	return f
}

func followedBatches() map[string]func(*testing.T) *followedLayer {
	conv := convolution{with(conv3x3(6, 10), func(c *shard.Conv2dConfig) { c.Groups, c.Stride = 2, 2 }), 3, 7, 7}
	return map[string]func(*testing.T) *followedLayer{
		"linear": func(t *testing.T) *followedLayer {
			c := shard.LinearConfig{In: 13, Out: 11, Backward: true}
			return followBatch(t, c, map[coded.Product][]int{coded.Forward: {13}, coded.Backward: {11}}, []int{11, 13}, 3)
		},
		"linear without backward": func(t *testing.T) *followedLayer {
			c := shard.LinearConfig{In: 13, Out: 11}
			return followBatch(t, c, map[coded.Product][]int{coded.Forward: {13}}, []int{11, 13}, 2)
		},
		"conv": func(t *testing.T) *followedLayer {
			return followBatch(t, conv.Conv2dConfig, convShapes(conv), []int{10, 3, 3, 3}, 2)
		},
	}
}

// Answers are tested with the weights that came last; with others they are refused,
// as are those with a wrong entry.
func TestBatchFollower(t *testing.T) {
	for name, build := range followedBatches() {
		t.Run(name, func(t *testing.T) {
			f := build(t)
			f.honest("at first")
			for step := 1; step <= 5; step++ {
				f.train(coded.Update{Step: step, LR: 1, Scale: 1}, 1)
			}
			f.honest("after five updates")
			f.train(coded.Update{Step: 6, LR: 1, Scale: 1}, 0)
			f.honest("after an update without weights")
			f.each(func(p coded.Product, slot, chunk int) {
				x := f.operand(p)
				y := f.multiply(p, slot, chunk, x)
				for i, v := range y.Data {
					y.Data[i] = v + 1e-2
					var wrong *coded.VerifyError
					if err := f.check(p, slot, chunk, x, y); !errors.As(err, &wrong) {
						t.Errorf("%s product, slot %d, chunk %d: entry %d is off: %v", p, slot, chunk, i, err)
					}
					y.Data[i] = v
				}
			})
			x := f.operand(coded.Forward)
			old := f.multiply(coded.Forward, 2, 1, x)
			f.train(coded.Update{Step: 7, LR: 1, Scale: 1}, 1)
			if err := f.check(coded.Forward, 2, 1, x, old); err == nil {
				t.Error("a result of before the update is believed")
			}
		})
	}
}

// A worker that comes from a repair has a scaled copy; a wrong one is found.
func TestBatchFollowerChecksStates(t *testing.T) {
	f := followedBatches()["conv"](t)
	for slot, s := range f.shards {
		state := s.State()
		state[0].Data[5] *= 1.5
		var wrong *coded.VerifyError
		if err := f.follower.CheckState(slot, state); !errors.As(err, &wrong) {
			t.Errorf("slot %d: a wrong weight gives %v", slot, err)
		}
		if err := f.follower.CheckState((slot+1)%6, s.State()); !errors.As(err, &wrong) {
			t.Errorf("slot %d: the state of another slot gives %v", slot, err)
		}
	}
	wantError(t, f.follower.CheckState(6, f.states()[0].State), "layer conv1: slot 6")
	wantError(t, f.follower.CheckState(0, nil), "state of 0 tensors, want one of shape [10 3 3 3]")
	wantError(t, f.follower.Reset(nil), "too few results")
	wantError(t, f.follower.Accumulate(coded.NewTensor(3), coded.NewTensor(1)), "3 new weights, want 270")
	wantError(t, f.follower.Apply(coded.Update{}), "step below 1")
	for slot := range 6 { // any of them will do
		if err := f.follower.Reset(f.states()[slot:]); err != nil {
			t.Fatal(err)
		}
		f.honest(fmt.Sprintf("after a reset from slot %d", slot))
	}
	_, err := shard.NewBatchFollower(coded.Layer{Name: "conv1", Kind: "other"}, f.rng)
	wantError(t, err, `kind "other"`)
}
