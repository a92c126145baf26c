package nn

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
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
	// Gradient is the code of the gradient of the weights over the batch blocks:
	// one of a sum of k products, with as many tasks as Code and the same blocks:
	// trigonometric-matdot, if Code is trigonometric, decodes from any min(n, 2k-1)
	// answers. Without a name the gradient is computed here, from X and dY, which is
	// cheaper unless this process is the bottleneck.
	Gradient coded.Spec
	// Chunks into which each worker's share of a product is cut, at least 1.
	Chunks int
	// MaxCond is as in Resident.
	MaxCond float64
	// InputGrad is as in Resident.
	InputGrad bool

	layers map[*Param]*batchLayer // by weight
}

var _ Placement = (*Batch)(nil)

// batchLayer is a layer that was placed.
type batchLayer struct {
	coded.Layer
	executor coded.Executor
	config   shard.Config
	backward bool
	decoder  *coded.Decoder
	gradient *batchGradient // nil: computed here
}

// batchGradient is the layer of the coded gradient.
type batchGradient struct {
	coded.Layer
	decoder *coded.Decoder
}

const (
	encodeForward  = "encode batch"
	encodeBackward = "encode gradient of batch"
	gradientStart  = "weight gradient start"
)

// Product implements Placement. The nodes are
//
//	x -> encode -> forward start -> forward wait and decode = product with w
//	dy -> encode -> backward start -> backward wait and decode
//
// and for the gradient of w either its product here, or a start whose round is
// waited for when the optimiser wants it.
func (b *Batch) Product(g *Graph, p Product, x *gorgonia.Node) (*gorgonia.Node, error) {
	l := b.layers[p.Weight]
	if l == nil {
		return nil, fmt.Errorf("nn: layer %s has not been placed: call Place before the first step", p.Layer)
	}
	if l.Name != p.Layer {
		return nil, fmt.Errorf("nn: layer %s has been placed as %s: it must be used in the model that Place was given", p.Layer, l.Name)
	}
	if err := g.once(p.Layer); err != nil {
		return nil, err
	}
	if g.needsGrad(x) && !l.backward {
		return nil, fmt.Errorf("nn: layer %s: the gradient of its input is wanted, but no trainable parameter comes before it in the model: set InputGrad", p.Layer)
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
		executor: l.executor, round: coded.Round{Layer: l.Name, Product: coded.Forward}, kind: forwardStart, in: []*gorgonia.Node{n.coded}, slots: true,
	})
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: p.Layer, kind: forwardWait, in: []*gorgonia.Node{started, x, w}, shape: p.Output, diff: []bool{false, true, true},
		value: waitFor(l.decode(coded.Forward, x.Shape(), p.Output)),
		grad: func(_ *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			return n.backward(dy, want)
		},
	})
}

// once refuses a second use of a layer.
func (g *Graph) once(layer string) error {
	for _, o := range g.ops {
		if o.layer == layer && o.kind == forwardStart {
			return fmt.Errorf("nn: layer %s: a placed layer can be used once in a model", layer)
		}
	}
	return nil
}

// batchNodes adds the nodes of a layer to a graph.
type batchNodes struct {
	*Graph
	layer   *batchLayer
	product Product
	x       *gorgonia.Node
	coded   *gorgonia.Node // the coded blocks of x
}

// encode adds the node of the coded blocks of all slots.
func (n *batchNodes) encode(kind string, p coded.Product, x *gorgonia.Node) (*gorgonia.Node, error) {
	coder := shard.NewBatchCoder(n.layer.Layer, n.layer.config, n.layer.decoder, p)
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
	l, remote := n.layer, n.layer.gradient != nil && want[2]
	var blocks, started *gorgonia.Node
	var err error
	if want[1] || remote {
		if blocks, err = n.encode(encodeBackward, coded.Backward, dy); err != nil {
			return nil, err
		}
	}
	if want[1] {
		started, err = n.startRound(roundSpec{
			executor: l.executor, round: coded.Round{Layer: l.Name, Product: coded.Backward}, kind: backwardStart, in: []*gorgonia.Node{blocks}, slots: true,
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
			value: waitFor(l.decode(coded.Backward, dy.Shape(), n.x.Shape())),
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
		return n.startRound(roundSpec{
			executor: n.layer.executor, round: coded.Round{Layer: gr.Name, Product: coded.Gradient}, kind: gradientStart,
			in: []*gorgonia.Node{blocks, n.coded}, slots: true,
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

// decode returns what decodes the answers to a round with an operand of a shape.
func (l *batchLayer) decode(product coded.Product, operand, result []int) decodeFunc {
	d := shard.NewBatchCoder(l.Layer, l.config, l.decoder, product)
	return func(rc *runContext, out []float32, chunks [][]coded.Answer) error {
		return d.Decode(rc.pool, coded.Tensor{Shape: result, Data: out}, operand, chunks)
	}
}

// batched is a layer of a model with its Batch placement.
type batched struct {
	Placeable
	batch *Batch
	plain batchLayer
}

func (p *batched) name() string             { return p.Name }
func (p *batched) executor() coded.Executor { return p.batch.Executor }

func (p *batched) prepare(Momenta) error {
	b := p.batch
	if b.Executor == nil {
		return errNoExecutor
	}
	if b.Chunks < 1 {
		return fmt.Errorf("%d chunks, want at least 1", b.Chunks)
	}
	code, err := coded.New(b.Code)
	if err != nil {
		return err
	}
	if code.Row(0) == nil {
		return fmt.Errorf("code %v: the batch placement needs a one-sided code, such as trigonometric", code)
	}
	backward := b.InputGrad || !p.First
	c, err := p.module.shard(backward)
	if err != nil {
		return err
	}
	if err := c.Validate(1, 1); err != nil {
		return err
	}
	raw, err := marshalBatch(c)
	if err != nil {
		return err
	}
	p.plain = batchLayer{
		Layer:    coded.Layer{Name: p.Name, Kind: shard.KindBatch, Code: b.Code, Chunks: min(b.Chunks, c.MaxChunks(1)), Config: raw},
		executor: b.Executor, config: c, backward: backward, decoder: coded.NewDecoder(code, coded.DecoderConfig{MaxCond: b.MaxCond}),
	}
	if b.Gradient.Name == "" {
		return nil
	}
	gradient, err := coded.New(b.Gradient)
	if err != nil {
		return err
	}
	if gradient.N() != code.N() || gradient.K() != code.K() || gradient.Outputs() != 1 {
		return fmt.Errorf("code %v of the gradient: want one of a sum of %d products with %d tasks, such as trigonometric-matdot", gradient, code.K(), code.N())
	}
	if !sameRows(code, gradient) {
		return fmt.Errorf("code %v of the gradient: its coded blocks are not those of %v", gradient, code)
	}
	p.plain.gradient = &batchGradient{
		Layer:   coded.Layer{Name: p.Name + ".gradient", Kind: shard.KindGradient, Code: b.Gradient, Chunks: min(b.Chunks, shard.GradientChunks(c)), Config: raw},
		decoder: coded.NewDecoder(gradient, coded.DecoderConfig{MaxCond: b.MaxCond}),
	}
	return nil
}

func marshalBatch(c shard.Config) ([]byte, error) {
	wrapped, err := shard.NewBatchConfig(c)
	if err != nil {
		return nil, err
	}
	return wrapped.Marshal()
}

// sameRows tells whether both factors of a two-sided code are coded like the one of
// a one-sided code.
func sameRows(one, two *coded.Code) bool {
	for t := range one.N() {
		task, row := two.Task(t), one.Row(t)
		if len(task.A) != 1 || len(task.B) != 1 || !slices.Equal(task.A[0], row) || !slices.Equal(task.B[0], row) {
			return false
		}
	}
	return true
}

func (p *batched) place(ctx context.Context, _ Momenta) error {
	l := p.plain
	err := l.executor.Place(ctx, l.Layer, func(slot int) ([]coded.Tensor, error) {
		return shard.EncodeBatch(l.config, p.Weight.Value.Data, l.decoder.Code(), slot)
	})
	if err != nil {
		return err
	}
	if l.gradient != nil {
		if err := l.executor.Place(ctx, l.gradient.Layer, func(int) ([]coded.Tensor, error) { return nil, nil }); err != nil {
			return err
		}
	}
	if p.batch.layers == nil {
		p.batch.layers = make(map[*Param]*batchLayer)
	}
	if known := p.batch.layers[p.Weight.Param]; known != nil {
		*known = l // graphs that were built already refer to it
	} else {
		p.batch.layers[p.Weight.Param] = &l
	}
	return nil
}

// sync does nothing: the weights are here.
func (p *batched) sync(context.Context, Momenta) error {
	if p.batch.layers[p.Weight.Param] == nil {
		return errNotPlaced
	}
	return nil
}

// ship hands the new weights to the workers, in place of the operands of an update.
func (p *batched) ship(ctx context.Context, step int) error {
	if p.Weight.Frozen {
		return nil
	}
	w := p.Weight.Value
	operands := []coded.Tensor{{Shape: w.Shape, Data: w.Data}, coded.NewTensor(1)} // an update wants pairs
	for i, product := range []coded.Product{coded.Forward, coded.Backward} {
		round, err := p.batch.Executor.Start(ctx, coded.Round{Layer: p.Name, Product: product, Step: step, Operand: operands[i], Keep: true, Discard: true})
		if err != nil {
			return err
		}
		round.Release()
	}
	return nil
}
