package nn

import (
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// The activations below are element-wise, for any shape, as PyTorch defines
// them. NaN stays NaN.
type (
	// LeakyReLU computes x where x > 0, else Slope * x (Maas et al. 2013).
	LeakyReLU struct {
		Slope float64 // 0 means 0.01
	}
	// GELU computes x * P(X <= x) for a standard normal X (Hendrycks and Gimpel
	// 2016), not the approximation by tanh.
	GELU struct{}
	// SiLU computes x * sigmoid(x), also called swish.
	SiLU struct{}
	// Tanh computes the hyperbolic tangent.
	Tanh struct{}
	// Sigmoid computes 1 / (1 + exp(-x)).
	Sigmoid struct{}
	// Softplus computes log(1 + exp(x)).
	Softplus struct{}
	// ELU computes x where x > 0, else Alpha * (exp(x) - 1) (Clevert et al. 2016).
	ELU struct {
		Alpha float64 // 0 means 1
	}
	// Hardswish computes x * min(max(x+3, 0), 6) / 6 (Howard et al. 2019).
	Hardswish struct{}
)

// Forward adds the activation to the graph.
func (a LeakyReLU) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActLeakyReLU, orDefault(a.Slope, 0.01))
}

// Forward adds the activation to the graph.
func (GELU) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActGELU, 0)
}

// Forward adds the activation to the graph.
func (SiLU) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActSiLU, 0)
}

// Forward adds the activation to the graph.
func (Tanh) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActTanh, 0)
}

// Forward adds the activation to the graph.
func (Sigmoid) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActSigmoid, 0)
}

// Forward adds the activation to the graph.
func (Softplus) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActSoftplus, 0)
}

// Forward adds the activation to the graph.
func (a ELU) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActELU, orDefault(a.Alpha, 1))
}

// Forward adds the activation to the graph.
func (Hardswish) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.activation(x, kernel.ActHardswish, 0)
}

// activation adds an element-wise function of x.
func (g *Graph) activation(x *gorgonia.Node, a kernel.Activation, parameter float64) (*gorgonia.Node, error) {
	kind := a.String()
	name, p := g.number(kind), float32(parameter)
	return g.apply(opSpec{
		layer: name, kind: kind, in: []*gorgonia.Node{x}, shape: x.Shape(), diff: []bool{true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			kernel.Activate(rc.pool, a, p, y, v[0])
			return nil
		},
		grad: func(g *Graph, y, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			z := x
			if a.UsesOutput() {
				z = y
			}
			dx, err := g.apply(opSpec{
				layer: name, kind: kind + " backward", in: []*gorgonia.Node{z, dy}, shape: x.Shape(),
				run: func(rc *runContext, v [][]float32, dx []float32) error {
					kernel.ActivateBackward(rc.pool, a, p, dx, v[1], v[0])
					return nil
				},
			})
			return []*gorgonia.Node{dx}, err
		},
	})
}
