package nn

import (
	"math"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// folded adds a convolution and the BatchNorm behind it to a graph for
// evaluation, followed by a ReLU if asked: with the running statistics, the
// normalisation is an affine map of each output channel, so that
//
//	scale * (conv(x, W) + b - mean) + beta = conv(x, scale * W) + beta + scale * (b - mean)
//
// with scale = gamma / sqrt(var + eps). The weights are scaled anew in each
// run, because a step may have changed them; that is little beside the product.
func (l *Conv2d) folded(g *Graph, x *gorgonia.Node, norm *BatchNorm, relu bool) (*gorgonia.Node, error) {
	name := g.Name(l, "conv2d")
	c, in, err := l.bind(g, name, x)
	if err != nil {
		return nil, err
	}
	shape := []int{c.N, c.CO, c.OutH(), c.OutW()}
	n, err := norm.bindShape(g, shape, relu)
	if err != nil {
		return nil, err
	}
	own := len(in)
	in = append(in, n.in...) // the first of which is nil
	in[own] = x
	w, b := make([]float32, c.CO*c.CI/c.Groups*c.KH*c.KW), make([]float32, c.CO)
	return g.apply(opSpec{
		layer: name, kind: "conv2d with batchnorm", in: in, shape: shape,
		run: func(rc *runContext, v [][]float32, y []float32) error {
			n.fold(w, b, v[1], optional(v[:own], 2), n.params(v[own:]))
			kernel.ConvForward(rc.pool, c, v[0], w, b, y, relu, rc.ws)
			return nil
		},
	})
}

// fold computes weight and bias of the folded convolution; bias may be nil.
func (n *batchNormNode) fold(w, b, weight, bias []float32, p kernel.BatchNormParams) {
	filter := len(w) / len(b)
	for c := range b {
		scale, offset := 1/math.Sqrt(float64(p.RunningVar[c])+n.geometry.Eps), -float64(p.RunningMean[c])
		if p.Gamma != nil {
			scale *= float64(p.Gamma[c])
		}
		if bias != nil {
			offset += float64(bias[c])
		}
		offset *= scale
		if p.Beta != nil {
			offset += float64(p.Beta[c])
		}
		b[c] = float32(offset)
		kernel.Scale(w[c*filter:(c+1)*filter], float32(scale), weight[c*filter:(c+1)*filter])
	}
}
