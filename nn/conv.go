package nn

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// Conv2d computes a two-dimensional convolution of x [batch, in, H, W]
// (PyTorch's: a cross-correlation) plus a bias per output channel.
type Conv2d struct {
	Weight *Param // [out, in/groups, kernel height, kernel width]
	Bias   *Param `nn:",optional"` // [out]; nil for none
	Config Conv2dConfig

	placement Placement
}

// Conv2dConfig is the geometry of a convolution beyond the shape of its
// weight, equal in both directions.
type Conv2dConfig struct {
	Stride   int // 0 means 1
	Padding  int // zeros around the input
	Dilation int // 0 means 1
	Groups   int // 0 means 1
}

// NewConv2d returns a layer with a square kernel whose parameters are drawn
// from rng: the weight first, then the bias.
func NewConv2d(rng *rand.Rand, in, out, kernelSize int, c Conv2dConfig, opts ...Option) *Conv2d {
	o := newOptions(opts)
	groups := max(c.Groups, 1)
	l := &Conv2d{Weight: NewParam(out, in/groups, kernelSize, kernelSize), Config: c, placement: o.placement}
	fanIn, fanOut := in/groups*kernelSize*kernelSize, out/groups*kernelSize*kernelSize
	o.weightInit(rng, l.Weight.Value.Data, fanIn, fanOut)
	if !o.noBias {
		l.Bias = NewParam(out)
		o.biasInit(rng, l.Bias.Value.Data, fanIn, fanOut)
	}
	return l
}

// Place puts the layer's product on a placement; nil brings it back. It must
// be called before a Network is made of the model.
func (l *Conv2d) Place(p Placement) { l.placement = p }

// Forward adds the layer to the graph.
func (l *Conv2d) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return l.forward(g, x, false)
}

// forward adds the layer, followed by a ReLU if asked.
func (l *Conv2d) forward(g *Graph, x *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	name := g.Name(l, "conv2d")
	if l.placement != nil && g.placed {
		return l.placed(g, name, x, relu)
	}
	geometry, in, err := l.bind(g, name, x)
	if err != nil {
		return nil, err
	}
	return g.conv2d(name, geometry, in, relu)
}

// placed adds the layer with its product on its placement.
func (l *Conv2d) placed(g *Graph, name string, x *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	c, err := l.geometry(name, x.Shape())
	if err != nil {
		return nil, err
	}
	b, err := l.bias(g, name, c)
	if err != nil {
		return nil, err
	}
	y, err := l.placement.Product(g, Product{Layer: name, Weight: l.Weight, Conv: &l.Config, Output: []int{c.N, c.CO, c.OutH(), c.OutW()}}, x)
	if err != nil || b == nil && !relu {
		return y, err
	}
	return g.channelBiasActivation(name, c, y, b, relu)
}

// bias returns the node of the bias, nil if there is none.
func (l *Conv2d) bias(g *Graph, name string, c kernel.Conv) (*gorgonia.Node, error) {
	if l.Bias == nil {
		return nil, nil
	}
	if l.Bias.Size() != c.CO {
		return nil, fmt.Errorf("nn: layer %s: bias of shape %v for %d output channels", name, l.Bias.Value.Shape, c.CO)
	}
	return g.Param(l.Bias)
}

// bind checks the layer against its input and returns the nodes of x, the
// weight and, if there is one, the bias.
func (l *Conv2d) bind(g *Graph, name string, x *gorgonia.Node) (kernel.Conv, []*gorgonia.Node, error) {
	geometry, err := l.geometry(name, x.Shape())
	if err != nil {
		return geometry, nil, err
	}
	w, err := g.Param(l.Weight)
	if err != nil {
		return geometry, nil, err
	}
	b, err := l.bias(g, name, geometry)
	if b == nil {
		return geometry, []*gorgonia.Node{x, w}, err
	}
	return geometry, []*gorgonia.Node{x, w, b}, err
}

// geometry joins the shapes of the input and the weight with the configuration.
func (l *Conv2d) geometry(name string, x []int) (kernel.Conv, error) {
	if l.Weight == nil || len(l.Weight.Value.Shape) != 4 {
		return kernel.Conv{}, fmt.Errorf("nn: layer %s: no weight of shape [out, in/groups, height, width]", name)
	}
	return l.Config.kernel(name, l.Weight.Value.Shape, x)
}

// kernel is the geometry for a weight and an input of given shapes.
func (c Conv2dConfig) kernel(name string, w, x []int) (kernel.Conv, error) {
	groups := max(c.Groups, 1)
	if len(x) != 4 || x[1] != w[1]*groups {
		return kernel.Conv{}, shapeError(name, x, fmt.Sprintf("[batch, %d, height, width] for the weight %v and %d groups", w[1]*groups, w, groups))
	}
	geometry := kernel.Conv{
		N: x[0], CI: x[1], H: x[2], W: x[3],
		CO: w[0], KH: w[2], KW: w[3],
		StrideH: orOne(c.Stride), StrideW: orOne(c.Stride),
		PadH: c.Padding, PadW: c.Padding,
		DilH: orOne(c.Dilation), DilW: orOne(c.Dilation),
		Groups: orOne(c.Groups),
	}
	if err := geometry.Validate(); err != nil {
		return kernel.Conv{}, fmt.Errorf("nn: layer %s: input of shape %v, weight %v: %w", name, x, w, err)
	}
	return geometry, nil
}

// orOne gives a setting's zero value its meaning.
func orOne(v int) int {
	if v == 0 {
		return 1
	}
	return v
}

// conv2d adds y = conv(x, w) + b, followed by a ReLU if asked. The inputs are
// x, w and, if there is one, b.
func (g *Graph) conv2d(layer string, c kernel.Conv, inputs []*gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	x, w := inputs[0], inputs[1]
	return g.apply(opSpec{
		layer: layer, kind: "conv2d", in: inputs, shape: []int{c.N, c.CO, c.OutH(), c.OutW()},
		diff: []bool{true, true, true}[:len(inputs)],
		run: func(rc *runContext, v [][]float32, y []float32) error {
			kernel.ConvForward(rc.pool, c, v[0], v[1], optional(v, 2), y, relu, rc.ws)
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			dz, err := g.beforeReLU(layer, y, dy, relu)
			if err != nil {
				return nil, err
			}
			grads := make([]*gorgonia.Node, len(inputs))
			if want[0] {
				if grads[0], err = g.convBackwardInput(layer, c, dz, w); err != nil {
					return nil, err
				}
			}
			wantBias := len(inputs) > 2 && want[2]
			switch {
			case want[1]:
				var db *gorgonia.Node
				grads[1], db, err = g.convBackwardParams(layer, c, x, dz, wantBias)
				if wantBias {
					grads[2] = db
				}
			case wantBias:
				grads[2], err = g.convBackwardBias(layer, c, dz)
			}
			return grads, err
		},
	})
}

func (g *Graph) convBackwardInput(layer string, c kernel.Conv, dy, w *gorgonia.Node) (*gorgonia.Node, error) {
	return g.apply(opSpec{
		layer: layer, kind: "conv2d backward input", in: []*gorgonia.Node{dy, w}, shape: []int{c.N, c.CI, c.H, c.W},
		run: func(rc *runContext, v [][]float32, dx []float32) error {
			kernel.ConvBackwardInput(rc.pool, c, v[0], v[1], dx, rc.ws)
			return nil
		},
	})
}

// convBackwardParams adds the gradients of the weight and, if asked, of the
// bias: one pass over dy gives both.
func (g *Graph) convBackwardParams(layer string, c kernel.Conv, x, dy *gorgonia.Node, bias bool) (dw, db *gorgonia.Node, err error) {
	var second *op
	dw, err = g.apply(opSpec{
		layer: layer, kind: "conv2d backward weight", in: []*gorgonia.Node{x, dy}, shape: []int{c.CO, c.CI / c.Groups, c.KH, c.KW},
		run: func(rc *runContext, v [][]float32, dw []float32) error {
			kernel.ConvBackwardParams(rc.pool, c, v[0], v[1], dw, viewBuffer(second), rc.ws)
			return nil
		},
	})
	if err != nil || !bias {
		return dw, nil, err
	}
	second, err = g.view(opSpec{layer: layer, kind: "conv2d backward bias", shape: []int{c.CO}}, dw.Op().(*op))
	if err != nil {
		return nil, nil, err
	}
	return dw, second.node, nil
}

// convBackwardBias adds the gradient of the bias where that of the weight is not wanted.
func (g *Graph) convBackwardBias(layer string, c kernel.Conv, dy *gorgonia.Node) (*gorgonia.Node, error) {
	return g.apply(opSpec{
		layer: layer, kind: "conv2d backward bias", in: []*gorgonia.Node{dy}, shape: []int{c.CO},
		run: func(rc *runContext, v [][]float32, db []float32) error {
			kernel.ConvBackwardBias(rc.pool, c, v[0], db)
			return nil
		},
	})
}

// channelBiasActivation adds y = x + b by channels, followed by a ReLU if
// asked; b may be nil. The geometry is that of the convolution that gave x.
func (g *Graph) channelBiasActivation(layer string, c kernel.Conv, x, b *gorgonia.Node, relu bool) (*gorgonia.Node, error) {
	inputs := []*gorgonia.Node{x}
	if b != nil {
		inputs = append(inputs, b)
	}
	plane := c.OutH() * c.OutW()
	ones := make([]float32, plane)
	for i := range ones {
		ones[i] = 1
	}
	return g.apply(opSpec{
		layer: layer, kind: "bias and activation", in: inputs, shape: x.Shape(), diff: []bool{true, true}[:len(inputs)],
		run: func(rc *runContext, v [][]float32, y []float32) error {
			bias := optional(v, 1)
			rc.pool.Run(c.N*c.CO, func(i int) {
				dst := y[i*plane : (i+1)*plane]
				copy(dst, v[0][i*plane:])
				if bias != nil {
					kernel.Axpy(dst, bias[i%c.CO], ones)
				}
				if relu {
					kernel.ReLU(dst, dst)
				}
			})
			return nil
		},
		grad: biasActivationGrad(layer, len(inputs), relu, func(g *Graph, dz *gorgonia.Node) (*gorgonia.Node, error) {
			return g.convBackwardBias(layer, c, dz)
		}),
	})
}
