package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// EncodeLinear returns the state of the shard at a slot for a layer with the
// given weight and momentum, both [out, in] in row-major order; a nil momentum
// is zero.
func EncodeLinear(weight, momentum []float32, c LinearConfig, code *coded.Code, slot int) ([]coded.Tensor, error) {
	if err := c.Validate(code.K(), 1); err != nil {
		return nil, err
	}
	row := code.Row(slot)
	if row == nil {
		return nil, fmt.Errorf("shard: slot %d of code %v: it has no row in a generator", slot, code)
	}
	if want := c.In * c.Out; len(weight) != want || momentum != nil && len(momentum) != want {
		return nil, fmt.Errorf("shard: linear layer %dx%d: %d weights and %d momenta, want %d", c.In, c.Out, len(weight), len(momentum), want)
	}
	state := make([]coded.Tensor, 0, 4)
	for _, encode := range []func([]float32, LinearConfig, []float64) (coded.Tensor, error){encodeF, encodeR}[:c.copies()] {
		for _, x := range [][]float32{weight, momentum} {
			t, err := encode(x, c, row)
			if err != nil {
				return nil, fmt.Errorf("shard: linear layer %dx%d: %w", c.In, c.Out, err)
			}
			state = append(state, t)
		}
	}
	return state, nil
}

// encodeF combines blocks of output features, which are rows of x [out, in].
func encodeF(x []float32, c LinearConfig, row []float64) (coded.Tensor, error) {
	f, _ := c.sides(len(row))
	t := coded.NewTensor(f.rows, f.cols)
	if x == nil {
		return t, nil
	}
	return t, coded.EncodeRows(t, row, c.tensor(x), coded.Blocks(c.Out, len(row)))
}

// encodeR combines blocks of input features, which are columns of x [out, in],
// and makes them rows.
func encodeR(x []float32, c LinearConfig, row []float64) (coded.Tensor, error) {
	_, r := c.sides(len(row))
	t := coded.NewTensor(r.rows, r.cols)
	if x == nil {
		return t, nil
	}
	columns := coded.NewTensor(r.cols, r.rows)
	if err := coded.EncodeColumns(columns, row, c.tensor(x), coded.Blocks(c.In, len(row))); err != nil {
		return coded.Tensor{}, err
	}
	for o := range r.cols {
		for i, v := range columns.Data[o*r.rows : (o+1)*r.rows] {
			t.Data[i*r.cols+o] = v
		}
	}
	return t, nil
}

// tensor is x as a weight of the layer.
func (c LinearConfig) tensor(x []float32) coded.Tensor {
	return coded.Tensor{Shape: []int{c.Out, c.In}, Data: x}
}

// DecodeLinear returns the weight and the momentum, both [out, in], from the
// states of a sufficient set of slots after the same update, in the order of
// slots. It fails with an error of kind coded.ErrTooFewResults for a smaller set
// and of kind coded.ErrIllConditioned for one that amplifies rounding too much.
func DecodeLinear(states []coded.ShardState, c LinearConfig, d *coded.Decoder) (weight, momentum []float32, err error) {
	fail := func(err error) ([]float32, []float32, error) {
		return nil, nil, fmt.Errorf("shard: decode linear layer %dx%d: %w", c.In, c.Out, err)
	}
	code := d.Code()
	if err := c.Validate(code.K(), 1); err != nil {
		return nil, nil, err
	}
	have := make([]int, len(states))
	results := [2][]coded.Tensor{} // F and its momentum
	for i, s := range states {
		if len(s.State) != 2*c.copies() || i > 0 && s.Slot <= have[i-1] {
			return fail(fmt.Errorf("state %d is of slot %d and has %d tensors, want ascending slots and %d", i, s.Slot, len(s.State), 2*c.copies()))
		}
		have[i] = s.Slot
		results[0], results[1] = append(results[0], s.State[0]), append(results[1], s.State[1])
	}
	w, err := d.Weights(have)
	if err != nil {
		return fail(err)
	}
	decoded := [2][]float32{make([]float32, c.In*c.Out), make([]float32, c.In*c.Out)}
	for q, x := range decoded {
		if err := coded.DecodeRows(c.tensor(x), w.D, results[q], coded.Blocks(c.Out, code.K()), 0); err != nil {
			return fail(err)
		}
	}
	return decoded[0], decoded[1], nil
}
