package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// encoder writes coded copies of x, which has the layout of the layer's parameter,
// one for each row of coefficients.
type encoder func(p *kernel.Pool, dst []coded.Tensor, x []float32, rows [][]float64) error

// EncodeAll is Config.Encode for all slots of a code at once: the weight is read
// once, not once for each of them. The pool may be nil: then it computes on the
// goroutine of its caller. The states have the same bits whatever the pool.
func EncodeAll(c Config, weight, momentum []float32, code *coded.Code, pool *kernel.Pool) ([][]coded.Tensor, error) {
	slots := make([]int, code.N())
	for slot := range slots {
		slots[slot] = slot
	}
	return encode(c, weight, momentum, code, slots, pool)
}

// encodeOne is the Encode of every kind.
func encodeOne(c Config, weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	states, err := encode(c, weight, momentum, code, []int{slot}, nil)
	if err != nil {
		return nil, err
	}
	return states[0], nil
}

// encode returns the states of some slots.
func encode(c Config, weight, momentum []float32, code *coded.Code, slots []int, pool *kernel.Pool) ([][]coded.Tensor, error) {
	if err := c.Validate(code.K(), 1); err != nil {
		return nil, err
	}
	rows := make([][]float64, len(slots))
	for i, slot := range slots {
		if rows[i] = code.Row(slot); rows[i] == nil {
			return nil, fmt.Errorf("shard: slot %d of code %v: it has no row in a generator", slot, code)
		}
	}
	size := c.size()
	if len(weight) != size || momentum != nil && len(momentum) != size {
		return nil, fmt.Errorf("shard: %v: %d weights and %d momenta, want %d", c, len(weight), len(momentum), size)
	}
	states := make([][]coded.Tensor, len(slots))
	encoders := c.encoders()
	f, r := c.copies(code.K())
	for i, shape := range [][]int{f, r} {
		if shape == nil {
			break
		}
		for _, x := range [][]float32{weight, momentum} {
			copies := make([]coded.Tensor, len(slots))
			for j := range copies {
				copies[j] = coded.NewTensor(shape...)
				states[j] = append(states[j], copies[j])
			}
			if x == nil {
				continue
			}
			if err := encoders[i](pool, copies, x, rows); err != nil {
				return nil, fmt.Errorf("shard: %v: %w", c, err)
			}
		}
	}
	return states, nil
}

// decode is the Decode of every kind: combine decodes a tensor of the layer from
// tensors of the kind of F.
func decode(c Config, states []coded.ShardState, d *coded.Decoder,
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
	decoded := [2][]float32{make([]float32, c.size()), make([]float32, c.size())}
	for q, x := range decoded {
		if err := combine(x, w.D, results[q]); err != nil {
			return fail(err)
		}
	}
	return decoded[0], decoded[1], nil
}
