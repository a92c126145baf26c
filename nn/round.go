package nn

import (
	"context"
	"errors"
	"fmt"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// A round of a placed layer is two nodes, or three: an encoding, where the
// operands of the slots differ; its start, which hands the operands over and
// returns at once; and its wait, which decodes the answers.

// roundSpec describes the start of a round.
type roundSpec struct {
	executor coded.Executor
	round    coded.Round
	kind     string
	// in has the operand of all slots, or, if slots is set, one or two tensors
	// [n, ..] with the operands of the n slots.
	in    []*gorgonia.Node
	slots bool
	// rows is the least number of samples of the operand of all slots: zeros are
	// added to fewer.
	rows int
	// decode, where the round is waited for after the run, decodes its result; see
	// pendingValue.resolve.
	decode decodeFunc
}

// decodeFunc writes the result of a round to out.
type decodeFunc func(rc *runContext, out []float32, chunks [][]coded.Answer) error

// pendingValue carries a round from its start to its wait. As a tensor it is
// one number without meaning, which the graph needs to give it a type.
type pendingValue struct {
	*tensor.Dense
	round  coded.Pending // nil after its wait
	decode decodeFunc    // of a future, nil otherwise
	rc     *runContext
}

// startRound adds the node that hands the operands to the workers.
func (g *Graph) startRound(s roundSpec) (*gorgonia.Node, error) {
	p := &pendingValue{Dense: newDense([]int{1}, make([]float32, 1)), decode: s.decode, rc: &g.run}
	operands := make([]coded.Tensor, len(s.in))
	for i, n := range s.in {
		operands[i].Shape = append([]int(nil), n.Shape()...)
	}
	var filled []float32
	if x := &operands[0]; x.Shape[0] < s.rows {
		x.Shape[0] = s.rows
		filled = make([]float32, tensor.Shape(x.Shape).TotalSize())
	}
	return g.apply(opSpec{
		layer: s.round.Layer, kind: s.kind, in: s.in, shape: []int{1},
		value: func(rc *runContext, in []gorgonia.Value, _ []float32) (gorgonia.Value, error) {
			p.release() // a run that failed may have left one
			r := s.round
			r.Step = rc.step
			for i, v := range in {
				data, err := floats(v)
				if err != nil {
					return nil, err
				}
				operands[i].Data = data
			}
			if filled != nil {
				copy(filled, operands[0].Data)
				operands[0].Data = filled
			}
			if s.slots {
				r.Slots = slotOperands(operands)
			} else {
				r.Operand = operands[0]
			}
			var err error
			if p.round, err = s.executor.Start(rc.ctx, r); err != nil {
				return nil, err
			}
			if r.Discard {
				p.release()
			}
			return p, nil
		},
	})
}

// slotOperands gives every slot its part of the operands.
func slotOperands(operands []coded.Tensor) [][]coded.Tensor {
	var slots [][]coded.Tensor
	for _, x := range operands {
		for slot, t := range shard.Slots(nil, x) {
			if slot == len(slots) {
				slots = append(slots, nil)
			}
			slots[slot] = append(slots[slot], t)
		}
	}
	return slots
}

func (p *pendingValue) release() {
	if p.round != nil {
		p.round.Release()
		p.round = nil
	}
}

// finish waits for the round and decodes it.
func (p *pendingValue) finish(ctx context.Context, out []float32, decode decodeFunc) error {
	if p.round == nil {
		return errors.New("the round is not under way")
	}
	defer p.release()
	chunks, err := p.round.Wait(ctx)
	if err != nil {
		return err
	}
	return decode(p.rc, out, chunks)
}

// resolve is finish for a future: a gradient whose node is the start of its round,
// so that nothing waits for it before the optimiser does.
func (p *pendingValue) resolve(ctx context.Context, out []float32) error {
	if p.decode == nil {
		return errors.New("a round whose result is not wanted")
	}
	return p.finish(ctx, out, p.decode)
}

// waitFor returns the operation that waits for a round, its first input, and
// decodes its result into the operation's output. Its other inputs are there to keep
// the operands unchanged meanwhile.
func waitFor(decode decodeFunc) func(*runContext, []gorgonia.Value, []float32) (gorgonia.Value, error) {
	return func(rc *runContext, in []gorgonia.Value, out []float32) (gorgonia.Value, error) {
		p, ok := in[0].(*pendingValue)
		if !ok {
			return nil, fmt.Errorf("a %T that is no round under way", in[0])
		}
		return nil, p.finish(rc.ctx, out, decode)
	}
}
