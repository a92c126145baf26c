package nn

import "gorgonia.org/gorgonia"

// Placement says where the product of a layer is computed. A layer without
// one multiplies on the spot.
type Placement interface {
	// Product adds to a training graph the nodes that compute the product of
	// a layer and x, without bias and activation. The nodes' derivatives give the
	// gradient of x where it is wanted; that of the weight is the placement's own
	// affair, which is told by a Remote weight. Graphs for evaluation use the
	// weight's local value instead, unless Config.Placed says otherwise: then the
	// result alone is wanted.
	Product(g *Graph, p Product, x *gorgonia.Node) (*gorgonia.Node, error)
}

// Product is what a layer wants a Placement to compute: of a Linear with weight
// [out, in] and x [batch, in] it is x·weightᵀ, of a Conv2d their convolution.
type Product struct {
	Layer  string
	Weight *Param
	Conv   *Conv2dConfig // of a Conv2d; nil of a Linear
	Output []int         // shape of the result
}

// Option is a setting of a layer's constructor.
type Option func(*options)

type options struct {
	noBias     bool
	weightInit Init
	biasInit   Init
	placement  Placement
}

func newOptions(opts []Option) options {
	o := options{weightInit: DefaultWeight, biasInit: DefaultBias}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// On puts the layer's product on a placement.
func On(p Placement) Option { return func(o *options) { o.placement = p } }

// NoBias leaves the bias out.
func NoBias() Option { return func(o *options) { o.noBias = true } }

// WeightInit sets how the weights are drawn; the default is DefaultWeight.
func WeightInit(f Init) Option { return func(o *options) { o.weightInit = f } }

// BiasInit sets how the bias is drawn; the default is DefaultBias.
func BiasInit(f Init) Option { return func(o *options) { o.biasInit = f } }
