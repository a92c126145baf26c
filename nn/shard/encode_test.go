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

// A StateEncoder gives, slot after slot in the same memory, what each slot's Encode
// gives, to the bit, of every kind of layer and on any number of threads; without momenta
// if there are none.
func TestStateEncoderIsEncode(t *testing.T) {
	pool := kernel.NewPool(3)
	defer pool.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	code := newCode(t, trigonometric(6, 4))
	for _, c := range []shard.Config{
		shard.LinearConfig{In: 45, Out: 70, Backward: true}, // more than a tile, and not whole ones
		shard.LinearConfig{In: 6, Out: 5},
		shard.Conv2dConfig{In: 10, Out: 18, KernelH: 3, KernelW: 2, Stride: 1, Dilation: 1, Groups: 2, Backward: true},
	} {
		size := sizeOf(c)
		weight := normal(rng, size)
		for _, momentum := range [][]float32{normal(rng, size), nil} {
			e, err := shard.NewStateEncoder(c, weight, momentum, code, pool)
			if err != nil {
				t.Fatal(err)
			}
			var first *float32
			for slot := range code.N() {
				state, err := e.Encode(slot)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = &state[0].Data[0]
				} else if first != &state[0].Data[0] {
					t.Errorf("%v, slot %d: the state is in memory of its own", c, slot)
				}
				want, err := c.Encode(weight, momentum, code, slot)
				if err != nil {
					t.Fatal(err)
				}
				if momentum == nil {
					want = weightsOnly(want)
				}
				if !slices.EqualFunc(state, want, equalTensors) {
					t.Errorf("%v, slot %d: the state differs from Encode's", c, slot)
				}
			}
		}
	}
}

// weightsOnly is a state without its momenta.
func weightsOnly(state []coded.Tensor) (short []coded.Tensor) {
	for i := 0; i < len(state); i += 2 {
		short = append(short, state[i])
	}
	return short
}

func equalTensors(x, y coded.Tensor) bool {
	return slices.Equal(x.Shape, y.Shape) && slices.Equal(x.Data, y.Data)
}

// sizeOf is the number of weights of a layer.
func sizeOf(c shard.Config) int {
	switch c := c.(type) {
	case shard.LinearConfig:
		return c.In * c.Out
	case shard.Conv2dConfig:
		return c.Out * c.In / c.Groups * c.KernelH * c.KernelW
	}
	return 0
}

// A shard takes a state without momenta for one with zeros, whatever it held before.
func TestSetStateWithoutMomenta(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	code := newCode(t, trigonometric(3, 2))
	for _, c := range []shard.LinearConfig{{In: 5, Out: 6, Backward: true}, {In: 5, Out: 6}} {
		raw, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		s, err := shard.NewLinear(coded.Layer{Name: "fc", Kind: shard.KindLinear, Config: raw, Code: trigonometric(3, 2), Chunks: 1}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		weight := normal(rng, 30)
		for _, momentum := range [][]float32{normal(rng, 30), nil} {
			state, err := c.Encode(weight, momentum, code, 1)
			if err != nil {
				t.Fatal(err)
			}
			given := state
			if momentum == nil {
				given = weightsOnly(state)
			}
			if err := s.SetState(given); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(s.State(), state, equalTensors) {
				t.Errorf("%v: a state of %d tensors is not what the shard has", c, len(given))
			}
		}
		wantError(t, s.SetState(s.State()[:0]), "0 tensors", "without momenta")
	}
}

// One tensor of the states decodes to what all of them do.
func TestDecodeTensor(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	code := newCode(t, trigonometric(4, 2))
	d := coded.NewDecoder(code, coded.DecoderConfig{})
	c := shard.Conv2dConfig{In: 10, Out: 18, KernelH: 3, KernelW: 2, Stride: 1, Dilation: 1, Groups: 2, Backward: true}
	size := sizeOf(c)
	weight, momentum := normal(rng, size), normal(rng, size)
	var states []coded.ShardState
	for _, slot := range []int{0, 3} {
		state, err := c.Encode(weight, momentum, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, coded.ShardState{Slot: slot, State: state})
	}
	w, v, err := c.Decode(states, d)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, size)
	for tensor, want := range map[int][]float32{shard.TensorWeight: w, shard.TensorMomentum: v} {
		var one []coded.ShardState
		for _, s := range states {
			one = append(one, coded.ShardState{Slot: s.Slot, State: s.State[tensor : tensor+1]})
		}
		if err := shard.DecodeTensor(c, got, one, d); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("tensor %d decodes differently on its own", tensor)
		}
	}
	wantError(t, shard.DecodeTensor(c, got, states, d), "4 tensors")
	wantError(t, shard.DecodeTensor(c, got[1:], states, d), "room for")
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
	_, err = shard.NewStateEncoder(c, make([]float32, 29), nil, code, nil)
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
