package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// encoder writes one coded copy of x, which has the layout of the layer's
// parameter, with the coefficients of a slot.
type encoder func(dst coded.Tensor, x []float32, row []float64) error

// encode is the Encode of every kind: encoders are those of F and R, size that
// of the layer's parameter.
func encode(c Config, size int, encoders []encoder, weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	if err := c.Validate(code.K(), 1); err != nil {
		return nil, err
	}
	row := code.Row(slot)
	if row == nil {
		return nil, fmt.Errorf("shard: slot %d of code %v: it has no row in a generator", slot, code)
	}
	if len(weight) != size || momentum != nil && len(momentum) != size {
		return nil, fmt.Errorf("shard: %v: %d weights and %d momenta, want %d", c, len(weight), len(momentum), size)
	}
	f, r := c.copies(code.K())
	state := make([]coded.Tensor, 0, 4)
	for i, shape := range [][]int{f, r} {
		if shape == nil {
			break
		}
		for _, x := range [][]float32{weight, momentum} {
			t := coded.NewTensor(shape...)
			if x != nil {
				if err := encoders[i](t, x, row); err != nil {
					return nil, fmt.Errorf("shard: %v: %w", c, err)
				}
			}
			state = append(state, t)
		}
	}
	return state, nil
}

// decode is the Decode of every kind: combine decodes a tensor of the layer from
// tensors of the kind of F.
func decode(c Config, size int, states []coded.ShardState, d *coded.Decoder,
	combine func(dst []float32, weights [][]float64, f []coded.Tensor) error) (weight, momentum []float32, err error) {
	fail := func(err error) ([]float32, []float32, error) {
		return nil, nil, fmt.Errorf("shard: decode %v: %w", c, err)
	}
	if err := c.Validate(d.Code().K(), 1); err != nil {
		return nil, nil, err
	}
	f, r := c.copies(d.Code().K())
	tensors := 2
	if r != nil {
		tensors = 4
	}
	have := make([]int, len(states))
	results := [2][]coded.Tensor{} // F and its momentum
	for i, s := range states {
		if len(s.State) != tensors || i > 0 && s.Slot <= have[i-1] {
			return fail(fmt.Errorf("state %d is of slot %d and has %d tensors, want ascending slots and %d", i, s.Slot, len(s.State), tensors))
		}
		have[i] = s.Slot
		for q := range results {
			if t := s.State[q]; !shaped(t, f) {
				return fail(fmt.Errorf("state %d: tensor %d has shape %v and %d values, want %v", i, q, t.Shape, len(t.Data), f))
			}
			results[q] = append(results[q], s.State[q])
		}
	}
	w, err := d.Weights(have)
	if err != nil {
		return fail(err)
	}
	decoded := [2][]float32{make([]float32, size), make([]float32, size)}
	for q, x := range decoded {
		if err := combine(x, w.D, results[q]); err != nil {
			return fail(err)
		}
	}
	return decoded[0], decoded[1], nil
}
