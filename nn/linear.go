package nn

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Linear computes y = x·Wᵀ + b for x [batch, in].
type Linear struct {
	Weight *Param // [out, in]
	Bias   *Param `nn:",optional"` // [out]; nil for none

	placement Placement
}

// NewLinear returns a layer whose parameters are drawn from rng: the weight
// first, then the bias.
func NewLinear(rng *rand.Rand, in, out int, opts ...Option) *Linear {
	o := newOptions(opts)
	l := &Linear{Weight: NewParam(out, in), placement: o.placement}
	o.weightInit(rng, l.Weight.Value.Data, in, out)
	if !o.noBias {
		l.Bias = NewParam(out)
		o.biasInit(rng, l.Bias.Value.Data, in, out)
	}
	return l
}

// Place puts the layer's product on a placement; nil brings it back. It must
// be called before a Network is made of the model.
func (l *Linear) Place(p Placement) { l.placement = p }

// Forward adds the layer to the graph.
func (l *Linear) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return l.forward(g, x, false)
}

// forward adds the layer, followed by a ReLU if asked.
func (l *Linear) forward(g *Graph, x *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	name := g.Name(l, "linear")
	if l.Weight == nil || len(l.Weight.Value.Shape) != 2 {
		return nil, fmt.Errorf("nn: layer %s: no weight of shape [out, in]", name)
	}
	out, in := l.Weight.Value.Shape[0], l.Weight.Value.Shape[1]
	if s := x.Shape(); len(s) != 2 || s[1] != in {
		return nil, shapeError(name, s, fmt.Sprintf("[batch, %d] for the weight [%d, %d]", in, out, in))
	}
	var b *gorgonia.Node
	if l.Bias != nil {
		if l.Bias.Size() != out {
			return nil, fmt.Errorf("nn: layer %s: bias of shape %v for the weight [%d, %d]", name, l.Bias.Value.Shape, out, in)
		}
		var err error
		if b, err = g.Param(l.Bias); err != nil {
			return nil, err
		}
	}
	if l.placement != nil && g.placed {
		y, err := l.placement.Product(g, Product{Layer: name, Weight: l.Weight, Output: []int{x.Shape()[0], out}}, x)
		if err != nil || b == nil && !relu {
			return y, err
		}
		return g.biasActivation(name, y, b, relu)
	}
	w, err := g.Param(l.Weight)
	if err != nil {
		return nil, err
	}
	return g.linear(name, x, w, b, relu)
}

// linear adds y = x·wᵀ + b, followed by a ReLU if asked; b may be nil.
func (g *Graph) linear(layer string, x, w, b *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	batch, in, out := x.Shape()[0], x.Shape()[1], w.Shape()[0]
	inputs := []*gorgonia.Node{x, w}
	if b != nil {
		inputs = append(inputs, b)
	}
	return g.apply(opSpec{
		layer: layer, kind: "linear", in: inputs, shape: []int{batch, out},
		diff: []bool{true, true, true}[:len(inputs)],
		run: func(rc *runContext, v [][]float32, y []float32) error {
			kernel.Gemm(rc.pool, false, true, batch, out, in, 1, v[0], in, v[1], in, 0, y, out)
			addBias(rc.pool, y, optional(v, 2), relu)
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			dz, err := g.beforeReLU(layer, y, dy, relu)
			if err != nil {
				return nil, err
			}
			grads := make([]*gorgonia.Node, len(inputs))
			if want[0] {
				if grads[0], err = g.product(layer, "linear backward input", dz, w, false, false); err != nil {
					return nil, err
				}
			}
			if want[1] {
				if grads[1], err = g.product(layer, "linear backward weight", dz, x, true, false); err != nil {
					return nil, err
				}
			}
			if b != nil && want[2] {
				grads[2], err = g.columnSums(layer, dz)
			}
			return grads, err
		},
	})
}

// optional returns input i of an operation, or nil if there are fewer.
func optional(v [][]float32, i int) []float32 {
	if i < len(v) {
		return v[i]
	}
	return nil
}

// product adds op(a)·op(b) for matrices, op being the transpose where asked.
// It has no derivative of its own.
func (g *Graph) product(layer, kind string, a, b *gorgonia.Node, transA, transB bool) (*gorgonia.Node, error) {
	lda, ldb := a.Shape()[1], b.Shape()[1]
	m, k, n := a.Shape()[0], lda, ldb
	if transA {
		m, k = k, m
	}
	if transB {
		n = b.Shape()[0]
	}
	return g.apply(opSpec{
		layer: layer, kind: kind, in: []*gorgonia.Node{a, b}, shape: []int{m, n},
		run: func(rc *runContext, v [][]float32, out []float32) error {
			kernel.Gemm(rc.pool, transA, transB, m, n, k, 1, v[0], lda, v[1], ldb, 0, out, n)
			return nil
		},
	})
}

// biasActivation adds y = x + b by columns, followed by a ReLU if asked.
func (g *Graph) biasActivation(layer string, x, b *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	inputs := []*gorgonia.Node{x}
	if b != nil {
		inputs = append(inputs, b)
	}
	return g.apply(opSpec{
		layer: layer, kind: "bias and activation", in: inputs, shape: x.Shape(),
		diff: []bool{true, true}[:len(inputs)],
		run: func(rc *runContext, v [][]float32, y []float32) error {
			copy(y, v[0])
			addBias(rc.pool, y, optional(v, 1), relu)
			return nil
		},
		grad: biasActivationGrad(layer, len(inputs), relu, func(g *Graph, dz *gorgonia.Node) (*gorgonia.Node, error) {
			return g.columnSums(layer, dz)
		}),
	})
}

// biasActivationGrad is the derivative of a bias, which the second input is if
// there is one, and a ReLU; sums gives that of the bias from the one before the
// ReLU.
func biasActivationGrad(layer string, inputs int, relu bool, sums func(g *Graph, dz *gorgonia.Node) (*gorgonia.Node, error)) func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
	return func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
		dz, err := g.beforeReLU(layer, y, dy, relu)
		if err != nil {
			return nil, err
		}
		grads := make([]*gorgonia.Node, inputs)
		if want[0] {
			grads[0] = dz
		}
		if inputs > 1 && want[1] {
			grads[1], err = sums(g, dz)
		}
		return grads, err
	}
}

// columnSums adds the sums of a matrix over its rows: the gradient of a bias.
func (g *Graph) columnSums(layer string, x *gorgonia.Node) (*gorgonia.Node, error) {
	cols := x.Shape()[1]
	return g.apply(opSpec{
		layer: layer, kind: "bias gradient", in: []*gorgonia.Node{x}, shape: []int{cols},
		run: func(_ *runContext, v [][]float32, out []float32) error {
			kernel.ColumnSums(out, v[0], cols, len(v[0])/cols)
			return nil
		},
	})
}
