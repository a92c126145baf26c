package nn

import (
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// ReLU computes max(0, x), for any shape. NaN stays NaN.
type ReLU struct{}

// Forward adds the ReLU to the graph. After a Linear, a Conv2d or before a
// MaxPool2d in a Sequential it costs no node of its own.
func (ReLU) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("relu")
	return g.apply(opSpec{
		layer: name, kind: "relu", in: []*gorgonia.Node{x}, shape: x.Shape(), diff: []bool{true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			blocks(rc.pool, len(y), func(i, j int) { kernel.ReLU(y[i:j], v[0][i:j]) })
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			dx, err := g.beforeReLU(name, y, dy, true)
			return []*gorgonia.Node{dx}, err
		},
	})
}

// beforeReLU adds the gradient before a ReLU, given its output and the
// gradient after it: dy where y > 0 (or NaN), else 0. Without a ReLU it is dy itself.
func (g *Graph) beforeReLU(layer string, y, dy *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	if !relu {
		return dy, nil
	}
	return g.apply(opSpec{
		layer: layer, kind: "relu backward", in: []*gorgonia.Node{y, dy}, shape: y.Shape(),
		run: func(rc *runContext, v [][]float32, dx []float32) error {
			y, dy := v[0], v[1]
			blocks(rc.pool, len(dx), func(i, j int) { kernel.ReLUBackward(dx[i:j], dy[i:j], y[i:j]) })
			return nil
		},
	})
}
