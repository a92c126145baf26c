package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// Flatten makes x [batch, ...] a matrix [batch, the rest].
type Flatten struct{}

// Forward adds the reshaping to the graph. It copies: gorgonia's own Reshape
// aliases its input, and an in-place operation behind it destroys both.
func (Flatten) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("flatten")
	s := x.Shape()
	if len(s) < 2 {
		return nil, shapeError(name, s, "at least two dimensions")
	}
	return g.reshape(name, x, s[0], size(s[1:]))
}

// reshape adds a copy of x in another shape.
func (g *Graph) reshape(layer string, x *gorgonia.Node, shape ...int) (*gorgonia.Node, error) {
	if size(shape) != size(x.Shape()) {
		return nil, shapeError(layer, x.Shape(), fmt.Sprintf("as many elements as %v has", shape))
	}
	return g.apply(opSpec{
		layer: layer, kind: "reshape", in: []*gorgonia.Node{x}, shape: shape, diff: []bool{true},
		run: func(_ *runContext, v [][]float32, y []float32) error {
			copy(y, v[0])
			return nil
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.reshape(layer, dy, x.Shape()...)
			return []*gorgonia.Node{dx}, err
		},
	})
}
