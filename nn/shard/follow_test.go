package shard_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// followedLayer is a layer whose shards are trained beside its follower.
type followedLayer struct {
	t        *testing.T
	rng      *rand.Rand
	layer    coded.Layer
	shapes   map[coded.Product][]int // of the operands of one sample, of the products that there are
	shards   []coded.Shard
	follower coded.Follower
	update   func() (x, dy coded.Tensor) // the operands of an update
}

// check tests a result of an operand.
func (f *followedLayer) check(p coded.Product, slot, chunk int, x, y coded.Tensor) error {
	_, err := f.follower.Check(p, slot, chunk, []coded.Tensor{x}, y)
	return err
}

func newFollowedLayer(t *testing.T, code coded.Spec, c shard.LinearConfig, chunks int) *followedLayer {
	t.Helper()
	return followLinear(t, newLayer(t, "fc", c, code, chunks), c)
}

func followLinear(t *testing.T, l coded.Layer, c shard.LinearConfig) *followedLayer {
	t.Helper()
	shapes := map[coded.Product][]int{coded.Forward: {c.In}}
	if c.Backward {
		shapes[coded.Backward] = []int{c.Out}
	}
	f := follow(t, l, shapes, c.In*c.Out, c.Encode)
	f.update = func() (x, dy coded.Tensor) { return f.random(5, c.In), f.random(5, c.Out) }
	return f
}

// follow makes a layer with random weights and momenta.
func follow(t *testing.T, l coded.Layer, shapes map[coded.Product][]int, weights int,
	encode func(weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error)) *followedLayer {
	t.Helper()
	f := &followedLayer{t: t, rng: rand.New(rand.NewPCG(7, 7)), layer: l, shapes: shapes}
	code, weight, momentum := newCode(t, l.Code), normal(f.rng, weights), normal(f.rng, weights)
	for slot := range code.N() {
		s, err := shard.Factories()[l.Kind](l, slot)
		if err != nil {
			t.Fatal(err)
		}
		state, err := encode(weight, momentum, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetState(state); err != nil {
			t.Fatal(err)
		}
		f.shards = append(f.shards, s)
	}
	var err error
	if f.follower, err = shard.Followers()[l.Kind](l, f.rng); err != nil {
		t.Fatal(err)
	}
	if err := f.follower.Reset(f.states()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *followedLayer) random(shape ...int) coded.Tensor {
	x := coded.NewTensor(shape...)
	copy(x.Data, normal(f.rng, len(x.Data)))
	return x
}

func (f *followedLayer) states() (states []coded.ShardState) {
	for slot, s := range f.shards {
		states = append(states, coded.ShardState{Slot: slot, State: s.State()})
	}
	return states
}

// train makes one update from so many pairs of operands, here and there.
func (f *followedLayer) train(u coded.Update, pairs int) {
	f.t.Helper()
	for range pairs {
		x, dy := f.update()
		for _, s := range f.shards {
			if err := s.Accumulate(x, dy); err != nil {
				f.t.Fatal(err)
			}
		}
		if err := f.follower.Accumulate(x, dy); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, s := range f.shards {
		if err := s.Apply(u); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.follower.Apply(u); err != nil {
		f.t.Fatal(err)
	}
}

func (f *followedLayer) operand(p coded.Product) coded.Tensor {
	return f.random(append([]int{3}, f.shapes[p]...)...)
}

// multiply is a copy of what a slot answers.
func (f *followedLayer) multiply(p coded.Product, slot, chunk int, x coded.Tensor) coded.Tensor {
	f.t.Helper()
	y, err := f.shards[slot].Multiply(p, x, chunk)
	if err != nil {
		f.t.Fatal(err)
	}
	return clone(y)
}

// flip flips a bit of a slot's state. A shard may keep what it has made of its weights
// until it is told that they are others, so the state is set anew.
func (f *followedLayer) flip(slot, tensor, at, bit int) {
	f.t.Helper()
	var state []coded.Tensor
	for _, s := range f.shards[slot].State() {
		state = append(state, clone(s))
	}
	v := &state[tensor].Data[at]
	*v = math.Float32frombits(math.Float32bits(*v) ^ 1<<bit)
	if err := f.shards[slot].SetState(state); err != nil {
		f.t.Fatal(err)
	}
}

// each calls do for every product, slot and chunk.
func (f *followedLayer) each(do func(p coded.Product, slot, chunk int)) {
	for _, p := range []coded.Product{coded.Forward, coded.Backward} {
		if f.shapes[p] == nil {
			continue
		}
		for slot := range f.shards {
			for chunk := range f.layer.Chunks {
				do(p, slot, chunk)
			}
		}
	}
}

// honest checks that nothing right is called wrong.
func (f *followedLayer) honest(when string) {
	f.t.Helper()
	f.each(func(p coded.Product, slot, chunk int) {
		x := f.operand(p)
		if err := f.check(p, slot, chunk, x, f.multiply(p, slot, chunk, x)); err != nil {
			f.t.Errorf("%s: a right result is refused: %v", when, err)
		}
	})
	for slot, s := range f.shards {
		if err := f.follower.CheckState(slot, s.State()); err != nil {
			f.t.Errorf("%s: a right state is refused: %v", when, err)
		}
	}
}

// The sums follow every form of the update, whatever is padded.
func TestFollowerBelievesTheHonest(t *testing.T) {
	updates := map[string]coded.Update{
		"sgd":      {LR: 0.01, Scale: 1},
		"momentum": {LR: 0.01, Momentum: 0.9, Scale: 0.5},
		"nesterov": {LR: 0.01, Momentum: 0.9, Decay: 5e-4, Scale: 1, Nesterov: true},
		"tiny":     {LR: 1e-9, Momentum: 0.9, Decay: 5e-4, Scale: 1}, // no weight changes in float32
	}
	for name, u := range updates {
		for _, c := range []struct {
			code     coded.Spec
			in, out  int
			chunks   int
			backward bool
		}{{trigonometric(6, 4), 24, 32, 2, true}, {trigonometric(5, 3), 13, 11, 3, true}, {trigonometric(7, 5), 6, 11, 2, true},
			{coded.Spec{Name: "replication", N: 4, K: 2}, 9, 10, 2, false}} {
			t.Run(fmt.Sprintf("%s/%s/%dx%d", name, c.code.Name, c.in, c.out), func(t *testing.T) {
				f := newFollowedLayer(t, c.code, shard.LinearConfig{In: c.in, Out: c.out, Backward: c.backward}, c.chunks)
				f.honest("at first")
				for step := 1; step <= 400; step++ {
					u.Step = step
					f.train(u, 1+step%2)
				}
				f.honest("after 400 updates")
				u.Step = 400
				if err := f.follower.Apply(u); err != nil { // again: no change
					t.Fatal(err)
				}
				f.honest("after the last update once more")
			})
		}
	}
}

// Of a layer that is cut by batch, the results of every chunk have all features.
func TestFollowerByBatch(t *testing.T) {
	config := shard.LinearConfig{In: 13, Out: 11, Backward: true}
	l := newLayer(t, "fc", config, trigonometric(5, 3), 3)
	l.ByBatch = true
	f := followLinear(t, l, config)
	f.train(coded.Update{Step: 1, LR: 0.01, Scale: 1}, 2)
	f.honest("after an update")
	x := f.operand(coded.Forward)
	y := f.multiply(coded.Forward, 4, 2, x)
	y.Data[1] += 1
	if err := f.check(coded.Forward, 4, 2, x, y); err == nil {
		t.Error("a wrong result is believed")
	}
}

// A result with one wrong entry, of another slot or chunk, or of before the
// update, is refused.
func TestFollowerRefusesWrongResults(t *testing.T) {
	f := newFollowedLayer(t, trigonometric(6, 4), shard.LinearConfig{In: 24, Out: 32, Backward: true}, 2)
	for step := 1; step <= 20; step++ {
		f.train(coded.Update{Step: step, LR: 0.01, Momentum: 0.9, Scale: 1}, 1)
	}
	refused := func(what string, p coded.Product, slot, chunk int, x, y coded.Tensor) {
		t.Helper()
		var wrong *coded.VerifyError
		if err := f.check(p, slot, chunk, x, y); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "layer fc, slot ") {
			t.Errorf("%s product, slot %d, chunk %d: %s: %v", p, slot, chunk, what, err)
		}
	}
	f.each(func(p coded.Product, slot, chunk int) {
		x := f.operand(p)
		y := f.multiply(p, slot, chunk, x)
		refused("of another slot", p, (slot+1)%6, chunk, x, y)
		refused("of another chunk", p, slot, 1-chunk, x, y)
		refused("of another operand", p, slot, chunk, f.operand(p), y)
		for i, v := range y.Data {
			for _, e := range []float32{1e-2, -1e3, float32(math.NaN()), float32(math.Inf(1))} {
				y.Data[i] = v + e
				refused(fmt.Sprintf("entry %d is off by %v", i, e), p, slot, chunk, x, y)
			}
			y.Data[i] = v
		}
	})
	x := f.operand(coded.Forward)
	old := f.multiply(coded.Forward, 2, 1, x)
	f.train(coded.Update{Step: 21, LR: 0.01, Scale: 1}, 1)
	refused("of before the update", coded.Forward, 2, 1, x, old)
	var shape *coded.ShapeError
	if err := f.check(coded.Forward, 2, 1, x, coded.NewTensor(3, 3)); !errors.As(err, &shape) {
		t.Errorf("a result of another shape: %v", err)
	}
}

// A flipped bit in a shard shows in its results and in its state.
func TestFollowerFindsSoftErrors(t *testing.T) {
	f := newFollowedLayer(t, trigonometric(6, 4), shard.LinearConfig{In: 24, Out: 32, Backward: true}, 2)
	f.train(coded.Update{Step: 1, LR: 0.01, Scale: 1}, 1)
	for tensor, p := range map[int]coded.Product{0: coded.Forward, 2: coded.Backward} {
		for _, bit := range []int{31, 30, 23, 16} { // the sign, exponents, a hundredth
			data := f.shards[3].State()[tensor].Data
			before := data[0]
			data[0] = math.Float32frombits(math.Float32bits(before) ^ 1<<bit)
			x := f.operand(p)
			if err := f.check(p, 3, 0, x, f.multiply(p, 3, 0, x)); err == nil {
				t.Errorf("tensor %d: %g in place of %g was not found in the %s product", tensor, data[0], before, p)
			}
			var wrong *coded.VerifyError
			if err := f.follower.CheckState(3, f.shards[3].State()); !errors.As(err, &wrong) {
				t.Errorf("tensor %d: %g in place of %g was not found in the state: %v", tensor, data[0], before, err)
			}
			data[0] = before
		}
	}
	f.honest("with every bit back")
}

func TestFollowerErrors(t *testing.T) {
	f := newFollowedLayer(t, trigonometric(6, 4), shard.LinearConfig{In: 24, Out: 32}, 2)
	x, y := f.operand(coded.Forward), coded.NewTensor(3, 4)
	for want, err := range map[string]error{
		"unknown or missing backward": f.check(coded.Backward, 0, 0, x, y),
		"slot 6, chunk 0":             f.check(coded.Forward, 6, 0, x, y),
		"slot 0, chunk 2":             f.check(coded.Forward, 0, 2, x, y),
		"slot -1":                     f.follower.CheckState(-1, nil),
		"state of 0 tensors, want 2":  f.follower.CheckState(0, nil),
		"tensor 1 of the state":       f.follower.CheckState(0, []coded.Tensor{coded.NewTensor(8, 24), coded.NewTensor(8, 23)}),
		"follow: slot 0: state of":    f.follower.Reset([]coded.ShardState{{}}),
		"too few results":             f.follower.Reset(f.states()[:3]),
		"dY has shape":                f.follower.Accumulate(coded.NewTensor(2, 24), coded.NewTensor(3, 32)),
		"step below 1":                f.follower.Apply(coded.Update{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := shard.NewLinearFollower(coded.Layer{Name: "fc", Kind: "other"}, f.rng); err == nil || !strings.Contains(err.Error(), `kind "other"`) {
		t.Errorf("another kind of layer: %v", err)
	}
}
