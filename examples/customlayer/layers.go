package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// Mish computes x * tanh(log(1 + exp(x))) (Misra 2019), for any shape. It has
// no parameters, so it is a value, not a pointer.
type Mish struct{}

// Forward adds the operation to the graph: what it reads, the shape of what it
// gives, how to compute it, and how to compute the gradient.
func (Mish) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.Apply(nn.Op{
		Kind: "mish", In: []*gorgonia.Node{x}, Shape: x.Shape(),
		Forward: func(c *nn.Call) error {
			x, y := c.In[0], c.Out
			c.Split(len(y), func(from, to int) { // on all threads
				for i := from; i < to; i++ {
					y[i], _ = mish(x[i])
				}
			})
			return nil
		},
		Backward: func(c *nn.Call) error {
			x, dy, dx := c.In[0], c.GradOut, c.GradIn[0]
			c.Split(len(dx), func(from, to int) {
				for i := from; i < to; i++ {
					_, slope := mish(x[i])
					dx[i] = slope * dy[i]
				}
			})
			return nil
		},
	})
}

// mish returns the function and its derivative.
func mish(v float32) (y, slope float32) {
	x := float64(v)
	if x > 20 { // where float32 has no digits for the difference
		return v, 1
	}
	e := math.Exp(x)
	t := e * (e + 2) / (e*(e+2) + 2) // tanh(log(1+e))
	return float32(x * t), float32(t + x*(1-t*t)*e/(1+e))
}

// SqueezeExcite weighs the channels of x [batch, channels, H, W] by what the
// whole image looks like (Hu et al. 2018, eq. 2 to 4). Its parameters are those
// of its exported fields: "reduce.weight", "expand.bias" and so on.
type SqueezeExcite struct {
	Reduce, Expand *nn.Linear
}

// NewSqueezeExcite makes a block whose inner layer has channels/ratio units.
func NewSqueezeExcite(rng *rand.Rand, channels, ratio int) *SqueezeExcite {
	inner := max(channels/ratio, 1)
	return &SqueezeExcite{Reduce: nn.NewLinear(rng, channels, inner), Expand: nn.NewLinear(rng, inner, channels)}
}

// Forward computes the weights with modules that exist, and applies them with an
// operation that does not.
func (m *SqueezeExcite) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	s, err := nn.Chain(g, x, nn.GlobalAvgPool2d{}, m.Reduce, nn.ReLU{}, m.Expand, nn.Sigmoid{})
	if err != nil {
		return nil, err
	}
	return scaleChannels(g, g.Name(m, "squeeze_excite"), x, s)
}

// scaleChannels adds y[n,c,h,w] = x[n,c,h,w] * s[n,c]. Both inputs get gradients:
//
//	dx[n,c,h,w] = dy[n,c,h,w] * s[n,c]
//	ds[n,c]     = sum over h, w of dy[n,c,h,w] * x[n,c,h,w]
func scaleChannels(g *nn.Graph, layer string, x, s *gorgonia.Node) (*gorgonia.Node, error) {
	shape := x.Shape()
	if len(shape) != 4 || len(s.Shape()) != 2 || s.Shape()[0] != shape[0] || s.Shape()[1] != shape[1] {
		return nil, fmt.Errorf("layer %s: x %v and s %v, want [batch, channels, H, W] and [batch, channels]", layer, shape, s.Shape())
	}
	plane := shape[2] * shape[3]
	return g.Apply(nn.Op{
		Layer: layer, Kind: "scale channels", In: []*gorgonia.Node{x, s}, Shape: shape,
		Forward: func(c *nn.Call) error {
			c.Parallel(len(c.In[1]), func(i int) {
				x, y, s := c.In[0][i*plane:][:plane], c.Out[i*plane:][:plane], c.In[1][i]
				for j, v := range x {
					y[j] = v * s
				}
			})
			return nil
		},
		Backward: func(c *nn.Call) error {
			dx, ds := c.GradIn[0], c.GradIn[1] // nil where nobody wants it
			c.Parallel(len(c.In[1]), func(i int) {
				x, dy, s := c.In[0][i*plane:][:plane], c.GradOut[i*plane:][:plane], c.In[1][i]
				var sum float32
				for j, d := range dy {
					if dx != nil {
						dx[i*plane+j] = d * s
					}
					sum += d * x[j]
				}
				if ds != nil {
					ds[i] = sum
				}
			})
			return nil
		},
	})
}
