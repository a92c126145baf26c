package nn

import (
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// Shipped is the placement of layers whose products are coded on both sides: each
// worker is sent one coded block (or a few) of either factor of each product, forward,
// dX and dW, and keeps nothing. The code is any for C = A B of package coded; see
// shard.Shipped for how a layer's products are of that form. The weights stay local
// parameters, of any optimiser. All that is multiplied travels: this is for research on
// codes, and for layers with much work for each byte.
//
// One Shipped may hold any number of layers; it must not be copied after Place.
type Shipped struct {
	Executor coded.Executor
	Code     coded.Spec // one of two coded factors, such as ortho-polynomial
	// Chunks into which each worker's share of a product is cut, at least 1.
	Chunks int
	// MaxCond is as in Resident.
	MaxCond float64
	// InputGrad is as in Resident: it asks for a layer with enough outputs to cut them for dX.
	InputGrad bool

	layers placedLayers
}

var _ Placement = (*Shipped)(nil)

const encodeGradient = "encode weight gradient"

// Product implements Placement. The nodes are
//
//	x, w -> encode each -> forward start -> forward wait and decode = product with w
//	dy, w -> encode each -> backward start -> backward wait and decode
//	dy, x -> encode each -> weight gradient start
//
// The last round is waited for when the optimiser wants it.
func (s *Shipped) Product(g *Graph, p Product, x *gorgonia.Node) (*gorgonia.Node, error) {
	l, err := s.layers.use(g, p, x)
	if err != nil {
		return nil, err
	}
	w, err := g.Param(p.Weight)
	if err != nil {
		return nil, err
	}
	n := shippedNodes{Graph: g, layer: l}
	started, err := n.start(coded.Forward, x, w)
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: p.Layer, kind: forwardWait, in: []*gorgonia.Node{started, x, w}, shape: p.Output, diff: []bool{false, true, true},
		value: waitFor(n.decode(coded.Forward, x.Shape(), p.Output)),
		grad: func(_ *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			return n.backward(x, w, dy, want)
		},
	})
}

// shippedNodes adds the nodes of a layer to a graph.
type shippedNodes struct {
	*Graph
	layer *placedLayer
}

// backward adds the gradients of the inputs of the forward wait: its start, x and w.
// Both rounds are started before anything is waited for.
func (n shippedNodes) backward(x, w, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
	grads := make([]*gorgonia.Node, len(want))
	var started *gorgonia.Node
	var err error
	if want[1] {
		if started, err = n.start(coded.Backward, dy, w); err != nil {
			return nil, err
		}
	}
	if want[2] {
		if grads[2], err = n.start(coded.Gradient, dy, x); err != nil {
			return nil, err
		}
	}
	if want[1] {
		grads[1], err = n.apply(opSpec{
			layer: n.layer.Name, kind: backwardWait, in: []*gorgonia.Node{started, dy, w}, shape: x.Shape(),
			value: waitFor(n.decode(coded.Backward, dy.Shape(), x.Shape())),
		})
	}
	return grads, err
}

// start adds the nodes that encode the factors of a product and hand them to the
// workers. The round of the gradient is a future.
func (n shippedNodes) start(p coded.Product, a, b *gorgonia.Node) (*gorgonia.Node, error) {
	kinds := map[coded.Product][2]string{
		coded.Forward: {encodeForward, forwardStart}, coded.Backward: {encodeBackward, backwardStart}, coded.Gradient: {encodeGradient, gradientStart},
	}
	s := roundSpec{executor: n.layer.executor, round: coded.Round{Layer: n.layer.Name, Product: p}, kind: kinds[p][1], slots: true}
	for i, factor := range []*gorgonia.Node{a, b} {
		blocks, err := n.encode(kinds[p][0], p, shard.Factor(i), factor)
		if err != nil {
			return nil, err
		}
		s.in = append(s.in, blocks)
	}
	if p == coded.Gradient {
		s.decode = n.decode(p, a.Shape(), nil)
	}
	return n.startRound(s)
}

// encode adds the node of the coded blocks of a factor for all slots.
func (n shippedNodes) encode(kind string, p coded.Product, f shard.Factor, x *gorgonia.Node) (*gorgonia.Node, error) {
	coder := shard.NewFactorCoder(n.layer.config, n.layer.decoder.Code(), p, f)
	shape := slices.Clone([]int(x.Shape()))
	return n.apply(opSpec{
		layer: n.layer.Name, kind: kind, in: []*gorgonia.Node{x}, shape: coder.Shape(shape),
		run: func(rc *runContext, in [][]float32, out []float32) error {
			return coder.Encode(rc.pool, out, coded.Tensor{Shape: shape, Data: in[0]})
		},
	})
}

// decode returns what decodes the answers to a round with A of a shape; the result of a
// gradient has the shape of the weight.
func (n shippedNodes) decode(p coded.Product, a, result []int) decodeFunc {
	d := shard.NewShippedDecoder(n.layer.Layer, n.layer.config, n.layer.decoder, p)
	if p == coded.Gradient {
		result = d.WeightShape()
	}
	return func(rc *runContext, out []float32, chunks [][]coded.Answer) error {
		return d.Decode(rc.pool, coded.Tensor{Shape: result, Data: out}, a, chunks)
	}
}
