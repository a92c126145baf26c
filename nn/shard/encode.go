package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// encoder writes coded copies of x, which has the layout of the layer's parameter,
// one for each row of coefficients.
type encoder func(p *kernel.Pool, dst []coded.Tensor, x []float32, rows [][]float64) error

// StateEncoder encodes the shards of a layer, slot after slot, in memory that it uses
// again: whoever places a large layer holds the state of one slot, not of all. One
// goroutine uses it.
type StateEncoder struct {
	config   Config
	code     *coded.Code
	pool     *kernel.Pool
	weight   []float32
	momentum []float32
	state    []coded.Tensor // nil before the first slot
}

// NewStateEncoder returns the encoder of a layer with the given weight and momentum, in
// the layout of the layer's parameter; a nil momentum is zero. They are borrowed. The
// pool may be nil: then it computes on the goroutine of its caller. The states have the
// same bits whatever the pool.
func NewStateEncoder(c Config, weight, momentum []float32, code *coded.Code, pool *kernel.Pool) (*StateEncoder, error) {
	if err := c.Validate(code.K(), 1); err != nil {
		return nil, err
	}
	if size := c.size(); len(weight) != size || momentum != nil && len(momentum) != size {
		return nil, fmt.Errorf("shard: %v: %d weights and %d momenta, want %d", c, len(weight), len(momentum), size)
	}
	return &StateEncoder{config: c, code: code, pool: pool, weight: weight, momentum: momentum}, nil
}

// Encode returns the state of a slot: F and R, if the layer keeps one, each followed by
// its momentum unless that was given as nil. A shard's SetState takes both forms. The
// tensors are borrowed until the next call.
func (e *StateEncoder) Encode(slot int) ([]coded.Tensor, error) {
	row := e.code.Row(slot)
	if row == nil {
		return nil, fmt.Errorf("shard: slot %d of code %v: it has no row in a generator", slot, e.code)
	}
	e.reserve()
	next := e.state
	for i, encode := range e.config.encoders() {
		for _, x := range [][]float32{e.weight, e.momentum} {
			if x == nil || len(next) == 0 { // no R is kept
				continue
			}
			if err := encode(e.pool, next[:1], x, [][]float64{row}); err != nil {
				return nil, fmt.Errorf("shard: %v: copy %d: %w", e.config, i, err)
			}
			next = next[1:]
		}
	}
	return e.state, nil
}

// reserve makes the tensors of a state.
func (e *StateEncoder) reserve() {
	if e.state != nil {
		return
	}
	f, r := e.config.copies(e.code.K())
	for _, shape := range [][]int{f, r} {
		if shape == nil {
			continue
		}
		e.state = append(e.state, coded.NewTensor(shape...))
		if e.momentum != nil {
			e.state = append(e.state, coded.NewTensor(shape...))
		}
	}
}

// encodeOne is the Encode of every kind.
func encodeOne(c Config, weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	e, err := NewStateEncoder(c, weight, momentum, code, nil)
	if err != nil {
		return nil, err
	}
	state, err := e.Encode(slot)
	if err != nil || momentum != nil {
		return state, err
	}
	var whole []coded.Tensor
	for _, t := range state {
		whole = append(whole, t, coded.NewTensor(t.Shape...))
	}
	return whole, nil
}

// decode is the Decode of every kind.
func decode(c Config, states []coded.ShardState, d *coded.Decoder) (weight, momentum []float32, err error) {
	weight, momentum = make([]float32, c.size()), make([]float32, c.size())
	tensors := 2
	if _, r := c.copies(d.Code().K()); r != nil {
		tensors = 4
	}
	for q, dst := range [][]float32{weight, momentum} {
		if err := decodeTensor(c, dst, states, d, q, tensors); err != nil {
			return nil, nil, err
		}
	}
	return weight, momentum, nil
}

// Of a shard's state, these are the tensors that a layer is decoded from: the coded copy F
// and its momentum.
const (
	TensorWeight   = 0
	TensorMomentum = 1
)

// DecodeTensor writes the weight of a layer, or its momentum, to dst, from that tensor of
// the states of a sufficient set of slots after the same update, in the order of slots:
// each state holds nothing else. Errors are those of Config.Decode; dst is unchanged then.
func DecodeTensor(c Config, dst []float32, states []coded.ShardState, d *coded.Decoder) error {
	if size := c.size(); len(dst) != size {
		return fmt.Errorf("shard: decode %v: room for %d values, want %d", c, len(dst), size)
	}
	return decodeTensor(c, dst, states, d, 0, 1)
}

// decodeTensor decodes from tensor q of the states, which have so many.
func decodeTensor(c Config, dst []float32, states []coded.ShardState, d *coded.Decoder, q, tensors int) error {
	fail := func(err error) error { return fmt.Errorf("shard: decode %v: %w", c, err) }
	if err := c.Validate(d.Code().K(), 1); err != nil {
		return err
	}
	f, _ := c.copies(d.Code().K())
	have, results := make([]int, len(states)), make([]coded.Tensor, len(states))
	for i, s := range states {
		if len(s.State) != tensors || i > 0 && s.Slot <= have[i-1] {
			return fail(fmt.Errorf("state %d is of slot %d and has %d tensors, want ascending slots and %d", i, s.Slot, len(s.State), tensors))
		}
		have[i], results[i] = s.Slot, s.State[q]
		if t := s.State[q]; !shaped(t, f) {
			return fail(fmt.Errorf("state %d: tensor %d has shape %v and %d values, want %v", i, q, t.Shape, len(t.Data), f))
		}
	}
	w, err := d.Weights(have)
	if err != nil {
		return fail(err)
	}
	if err := c.decodeF(dst, w.D, results); err != nil {
		return fail(err)
	}
	return nil
}
