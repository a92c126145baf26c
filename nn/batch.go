package nn

import (
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// Batch is the placement of layers with coded batch blocks: each worker has the
// whole weights and is sent one combination of the blocks of X, or dY, a k-th of
// their size. Any set of the code's answers decodes Y and dX. The weights stay
// local parameters, of any optimiser, and are sent when they have changed (see
// UpdatePlaced). It is meant for convolutions, of small weights and large
// activations.
//
// One Batch may hold any number of layers; it must not be copied after Place.
type Batch struct {
	Executor coded.Executor
	Code     coded.Spec // a one-sided code
	// Gradient is the code of the gradient of the weights over the batch, with as many
	// tasks as Code. It may be one of a sum of k products with the same blocks, which
	// are not sent once more: trigonometric-matdot, if Code is trigonometric, decodes
	// from any min(n, 2k-1) answers. Or it is one for sums of gradients, such as
	// cyclic-reed-solomon: slots are sent Load of its K parts of X and dY as they are,
	// and any n-s answers are enough where Load is (s+1)K/n. Without a name the
	// gradient is computed here, from X and dY, which is cheaper unless this process
	// is the bottleneck.
	Gradient coded.Spec
	// Chunks into which each worker's share of a product is cut, at least 1.
	Chunks int
	// MaxCond is as in Resident.
	MaxCond float64
	// InputGrad is as in Resident.
	InputGrad bool

	layers placedLayers
}

var _ Placement = (*Batch)(nil)

// batchGradient is the layer of the coded gradient.
type batchGradient struct {
	coded.Layer
	decoder *coded.Decoder
	parts   bool // the code is one for sums of gradients: see shard.PartsCoder
}

const (
	encodeForward  = "encode batch"
	encodeBackward = "encode gradient of batch"
	encodeX        = "parts of batch"
	encodeDY       = "parts of gradient of batch"
	gradientStart  = "weight gradient start"
)

// Product implements Placement. The nodes are
//
//	x -> encode -> forward start -> forward wait and decode = product with w
//	dy -> encode -> backward start -> backward wait and decode
//
// and for the gradient of w either its product here, or a start, of these encoded
// operands or of parts of both, whose round is waited for when the optimiser wants it.
func (b *Batch) Product(g *Graph, p Product, x *gorgonia.Node) (*gorgonia.Node, error) {
	l, err := b.layers.use(g, p, x)
	if err != nil {
		return nil, err
	}
	w, err := g.Param(p.Weight)
	if err != nil {
		return nil, err
	}
	n := batchNodes{Graph: g, layer: l, product: p, x: x}
	if n.coded, err = n.encode(encodeForward, coded.Forward, x); err != nil {
		return nil, err
	}
	started, err := g.startRound(roundSpec{
		executor: l.executor, round: n.round(coded.Forward, x), kind: forwardStart, in: []*gorgonia.Node{n.coded}, slots: true,
	})
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: p.Layer, kind: forwardWait, in: []*gorgonia.Node{started, x, w}, shape: p.Output, diff: []bool{false, true, true},
		value: waitFor(l.decodeBatch(coded.Forward, x.Shape(), p.Output)),
		grad: func(_ *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			return n.backward(dy, want)
		},
	})
}

// batchNodes adds the nodes of a layer to a graph.
type batchNodes struct {
	*Graph
	layer   *placedLayer
	product Product
	x       *gorgonia.Node
	coded   *gorgonia.Node // the coded blocks of x
}

// encode adds the node of the coded blocks of all slots.
func (n *batchNodes) encode(kind string, p coded.Product, x *gorgonia.Node) (*gorgonia.Node, error) {
	return n.encodeWith(n.coder(p), kind, x)
}

func (n *batchNodes) coder(p coded.Product) *shard.BatchCoder {
	return shard.NewBatchCoder(n.layer.Layer, n.layer.config, n.layer.decoder, p)
}

// round is that of a product of x.
func (n *batchNodes) round(p coded.Product, x *gorgonia.Node) coded.Round {
	return coded.Round{Layer: n.layer.Name, Product: p, ByRows: n.coder(p).ByRows(x.Shape())}
}

// slotCoder gives the operands of all slots: [n, ..].
type slotCoder interface {
	Shape(operand []int) []int
	Encode(pool *kernel.Pool, dst []float32, x coded.Tensor) error
}

func (n *batchNodes) encodeWith(coder slotCoder, kind string, x *gorgonia.Node) (*gorgonia.Node, error) {
	shape := slices.Clone([]int(x.Shape()))
	return n.apply(opSpec{
		layer: n.product.Layer, kind: kind, in: []*gorgonia.Node{x}, shape: coder.Shape(shape),
		run: func(rc *runContext, in [][]float32, out []float32) error {
			return coder.Encode(rc.pool, out, coded.Tensor{Shape: shape, Data: in[0]})
		},
	})
}

// backward adds the gradients of the inputs of the forward wait: its start, x
// and w. Both rounds are started before anything is waited for.
func (n *batchNodes) backward(dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
	grads := make([]*gorgonia.Node, len(want))
	l := n.layer
	ofBlocks := want[2] && l.gradient != nil && !l.gradient.parts
	var blocks, started *gorgonia.Node
	var err error
	if want[1] || ofBlocks {
		if blocks, err = n.encode(encodeBackward, coded.Backward, dy); err != nil {
			return nil, err
		}
	}
	if want[1] {
		started, err = n.startRound(roundSpec{
			executor: l.executor, round: n.round(coded.Backward, dy), kind: backwardStart, in: []*gorgonia.Node{blocks}, slots: true,
		})
		if err != nil {
			return nil, err
		}
	}
	if want[2] {
		if grads[2], err = n.weightGradient(blocks, dy); err != nil {
			return nil, err
		}
	}
	if want[1] {
		grads[1], err = n.apply(opSpec{
			layer: l.Name, kind: backwardWait, in: []*gorgonia.Node{started, dy}, shape: n.x.Shape(),
			value: waitFor(l.decodeBatch(coded.Backward, dy.Shape(), n.x.Shape())),
		})
	}
	return grads, err
}

// weightGradient adds the gradient of w, on the workers or here.
func (n *batchNodes) weightGradient(blocks, dy *gorgonia.Node) (*gorgonia.Node, error) {
	if gr := n.layer.gradient; gr != nil {
		d, err := shard.NewGradientDecoder(gr.Layer, n.layer.config, gr.decoder)
		if err != nil {
			return nil, err
		}
		factors := []*gorgonia.Node{blocks, n.coded}
		if gr.parts {
			if factors, err = n.parts(gr, dy); err != nil {
				return nil, err
			}
		}
		return n.startRound(roundSpec{
			executor: n.layer.executor, round: coded.Round{Layer: gr.Name, Product: coded.Gradient}, kind: gradientStart,
			in: factors, slots: true,
			decode: func(rc *runContext, out []float32, chunks [][]coded.Answer) error {
				return d.Decode(rc.pool, out, chunks)
			},
		})
	}
	if n.product.Conv == nil {
		return n.Graph.product(n.product.Layer, "linear backward weight", dy, n.x, true, false)
	}
	c, err := n.product.Conv.kernel(n.product.Layer, n.product.Weight.Value.Shape, n.x.Shape())
	if err != nil {
		return nil, err
	}
	dw, _, err := n.convBackwardParams(n.product.Layer, c, n.x, dy, false)
	return dw, err
}

// parts adds the nodes of both factors of a gradient by its parts.
func (n *batchNodes) parts(gr *batchGradient, dy *gorgonia.Node) ([]*gorgonia.Node, error) {
	var factors []*gorgonia.Node
	for _, f := range []struct {
		kind     string
		from     *gorgonia.Node
		weighted bool
	}{{encodeDY, dy, true}, {encodeX, n.x, false}} {
		coder, err := shard.NewPartsCoder(gr.decoder.Code(), f.weighted)
		if err != nil {
			return nil, err
		}
		node, err := n.encodeWith(coder, f.kind, f.from)
		if err != nil {
			return nil, err
		}
		factors = append(factors, node)
	}
	return factors, nil
}

// decodeBatch returns what decodes the answers to a round with an operand of a shape.
func (l *placedLayer) decodeBatch(product coded.Product, operand, result []int) decodeFunc {
	d := shard.NewBatchCoder(l.Layer, l.config, l.decoder, product)
	return func(rc *runContext, out []float32, chunks [][]coded.Answer) error {
		return d.Decode(rc.pool, coded.Tensor{Shape: result, Data: out}, operand, chunks)
	}
}
