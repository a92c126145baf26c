package shard

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Drift tells how far the coded copies of a layer are from the encoding of one
// weight and one momentum. They are updated in coded form, each with its own
// rounding: after T steps with gradients of the size of the weights times LR, about
// sqrt(T) times 6e-8 of the largest entry are to be expected.
type Drift struct {
	// Weight and Momentum are decoded from the copies F of all states, by least
	// squares if there are more than needed.
	Weight, Momentum []float32
	// Weights and Momenta are the largest differences between a copy, F or R, and
	// that of the encoding, over the largest entry of the encodings of its kind. That
	// of momenta does not grow: what rounding does to them is forgotten with them.
	Weights, Momenta float64
}

// MeasureDrift decodes the states of a sufficient set of slots, encodes the result
// and compares. If the set is no larger than it needs to be, any F would do, and
// only R can differ. The pool may be nil: then it computes on the goroutine of its
// caller. Errors are those of Config.Decode.
func MeasureDrift(c Config, states []coded.ShardState, d *coded.Decoder, pool *kernel.Pool) (Drift, error) {
	var m Drift
	var err error
	if m.Weight, m.Momentum, err = c.Decode(states, d); err != nil {
		return m, err
	}
	e, err := NewStateEncoder(c, m.Weight, m.Momentum, d.Code(), pool)
	if err != nil {
		return m, err
	}
	var gaps [4]gap // by tensor
	for _, s := range states {
		anew, err := e.Encode(s.Slot)
		if err != nil {
			return m, err
		}
		for q, want := range anew {
			if have := s.State[q]; !shaped(have, want.Shape) {
				return m, fmt.Errorf("shard: drift of %v: tensor %d of slot %d has shape %v and %d values, want %v", c, q, s.Slot, have.Shape, len(have.Data), want.Shape)
			}
			gaps[q].add(s.State[q].Data, want.Data)
		}
	}
	for q, g := range gaps {
		worst := &m.Weights
		if q%2 == 1 {
			worst = &m.Momenta
		}
		*worst = max(*worst, g.relative())
	}
	return m, nil
}

// gap is how far tensors are from what they should be.
type gap struct{ apart, most float64 }

// add compares one. A number that is none makes the difference one.
func (g *gap) add(have, want []float32) {
	for i, v := range want {
		g.most = max(g.most, math.Abs(float64(v)))
		g.apart = max(g.apart, math.Abs(float64(have[i])-float64(v)))
	}
}

// relative is the largest difference over the largest entry, if that is not 0.
func (g gap) relative() float64 {
	if g.most == 0 {
		return g.apart
	}
	return g.apart / g.most
}
