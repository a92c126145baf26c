package models

import (
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// Convnet is the MNIST convnet: three 3x3 convolutions of 32, 64 and 128
// channels, each followed by ReLU and 2x2 pooling, then a hidden layer of 625
// units. On [1, 28, 28] it has 820,000 parameters, most of them in FC1.
type Convnet struct {
	Conv1, Conv2, Conv3 *nn.Conv2d
	FC1, FC2            *nn.Linear
}

// NewConvnet makes a Convnet for images of at least 8x8.
func NewConvnet(classes int, inputShape []int, rng *rand.Rand) (*Convnet, error) {
	c, h, w, err := image("convnet", inputShape, 3)
	if err != nil {
		return nil, err
	}
	same := nn.Conv2dConfig{Padding: 1}
	return &Convnet{
		Conv1: nn.NewConv2d(rng, c, 32, 3, same),
		Conv2: nn.NewConv2d(rng, 32, 64, 3, same),
		Conv3: nn.NewConv2d(rng, 64, 128, 3, same),
		FC1:   nn.NewLinear(rng, 128*(h/8)*(w/8), 625),
		FC2:   nn.NewLinear(rng, 625, classes),
	}, nil
}

// Forward adds the model to the graph.
func (m *Convnet) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	pool := nn.MaxPool2d{Kernel: 2}
	return nn.Chain(g, x,
		m.Conv1, nn.ReLU{}, pool,
		m.Conv2, nn.ReLU{}, pool,
		m.Conv3, nn.ReLU{}, pool,
		nn.Flatten{}, m.FC1, nn.ReLU{}, m.FC2)
}
