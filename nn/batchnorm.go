package nn

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// BatchNorm normalises each channel of x [batch, channels, ...] over the batch
// and whatever follows (Ioffe and Szegedy 2015, algorithm 1):
//
//	y = Weight * (x - mean) / sqrt(var + Eps) + Bias
//
// It is PyTorch's BatchNorm1d, 2d and 3d, by the dimensions of x. Training uses
// the statistics of the batch and moves the running ones towards them, by
// Momentum; evaluation uses the running ones. A channel with a single value in
// the batch (a vector in a batch of 1) has no variance: the output is Bias, and
// the running statistics are left alone.
type BatchNorm struct {
	Weight            *Param  `nn:",optional"` // [channels]; nil for ones
	Bias              *Param  `nn:",optional"` // [channels]; nil for zeros
	RunningMean       *Buffer // [channels]
	RunningVar        *Buffer // [channels], of the population
	NumBatchesTracked *Counter
	Config            BatchNormConfig
}

// BatchNormConfig holds the settings of a BatchNorm.
type BatchNormConfig struct {
	Eps      float64 // 0 means 1e-5
	Momentum float64 // of the batch in the running statistics, at most 1; 0 means 0.1
	NoAffine bool    // no Weight and no Bias
	// Frozen uses the running statistics in training as well, and leaves them
	// alone: for a part of a model that has been trained before.
	Frozen bool
}

// NewBatchNorm returns a layer with weights of 1, biases of 0, and the running
// statistics of a standard normal distribution.
func NewBatchNorm(channels int, c BatchNormConfig) *BatchNorm {
	l := &BatchNorm{
		RunningMean: NewBuffer(0, channels), RunningVar: NewBuffer(1, channels),
		NumBatchesTracked: &Counter{}, Config: c,
	}
	if !c.NoAffine {
		l.Weight, l.Bias = NewParam(channels), NewParam(channels)
		fill(l.Weight.Value.Data, 1)
	}
	return l
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// Forward adds the layer to the graph.
func (l *BatchNorm) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return l.forwardAdd(g, x, nil, false)
}

// forward adds the layer, followed by a ReLU if asked.
func (l *BatchNorm) forward(g *Graph, x *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	return l.forwardAdd(g, x, nil, relu)
}

// forwardAdd adds the layer, then the addition of a residual unless nil, then a
// ReLU if asked, as one operation.
func (l *BatchNorm) forwardAdd(g *Graph, x, residual *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	n, err := l.bind(g, x, residual, relu)
	if err != nil {
		return nil, err
	}
	if l.Config.Frozen || !g.Training() {
		return n.apply(g, "batchnorm with running statistics", func(rc *runContext, v [][]float32, y []float32) error {
			kernel.BatchNormEval(rc.pool, n.geometry, n.params(v), v[0], pick(v, n.residual), y)
			return nil
		})
	}
	g.count(l.NumBatchesTracked)
	n.mean, n.invStd = make([]float32, n.geometry.C), make([]float32, n.geometry.C)
	single := n.geometry.N*n.geometry.Plane == 1
	return n.apply(g, "batchnorm", func(rc *runContext, v [][]float32, y []float32) error {
		p := n.params(v)
		if single {
			p.RunningMean, p.RunningVar = nil, nil
		}
		kernel.BatchNormTrain(rc.pool, n.geometry, p, v[0], pick(v, n.residual), y)
		return nil
	})
}

// batchNormNode is a BatchNorm at one place of a graph.
type batchNormNode struct {
	layer                 string
	geometry              kernel.BatchNorm
	in                    []*gorgonia.Node // x and what else there is
	residual, gamma, beta int              // places in in; 0 for none
	runningMean           *boundBuffer
	runningVar            *boundBuffer
	mean, invStd          []float32 // of the batch; nil with running statistics
}

// bind checks the layer against its input and brings it into the graph.
func (l *BatchNorm) bind(g *Graph, x, residual *gorgonia.Node, relu bool) (*batchNormNode, error) {
	n, err := l.bindShape(g, x.Shape(), relu)
	if err != nil {
		return nil, err
	}
	n.in[0] = x
	if residual == nil {
		return n, nil
	}
	if s := x.Shape(); !residual.Shape().Eq(s) {
		return nil, shapeError(n.layer, s, fmt.Sprintf("that of the residual, %v", []int(residual.Shape())))
	}
	n.residual, n.in = len(n.in), append(n.in, residual)
	return n, nil
}

// bindShape is bind without a node for x.
func (l *BatchNorm) bindShape(g *Graph, s []int, relu bool) (*batchNormNode, error) {
	n := &batchNormNode{layer: g.Name(l, "batchnorm"), in: make([]*gorgonia.Node, 1)}
	if len(s) < 2 {
		return nil, shapeError(n.layer, s, "[batch, channels, ...]")
	}
	n.geometry = kernel.BatchNorm{
		N: s[0], C: s[1], Plane: size(s[2:]), ReLU: relu,
		Eps: orDefault(l.Config.Eps, 1e-5), Momentum: orDefault(l.Config.Momentum, 0.1),
	}
	if err := n.geometry.Validate(); err != nil {
		return nil, fmt.Errorf("nn: layer %s: input of shape %v: %w", n.layer, s, err)
	}
	var err error
	if n.gamma, err = n.param(g, "weight", l.Weight); err != nil {
		return nil, err
	}
	if n.beta, err = n.param(g, "bias", l.Bias); err != nil {
		return nil, err
	}
	if n.runningMean, err = n.statistic(g, "running mean", l.RunningMean); err != nil {
		return nil, err
	}
	n.runningVar, err = n.statistic(g, "running variance", l.RunningVar)
	return n, err
}

// orDefault gives a setting's zero value its meaning.
func orDefault(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// param appends a parameter to the inputs and returns its place, 0 for none.
func (n *batchNormNode) param(g *Graph, what string, p *Param) (int, error) {
	if p == nil {
		return 0, nil
	}
	if p.Size() != n.geometry.C {
		return 0, n.sizeError(what, p.Value.Shape)
	}
	node, err := g.Param(p)
	if err != nil {
		return 0, err
	}
	n.in = append(n.in, node)
	return len(n.in) - 1, nil
}

func (n *batchNormNode) statistic(g *Graph, what string, b *Buffer) (*boundBuffer, error) {
	if b != nil && len(b.Value.Data) != n.geometry.C {
		return nil, n.sizeError(what, b.Value.Shape)
	}
	return g.buffer(b)
}

func (n *batchNormNode) sizeError(what string, shape []int) error {
	return fmt.Errorf("nn: layer %s: %s of shape %v for %d channels", n.layer, what, shape, n.geometry.C)
}

// pick returns input i of an operation, or nil for 0: there is none.
func pick(v [][]float32, i int) []float32 {
	if i == 0 {
		return nil
	}
	return v[i]
}

// params gives the kernel what the layer has, given the values of n.in.
func (n *batchNormNode) params(v [][]float32) kernel.BatchNormParams {
	return kernel.BatchNormParams{
		Gamma: pick(v, n.gamma), Beta: pick(v, n.beta),
		RunningMean: n.runningMean.next, RunningVar: n.runningVar.next,
		Mean: n.mean, InvStd: n.invStd,
	}
}

func (n *batchNormNode) apply(g *Graph, kind string, run func(*runContext, [][]float32, []float32) error) (*gorgonia.Node, error) {
	diff := make([]bool, len(n.in))
	for i := range diff {
		diff[i] = true
	}
	return g.apply(opSpec{
		layer: n.layer, kind: kind, in: n.in, shape: n.in[0].Shape(), diff: diff, run: run, grad: n.grad,
	})
}

// grad adds one operation for all gradients: its output is that of x, the
// others are views.
func (n *batchNormNode) grad(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
	backward := kernel.BatchNormBackward
	if n.mean == nil {
		backward = kernel.BatchNormEvalBackward
	}
	views := make([]*op, len(n.in))
	view := func(place int) []float32 {
		if place == 0 {
			return nil
		}
		return viewBuffer(views[place])
	}
	dx, err := g.apply(opSpec{
		layer: n.layer, kind: "batchnorm backward", in: append(slices.Clone(n.in), dy, y), shape: n.in[0].Shape(),
		run: func(rc *runContext, v [][]float32, dx []float32) error {
			dy, y := v[len(v)-2], v[len(v)-1]
			backward(rc.pool, n.geometry, n.params(v), v[0], y, dy, dx, view(n.residual), view(n.gamma), view(n.beta))
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	grads := make([]*gorgonia.Node, len(n.in))
	grads[0] = dx
	for i := 1; i < len(n.in); i++ {
		switch {
		case i == n.residual && !n.geometry.ReLU:
			grads[i] = dy // the kernel has none either
			continue
		case i != n.residual && !want[i]:
			continue
		}
		s := opSpec{layer: n.layer, kind: fmt.Sprintf("batchnorm backward of input %d", i), shape: n.in[i].Shape()}
		if views[i], err = g.view(s, dx.Op().(*op)); err != nil {
			return nil, err
		}
		grads[i] = views[i].node
	}
	return grads, nil
}
