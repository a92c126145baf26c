package models

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// LeNet is LeNet-5 (LeCun et al. 1998) as it is built today: ReLU in place of
// tanh, max pooling in place of trained averages, softmax in place of radial
// basis functions. Images of 28x28 are padded to the paper's 32x32 by the
// first convolution.
type LeNet struct {
	Conv1, Conv2  *nn.Conv2d
	FC1, FC2, FC3 *nn.Linear
}

// NewLeNet makes a LeNet for images of at least 12x12.
func NewLeNet(classes int, inputShape []int, rng *rand.Rand) (*LeNet, error) {
	c, h, w, err := image("lenet", inputShape, 0)
	if err != nil {
		return nil, err
	}
	h, w = (h/2-4)/2, (w/2-4)/2
	if h < 1 || w < 1 {
		return nil, fmt.Errorf("models: lenet: input shape %v, want images of at least 12x12", inputShape)
	}
	return &LeNet{
		Conv1: nn.NewConv2d(rng, c, 6, 5, nn.Conv2dConfig{Padding: 2}),
		Conv2: nn.NewConv2d(rng, 6, 16, 5, nn.Conv2dConfig{}),
		FC1:   nn.NewLinear(rng, 16*h*w, 120),
		FC2:   nn.NewLinear(rng, 120, 84),
		FC3:   nn.NewLinear(rng, 84, classes),
	}, nil
}

// Forward adds the model to the graph.
func (m *LeNet) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	pool := nn.MaxPool2d{Kernel: 2}
	return nn.Chain(g, x,
		m.Conv1, nn.ReLU{}, pool,
		m.Conv2, nn.ReLU{}, pool,
		nn.Flatten{}, m.FC1, nn.ReLU{}, m.FC2, nn.ReLU{}, m.FC3)
}
