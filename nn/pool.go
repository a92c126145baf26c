package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// MaxPool2d takes the maximum of square windows of x [batch, channels, H, W].
// Padding counts as minus infinity; a NaN counts as the largest.
type MaxPool2d struct {
	Kernel  int
	Stride  int // 0 means Kernel
	Padding int // at most half of Kernel
}

// Forward adds the pooling to the graph.
func (m MaxPool2d) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return m.forward(g, x, false)
}

// forward adds the pooling together with a ReLU, before or after it, if asked.
func (m MaxPool2d) forward(g *Graph, x *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	name := g.number("maxpool")
	s := x.Shape()
	if len(s) != 4 {
		return nil, shapeError(name, s, "[batch, channels, height, width]")
	}
	stride := m.Stride
	if stride == 0 {
		stride = m.Kernel
	}
	c := kernel.MaxPool{
		N: s[0], C: s[1], H: s[2], W: s[3], KH: m.Kernel, KW: m.Kernel,
		StrideH: stride, StrideW: stride, PadH: m.Padding, PadW: m.Padding, ReLU: relu,
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("nn: layer %s: input of shape %v: %w", name, s, err)
	}
	// Which entry of each window was taken, for the backward pass: written by
	// one operation, read by another that runs later.
	choice := make([]uint16, c.OutLen())
	return g.apply(opSpec{
		layer: name, kind: "maxpool", in: []*gorgonia.Node{x}, shape: []int{c.N, c.C, c.OutH(), c.OutW()}, diff: []bool{true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			kernel.MaxPoolForward(rc.pool, c, v[0], y, choice)
			return nil
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.apply(opSpec{
				layer: name, kind: "maxpool backward", in: []*gorgonia.Node{dy}, shape: s,
				run: func(rc *runContext, v [][]float32, dx []float32) error {
					kernel.MaxPoolBackward(rc.pool, c, v[0], choice, dx)
					return nil
				},
			})
			return []*gorgonia.Node{dx}, err
		},
	})
}
