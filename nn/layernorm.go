package nn

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// LayerNorm normalises over the last dimensions of x, those of Weight, and
// multiplies and adds entry by entry (Ba, Kiros and Hinton 2016, section 3):
//
//	y = Weight * (x - mean) / sqrt(var + Eps) + Bias
type LayerNorm struct {
	Weight, Bias *Param  // of the shape that is normalised over
	Eps          float64 // 0 means 1e-5
}

// NewLayerNorm returns a layer with weights of 1 and biases of 0.
func NewLayerNorm(shape ...int) *LayerNorm {
	l := &LayerNorm{Weight: NewParam(shape...), Bias: NewParam(shape...)}
	fill(l.Weight.Value.Data, 1)
	return l
}

// Forward adds the layer to the graph.
func (l *LayerNorm) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	name := g.Name(l, "layernorm")
	if l.Weight == nil || l.Bias == nil || !slices.Equal(l.Weight.Value.Shape, l.Bias.Value.Shape) {
		return nil, fmt.Errorf("nn: layer %s: want a weight and a bias of one shape", name)
	}
	s, over := x.Shape(), l.Weight.Value.Shape
	if len(s) <= len(over) || len(over) == 0 || !slices.Equal(s[len(s)-len(over):], over) {
		return nil, shapeError(name, s, fmt.Sprintf("[batch, ...] ending with %v", over))
	}
	eps := orDefault(l.Eps, 1e-5)
	if !(eps > 0) {
		return nil, fmt.Errorf("nn: layer %s: epsilon %v, want at least 0 (for the default)", name, l.Eps)
	}
	w, err := g.Param(l.Weight)
	if err != nil {
		return nil, err
	}
	b, err := g.Param(l.Bias)
	if err != nil {
		return nil, err
	}
	return g.layerNorm(name, kernel.LayerNorm{Rows: size(s) / size(over), Cols: size(over), Eps: eps}, x, w, b)
}

func (g *Graph) layerNorm(layer string, c kernel.LayerNorm, x, w, b *gorgonia.Node) (*gorgonia.Node, error) {
	mean, invStd := make([]float32, c.Rows), make([]float32, c.Rows)
	return g.apply(opSpec{
		layer: layer, kind: "layernorm", in: []*gorgonia.Node{x, w, b}, shape: x.Shape(), diff: []bool{true, true, true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			kernel.LayerNormForward(rc.pool, c, v[0], v[1], v[2], y, mean, invStd)
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			var dw, db *op
			dx, err := g.apply(opSpec{
				// y is listed so that this runs after it has saved the statistics.
				layer: layer, kind: "layernorm backward", in: []*gorgonia.Node{x, w, dy, y}, shape: x.Shape(),
				run: func(rc *runContext, v [][]float32, dx []float32) error {
					kernel.LayerNormBackward(rc.pool, c, v[0], v[1], mean, invStd, v[2], dx, viewBuffer(dw), viewBuffer(db))
					return nil
				},
			})
			if err != nil || !want[1] && !want[2] {
				return []*gorgonia.Node{dx, nil, nil}, err
			}
			by := dx.Op().(*op) // which computes both or neither
			if dw, err = g.view(opSpec{layer: layer, kind: "layernorm backward weight", shape: w.Shape()}, by); err != nil {
				return nil, err
			}
			if db, err = g.view(opSpec{layer: layer, kind: "layernorm backward bias", shape: b.Shape()}, by); err != nil {
				return nil, err
			}
			return []*gorgonia.Node{dx, dw.node, db.node}, nil
		},
	})
}
