package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// AvgPool2d takes the average of square windows of x [batch, channels, H, W].
// Padding counts as zeros.
type AvgPool2d struct {
	Kernel  int
	Stride  int // 0 means Kernel
	Padding int // at most half of Kernel
	// ExcludePad divides by the number of entries inside the image: PyTorch's
	// count_include_pad=False.
	ExcludePad bool
}

// Forward adds the pooling to the graph.
func (m AvgPool2d) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("avgpool")
	s := x.Shape()
	if len(s) != 4 {
		return nil, shapeError(name, s, "[batch, channels, height, width]")
	}
	stride := m.Stride
	if stride == 0 {
		stride = m.Kernel
	}
	c := kernel.AvgPool{
		N: s[0], C: s[1], H: s[2], W: s[3], KH: m.Kernel, KW: m.Kernel,
		StrideH: stride, StrideW: stride, PadH: m.Padding, PadW: m.Padding, ExcludePad: m.ExcludePad,
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("nn: layer %s: input of shape %v: %w", name, s, err)
	}
	return g.pooling(name, "avgpool", x, []int{c.N, c.C, c.OutH(), c.OutW()},
		func(p *kernel.Pool, x, y []float32) { kernel.AvgPoolForward(p, c, x, y) },
		func(p *kernel.Pool, dy, dx []float32) { kernel.AvgPoolBackward(p, c, dy, dx) })
}

// GlobalAvgPool2d takes the average of each channel of x [batch, channels, H,
// W] and gives [batch, channels].
type GlobalAvgPool2d struct{}

// Forward adds the pooling to the graph.
func (GlobalAvgPool2d) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("globalavgpool")
	s := x.Shape()
	if len(s) != 4 {
		return nil, shapeError(name, s, "[batch, channels, height, width]")
	}
	planes, plane := s[0]*s[1], s[2]*s[3]
	return g.pooling(name, "globalavgpool", x, []int{s[0], s[1]},
		func(p *kernel.Pool, x, y []float32) { kernel.GlobalAvgPool(p, planes, plane, x, y) },
		func(p *kernel.Pool, dy, dx []float32) { kernel.GlobalAvgPoolBackward(p, planes, plane, dy, dx) })
}

// AdaptiveAvgPool2d takes averages such that the output is Height x Width
// whatever the size of x [batch, channels, H, W]: entry i of the output is the
// average of the rows from floor(i*H/Height) to ceil((i+1)*H/Height), and of the
// columns likewise.
type AdaptiveAvgPool2d struct {
	Height, Width int
}

// Forward adds the pooling to the graph; where the sizes are equal it does nothing.
func (m AdaptiveAvgPool2d) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.number("adaptiveavgpool")
	s := x.Shape()
	if len(s) != 4 {
		return nil, shapeError(name, s, "[batch, channels, height, width]")
	}
	if m.Height < 1 || m.Width < 1 {
		return nil, fmt.Errorf("nn: layer %s: output of %dx%d, want at least 1x1", name, m.Height, m.Width)
	}
	if m.Height == s[2] && m.Width == s[3] {
		return x, nil
	}
	in, out := s[2]*s[3], m.Height*m.Width
	// planes calls f for each plane with every window of it.
	planes := func(p *kernel.Pool, f func(plane, window, from, to, left, right int)) {
		p.Run(s[0]*s[1], func(plane int) {
			for i := range m.Height {
				for j := range m.Width {
					f(plane, i*m.Width+j, i*s[2]/m.Height, ((i+1)*s[2]+m.Height-1)/m.Height, j*s[3]/m.Width, ((j+1)*s[3]+m.Width-1)/m.Width)
				}
			}
		})
	}
	return g.pooling(name, "adaptiveavgpool", x, []int{s[0], s[1], m.Height, m.Width},
		func(p *kernel.Pool, x, y []float32) {
			planes(p, func(plane, window, from, to, left, right int) {
				sum := 0.0
				for r := from; r < to; r++ {
					for _, v := range x[plane*in+r*s[3]:][left:right] {
						sum += float64(v)
					}
				}
				y[plane*out+window] = float32(sum / float64((to-from)*(right-left)))
			})
		},
		func(p *kernel.Pool, dy, dx []float32) {
			clear(dx)
			planes(p, func(plane, window, from, to, left, right int) {
				share := dy[plane*out+window] / float32((to-from)*(right-left))
				for r := from; r < to; r++ {
					row := dx[plane*in+r*s[3]:][left:right]
					for k := range row {
						row[k] += share
					}
				}
			})
		})
}

// pooling adds a linear map of x whose gradient needs nothing but that of its output.
func (g *Graph) pooling(name, kind string, x *gorgonia.Node, shape []int,
	forward func(p *kernel.Pool, x, y []float32), backward func(p *kernel.Pool, dy, dx []float32),
) (*gorgonia.Node, error) {
	return g.apply(opSpec{
		layer: name, kind: kind, in: []*gorgonia.Node{x}, shape: shape, diff: []bool{true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			forward(rc.pool, v[0], y)
			return nil
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dx, err := g.apply(opSpec{
				layer: name, kind: kind + " backward", in: []*gorgonia.Node{dy}, shape: x.Shape(),
				run: func(rc *runContext, v [][]float32, dx []float32) error {
					backward(rc.pool, v[0], dx)
					return nil
				},
			})
			return []*gorgonia.Node{dx}, err
		},
	})
}
