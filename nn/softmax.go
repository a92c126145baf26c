package nn

import (
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Softmax computes exp(x) / sum of exp(x) over the last dimension of x. A
// classifier needs none at its end: the loss has it.
type Softmax struct{}

// LogSoftmax computes the logarithm of Softmax, also where that is close to 0.
type LogSoftmax struct{}

// Forward adds the softmax to the graph.
func (Softmax) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.softmax(x, "softmax", kernel.Softmax, kernel.SoftmaxBackward)
}

// Forward adds the softmax to the graph.
func (LogSoftmax) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.softmax(x, "logsoftmax", kernel.LogSoftmax, kernel.LogSoftmaxBackward)
}

func (g *Graph) softmax(x *gorgonia.Node, kind string,
	forward func(p *kernel.Pool, y, x []float32, rows, cols int),
	backward func(p *kernel.Pool, dx, dy, y []float32, rows, cols int),
) (*gorgonia.Node, error) {
	name, s := g.number(kind), x.Shape()
	if len(s) < 2 {
		return nil, shapeError(name, s, "at least two dimensions")
	}
	cols := s[len(s)-1]
	rows := size(s) / cols
	return g.apply(opSpec{
		layer: name, kind: kind, in: []*gorgonia.Node{x}, shape: s, diff: []bool{true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			forward(rc.pool, y, v[0], rows, cols)
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.apply(opSpec{
				layer: name, kind: kind + " backward", in: []*gorgonia.Node{y, dy}, shape: s,
				run: func(rc *runContext, v [][]float32, dx []float32) error {
					backward(rc.pool, dx, v[1], v[0], rows, cols)
					return nil
				},
			})
			return []*gorgonia.Node{dx}, err
		},
	})
}
