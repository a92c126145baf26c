package nn

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// Concat passes its input through each of its modules and joins the outputs
// along the channels, the second dimension.
type Concat []Module

// Forward adds the branches to the graph.
func (c Concat) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	branches := make([]*gorgonia.Node, len(c))
	for i, m := range c {
		var err error
		if branches[i], err = Chain(g, x, m); err != nil {
			return nil, err
		}
	}
	return Join(g, branches...)
}

// Join joins nodes [batch, channels, ...], which differ at most in their
// channels, along these.
func Join(g *Graph, nodes ...*gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("concat")
	if len(nodes) == 0 {
		return nil, fmt.Errorf("nn: layer %s: nothing to join", name)
	}
	first := nodes[0].Shape()
	if len(first) < 2 {
		return nil, shapeError(name, first, "[batch, channels, ...]")
	}
	shape := []int(first.Clone())
	shape[1] = 0
	widths := make([]int, len(nodes)) // what a sample has in each of the nodes
	for i, n := range nodes {
		s := n.Shape()
		if len(s) != len(first) || s[0] != first[0] || !slices.Equal(s[2:], first[2:]) {
			return nil, shapeError(name, s, fmt.Sprintf("that of the first, %v, but for the channels", []int(first)))
		}
		shape[1] += s[1]
		widths[i] = size(s[1:])
	}
	return g.join(name, nodes, shape, widths)
}

func (g *Graph) join(name string, nodes []*gorgonia.Node, shape, widths []int) (*gorgonia.Node, error) {
	batch, whole := shape[0], size(shape[1:])
	diff := make([]bool, len(nodes))
	for i := range diff {
		diff[i] = true
	}
	return g.apply(opSpec{
		layer: name, kind: "concat", in: nodes, shape: shape, diff: diff,
		run: func(rc *runContext, v [][]float32, y []float32) error {
			rc.pool.Run(batch, func(sample int) {
				to := y[sample*whole:]
				for i, w := range widths {
					to = to[copy(to[:w], v[i][sample*w:]):]
				}
			})
			return nil
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			grads := make([]*gorgonia.Node, len(nodes))
			at := 0
			for i, w := range widths {
				from := at
				at += w
				if !want[i] {
					continue
				}
				var err error
				grads[i], err = g.apply(opSpec{
					layer: name, kind: "concat backward", in: []*gorgonia.Node{dy}, shape: nodes[i].Shape(),
					run: func(rc *runContext, v [][]float32, dx []float32) error {
						rc.pool.Run(batch, func(sample int) { copy(dx[sample*w:(sample+1)*w], v[0][sample*whole+from:]) })
						return nil
					},
				})
				if err != nil {
					return nil, err
				}
			}
			return grads, nil
		},
	})
}
