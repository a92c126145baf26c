package shard_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// encoded returns the states of all slots of a random layer.
func encoded(t *testing.T, c shard.Config, size int, code *coded.Code) (states []coded.ShardState, weight []float32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	weight = normal(rng, size)
	momentum := normal(rng, size)
	for slot := range code.N() {
		state, err := c.Encode(weight, momentum, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, coded.ShardState{Slot: slot, State: state})
	}
	return states, weight
}

// What is off in one entry of any tensor of any slot is found, and taken for what it
// is: of the weights or of the momenta.
func TestMeasureDrift(t *testing.T) {
	code := newCode(t, trigonometric(6, 4))
	d := coded.NewDecoder(code, coded.DecoderConfig{})
	for _, c := range []struct {
		shard.Config
		size int
	}{
		{shard.LinearConfig{In: 9, Out: 7, Backward: true}, 63},
		{shard.LinearConfig{In: 2, Out: 7}, 14},
		{shard.Conv2dConfig{In: 8, Out: 16, KernelH: 3, KernelW: 3, Stride: 1, Dilation: 1, Groups: 2, Backward: true}, 8 * 16 / 2 * 9},
	} {
		states, weight := encoded(t, c, c.size, code)
		m, err := shard.MeasureDrift(c, states, d, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The rounding of one decoding and one encoding.
		if e := difference(t, m.Weight, weight); !(e <= 5e-7 && m.Weights <= 5e-7 && m.Momenta <= 5e-7) {
			t.Errorf("%v: just encoded: weights drift by %.1e, momenta by %.1e; the weight is decoded with %.1e", c, m.Weights, m.Momenta, e)
		}
		for slot, s := range states {
			for q, x := range s.State {
				for _, off := range []float64{0.01, math.NaN()} {
					was := x.Data[0] // of a slot of some block, never padding
					x.Data[0] += float32(off)
					m, err := shard.MeasureDrift(c, states, d, nil)
					if err != nil {
						t.Fatal(err)
					}
					found, other := m.Weights, m.Momenta
					if q%2 == 1 {
						found, other = other, found
					}
					// Entries are normal: the largest is about 3, in F and R.
					if math.IsNaN(off) != math.IsNaN(found) || found < 1e-4 || found > 0.01 || !(other <= 5e-7) {
						t.Errorf("%v, slot %d, tensor %d off by %g: measured %g, and %g of the others", c, slot, q, off, found, other)
					}
					x.Data[0] = was
				}
			}
		}
		// F of a set that is just large enough is a codeword whatever it holds.
		states[1].State[0].Data[0] += 0.01
		m, err = shard.MeasureDrift(c, states[:4], d, nil)
		if err != nil {
			t.Fatal(err)
		}
		if hasR := len(states[0].State) == 4; hasR != (m.Weights > 1e-4) {
			t.Errorf("%v: 4 slots: weights drift by %.1e, with a copy R: %v", c, m.Weights, hasR)
		}
	}
}

func TestMeasureDriftRefuses(t *testing.T) {
	code := newCode(t, trigonometric(6, 4))
	c := shard.LinearConfig{In: 9, Out: 7, Backward: true}
	states, _ := encoded(t, c, 63, code)
	d := coded.NewDecoder(code, coded.DecoderConfig{})
	if _, err := shard.MeasureDrift(c, states[:3], d, nil); !errors.Is(err, coded.ErrTooFewResults) {
		t.Errorf("three states: %v, want an error of kind %v", err, coded.ErrTooFewResults)
	}
	states[2].State[2] = coded.NewTensor(3, 6)
	_, err := shard.MeasureDrift(c, states, d, nil)
	wantError(t, err, "9x7", "tensor 2 of slot 2", "[3 6]", "[3 7]")
}
