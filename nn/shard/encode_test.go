package shard_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// Decoding any sufficient set of encoded states gives weight and momentum back.
func TestDecodeInvertsEncode(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(rt, "k")
		n := k + rapid.IntRange(0, 3).Draw(rt, "spare")
		c := shard.LinearConfig{
			In: k + rapid.IntRange(0, 9).Draw(rt, "in"), Out: k + rapid.IntRange(0, 9).Draw(rt, "out"), Backward: rapid.Bool().Draw(rt, "backward"),
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		code := newCode(t, trigonometric(n, k))
		weight, momentum := normal(rng, c.In*c.Out), normal(rng, c.In*c.Out)
		set := rng.Perm(n)[:k]
		slices.Sort(set)
		var list []coded.ShardState
		for _, slot := range set {
			state, err := c.Encode(weight, momentum, code, slot)
			if err != nil {
				rt.Fatal(err)
			}
			list = append(list, coded.ShardState{Slot: slot, State: state})
		}
		w, v, err := c.Decode(list, coded.NewDecoder(code, coded.DecoderConfig{}))
		if err != nil {
			rt.Fatal(err)
		}
		// The worst condition number of a set of these codes is 13.
		if dw, dv := difference(t, w, weight), difference(t, v, momentum); !(dw <= 2e-5 && dv <= 2e-5) {
			rt.Errorf("slots %v: weight differs by %.2g, momentum by %.2g", set, dw, dv)
		}
	})
}

// All slots at once are what they are one by one, to the bit, of every kind of layer
// and on any number of threads.
func TestEncodeAllIsEveryEncode(t *testing.T) {
	pool := kernel.NewPool(3)
	defer pool.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	code := newCode(t, trigonometric(6, 4))
	for _, c := range []shard.Config{
		shard.LinearConfig{In: 45, Out: 70, Backward: true}, // more than a tile, and not whole ones
		shard.LinearConfig{In: 3, Out: 6},
		shard.Conv2dConfig{In: 10, Out: 18, KernelH: 3, KernelW: 2, Stride: 1, Dilation: 1, Groups: 2, Backward: true},
	} {
		var size int
		switch l := c.(type) {
		case shard.LinearConfig:
			size = l.In * l.Out
		case shard.Conv2dConfig:
			size = l.Out * l.In / l.Groups * l.KernelH * l.KernelW
		}
		weight, momentum := normal(rng, size), normal(rng, size)
		all, err := shard.EncodeAll(c, weight, momentum, code, pool)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != code.N() {
			t.Fatalf("%v: %d states, want %d", c, len(all), code.N())
		}
		for slot, state := range all {
			one, err := c.Encode(weight, momentum, code, slot)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(state, one, func(x, y coded.Tensor) bool { return slices.Equal(x.Shape, y.Shape) && slices.Equal(x.Data, y.Data) }) {
				t.Errorf("%v, slot %d: all at once differ from one", c, slot)
			}
		}
	}
}

func TestNilMomentumIsZero(t *testing.T) {
	c := shard.LinearConfig{In: 5, Out: 6, Backward: true}
	state, err := c.Encode(make([]float32, 30), nil, newCode(t, trigonometric(3, 2)), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []int{1, 3} {
		if slices.ContainsFunc(state[q].Data, func(v float32) bool { return v != 0 }) {
			t.Errorf("tensor %d is not zero", q)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	code := newCode(t, trigonometric(6, 4))
	c := shard.LinearConfig{In: 5, Out: 6}
	_, err := c.Encode(make([]float32, 29), nil, code, 0)
	wantError(t, err, "5x6", "29 weights", "want 30")
	_, err = c.Encode(make([]float32, 30), make([]float32, 1), code, 0)
	wantError(t, err, "1 momenta", "want 30")
	_, err = c.Encode(make([]float32, 30), nil, code, 6)
	wantError(t, err, "slot 6")
	_, err = shard.EncodeAll(c, make([]float32, 29), nil, code, nil)
	wantError(t, err, "29 weights", "want 30")
	_, err = shard.LinearConfig{In: 5, Out: 3}.Encode(make([]float32, 15), nil, code, 0)
	wantError(t, err, "out has 3 features", "stay local")
}

func TestDecodeRefuses(t *testing.T) {
	c := shard.LinearConfig{In: 8, Out: 8}
	code := newCode(t, trigonometric(6, 4))
	d := coded.NewDecoder(code, coded.DecoderConfig{})
	var list []coded.ShardState
	for slot := range 4 {
		state, err := c.Encode(make([]float32, 64), nil, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, coded.ShardState{Slot: slot, State: state})
	}
	_, _, err := c.Decode(list[:3], d)
	if !errors.Is(err, coded.ErrTooFewResults) {
		t.Errorf("three states: %v, want an error of kind %v", err, coded.ErrTooFewResults)
	}
	_, _, err = c.Decode(list, coded.NewDecoder(code, coded.DecoderConfig{MaxCond: 1.5}))
	if !errors.Is(err, coded.ErrIllConditioned) {
		t.Errorf("condition limit 1.5: %v, want an error of kind %v", err, coded.ErrIllConditioned)
	}
	_, _, err = c.Decode([]coded.ShardState{list[1], list[0], list[2], list[3]}, d)
	wantError(t, err, "state 1 is of slot 0", "ascending")
	short := slices.Clone(list)
	short[2].State = short[2].State[:1]
	_, _, err = c.Decode(short, d)
	wantError(t, err, "slot 2", "1 tensors", "2")
	short[2].State = []coded.Tensor{coded.NewTensor(2, 7), coded.NewTensor(2, 8)}
	_, _, err = c.Decode(short, d)
	wantError(t, err, "8x8", "[2 7]")
}
