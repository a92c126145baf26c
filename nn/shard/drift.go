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
	slots := make([]int, len(states))
	for i, s := range states {
		slots[i] = s.Slot
	}
	anew, err := encode(c, m.Weight, m.Momentum, d.Code(), slots, pool)
	if err != nil {
		return m, err
	}
	for q := range anew[0] {
		worst := &m.Weights
		if q%2 == 1 {
			worst = &m.Momenta
		}
		apart, err := apartOf(states, anew, q)
		if err != nil {
			return m, fmt.Errorf("shard: drift of %v: %w", c, err)
		}
		*worst = max(*worst, apart)
	}
	return m, nil
}

// apartOf compares tensor q of all states with that of the encodings. A number that
// is none makes the difference one.
func apartOf(states []coded.ShardState, anew [][]coded.Tensor, q int) (float64, error) {
	var most, apart float64
	for i, s := range states {
		if have, want := s.State[q], anew[i][q]; !shaped(have, want.Shape) {
			return 0, fmt.Errorf("tensor %d of slot %d has shape %v and %d values, want %v", q, s.Slot, have.Shape, len(have.Data), want.Shape)
		}
		for j, want := range anew[i][q].Data {
			most = max(most, math.Abs(float64(want)))
			apart = max(apart, math.Abs(float64(s.State[q].Data[j])-float64(want)))
		}
	}
	if most == 0 {
		return apart, nil
	}
	return apart / most, nil
}
