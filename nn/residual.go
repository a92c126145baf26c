package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Residual computes Body(x) + Shortcut(x), followed by a ReLU if asked (He et
// al. 2016, eq. 1 and 2). An empty Shortcut is x itself.
type Residual struct {
	Body, Shortcut Sequential
	ReLU           bool
}

// Forward adds the block to the graph. The addition and the ReLU cost nothing
// where Body ends with a BatchNorm.
func (m *Residual) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	shortcut, err := m.Shortcut.Forward(g, x)
	if err != nil {
		return nil, err
	}
	return ChainAdd(g, x, shortcut, m.ReLU, m.Body...)
}

// ChainAdd passes x through modules as Chain does, adds another node of the
// same shape, and applies a ReLU if asked. A BatchNorm at the end does all of
// that at once.
func ChainAdd(g *Graph, x, other *gorgonia.Node, relu bool, modules ...Module) (*gorgonia.Node, error) {
	last := len(modules) - 1
	norm, fused := (*BatchNorm)(nil), false
	if last >= 0 {
		norm, fused = modules[last].(*BatchNorm)
	}
	if fused {
		modules = modules[:last]
	}
	y, err := Chain(g, x, modules...)
	if err != nil {
		return nil, err
	}
	if fused {
		return norm.forwardAdd(g, y, other, relu)
	}
	return g.add(g.number("add"), y, other, relu)
}

// add adds the sum of two nodes, followed by a ReLU if asked.
func (g *Graph) add(name string, a, b *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	if !a.Shape().Eq(b.Shape()) {
		return nil, shapeError(name, a.Shape(), fmt.Sprintf("that of the other term, %v", []int(b.Shape())))
	}
	return g.apply(opSpec{
		layer: name, kind: "add", in: []*gorgonia.Node{a, b}, shape: a.Shape(), diff: []bool{true, true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			blocks(rc.pool, len(y), func(i, j int) {
				kernel.Add(y[i:j], v[0][i:j], v[1][i:j])
				if relu {
					kernel.ReLU(y[i:j], y[i:j])
				}
			})
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dz, err := g.beforeReLU(name, y, dy, relu)
			return []*gorgonia.Node{dz, dz}, err
		},
	})
}
