package models

import (
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// MLP is a perceptron with hidden layers of 600 and 300 units and ReLU.
type MLP struct {
	FC1, FC2, FC3 *nn.Linear
}

// NewMLP makes an MLP for samples of any shape.
func NewMLP(classes int, inputShape []int, rng *rand.Rand) (*MLP, error) {
	in := 1
	for _, d := range inputShape {
		in *= d
	}
	return &MLP{
		FC1: nn.NewLinear(rng, in, 600),
		FC2: nn.NewLinear(rng, 600, 300),
		FC3: nn.NewLinear(rng, 300, classes),
	}, nil
}

// Forward adds the model to the graph.
func (m *MLP) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return nn.Chain(g, x, nn.Flatten{}, m.FC1, nn.ReLU{}, m.FC2, nn.ReLU{}, m.FC3)
}
