package nn

import "gorgonia.org/gorgonia"

// ReLU computes max(0, x), for any shape. NaN stays NaN.
type ReLU struct{}

// Forward adds the ReLU to the graph. After a Linear, a Conv2d or before a
// MaxPool2d in a Sequential it costs no node of its own.
func (ReLU) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("relu")
	return g.apply(opSpec{
		layer: name, kind: "relu", in: []*gorgonia.Node{x}, shape: x.Shape(), diff: []bool{true},
		run: func(_ *runContext, v [][]float32, y []float32) error {
			biasReLU(y, v[0], nil, true)
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			dx, err := g.beforeReLU(name, y, dy, true)
			return []*gorgonia.Node{dx}, err
		},
	})
}

// beforeReLU adds the gradient before a ReLU, given its output and the
// gradient after it: dy where y > 0. Without a ReLU it is dy itself.
func (g *Graph) beforeReLU(layer string, y, dy *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	if !relu {
		return dy, nil
	}
	return g.apply(opSpec{
		layer: layer, kind: "relu backward", in: []*gorgonia.Node{y, dy}, shape: y.Shape(),
		run: func(_ *runContext, v [][]float32, out []float32) error {
			reluBackward(out, v[0], v[1])
			return nil
		},
	})
}
