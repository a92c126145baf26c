package nn

import (
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// Resident is the placement of layers whose weights live on the workers of an
// executor, in coded form, and are trained there: only activations and their
// gradients travel. Place puts the weights there and Sync fetches them back.
//
// One Resident may hold any number of layers; it must not be copied after Place.
// A layer can be used once in a model's Forward.
type Resident struct {
	Executor coded.Executor
	Code     coded.Spec
	// Chunks into which each worker's share of a product is cut, at least 1; a
	// layer with fewer features in a block has one chunk for each.
	Chunks int
	// MaxCond is the condition number of a set of answers above which a step
	// fails with an error of kind coded.ErrIllConditioned; 0 means
	// coded.DefaultMaxCond.
	MaxCond float64
	// InputGrad keeps the coded copy for dX also in a layer with no trainable
	// parameter before it in the model, in the order of Params. It is needed
	// only where Forward calls layers in another order.
	InputGrad bool
	// ByBatch cuts products by samples in place of features: in inference, a task then
	// brings the samples that it needs, and no worker is sent a batch of which it
	// computes little. It is for frozen weights (in training, workers keep whole
	// operands anyway) and for batches of at least Chunks samples: smaller ones are
	// filled up with zeros.
	ByBatch bool

	layers placedLayers
}

var _ Placement = (*Resident)(nil)

const (
	forwardStart  = "forward start"
	forwardWait   = "forward wait and decode"
	backwardStart = "backward start"
	backwardWait  = "backward wait and decode"
)

// Product implements Placement. The nodes are
//
//	x -> forward start -> forward wait and decode = x·Wᵀ
//	dy -> backward start -> backward wait and decode = dy·W
//
// A start hands its operand to the workers and returns at once. The second wait
// is left out where the gradient of x is not wanted. The second start is there
// even so if the weight is trained, because the workers make its gradient from
// x and dy; a ticket makes it a gradient of the first wait.
func (r *Resident) Product(g *Graph, p Product, x *gorgonia.Node) (*gorgonia.Node, error) {
	layer, weight := p.Layer, p.Weight
	l, err := r.layers.use(g, p, x)
	if err != nil {
		return nil, err
	}
	train := g.Training() && !weight.Frozen
	round := coded.Round{Layer: layer, Product: coded.Forward, Keep: train}
	started, err := g.startRound(roundSpec{executor: l.executor, round: round, kind: forwardStart, in: []*gorgonia.Node{x}, rows: l.leastRows()})
	if err != nil {
		return nil, err
	}
	in := []*gorgonia.Node{started, x}
	if train {
		ticket, err := g.ticket(layer)
		if err != nil {
			return nil, err
		}
		in = append(in, ticket)
	}
	return g.apply(opSpec{
		layer: layer, kind: forwardWait, in: in, shape: p.Output,
		diff:  []bool{false, true, true}[:len(in)],
		value: waitFor(l.decode(coded.Forward, x.Shape(), p.Output)),
		grad: func(g *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			return g.residentGrad(l, p, x, dy, want)
		},
	})
}

// residentGrad adds the backward product for the inputs of a forward wait:
// its start, x and, if the weight is trained, the ticket.
func (g *Graph) residentGrad(l *placedLayer, p Product, x, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
	grads := make([]*gorgonia.Node, len(want))
	train := len(want) > 2
	round := coded.Round{Layer: l.Name, Product: coded.Backward, Keep: train, Discard: !want[1]}
	started, err := g.startRound(roundSpec{executor: l.executor, round: round, kind: backwardStart, in: []*gorgonia.Node{dy}, rows: l.leastRows()})
	if err != nil {
		return nil, err
	}
	if train {
		grads[2] = started
		if err := g.gradNorm(p, x, dy); err != nil {
			return nil, err
		}
	}
	if want[1] {
		grads[1], err = g.apply(opSpec{
			layer: l.Name, kind: backwardWait, in: []*gorgonia.Node{started, dy}, shape: x.Shape(),
			value: waitFor(l.decode(coded.Backward, dy.Shape(), x.Shape())),
		})
	}
	return grads, err
}

// decode returns what decodes the answers to a round with an operand of a shape.
func (l *placedLayer) decode(product coded.Product, operand, result []int) decodeFunc {
	d := shard.NewProductDecoder(l.Layer, l.config, l.decoder, product)
	rows := l.leastRows()
	if operand[0] >= rows {
		return func(_ *runContext, out []float32, chunks [][]coded.Answer) error {
			return d.Decode(coded.Tensor{Shape: result, Data: out}, operand, chunks)
		}
	}
	operand = append([]int{rows}, operand[1:]...)
	filled := coded.NewTensor(append([]int{rows}, result[1:]...)...)
	return func(_ *runContext, out []float32, chunks [][]coded.Answer) error {
		err := d.Decode(filled, operand, chunks)
		copy(out, filled.Data)
		return err
	}
}

// leastRows is how many samples an operand must have.
func (l *placedLayer) leastRows() int {
	if l.ByBatch {
		return l.Chunks
	}
	return 1
}
