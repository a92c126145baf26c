package models

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// VGG is the network of Simonyan and Zisserman (2015, table 1), as torchvision
// has it: 3x3 convolutions, five times halving the image, an average of 7x7 and
// three large Linear layers with dropout.
type VGG struct {
	Features   nn.Sequential
	Classifier nn.Sequential
}

// VGGConfig says which VGG to make.
type VGGConfig struct {
	// Stages holds the number of convolutions before each pooling: {1, 1, 2, 2,
	// 2} for VGG-11.
	Stages    [5]int
	BatchNorm bool
	Hidden    int     // units of the two hidden layers; 0 means 4096
	Dropout   float64 // 0 means 0.5
}

// NewVGG makes a VGG for images of at least 32x32.
func NewVGG(c VGGConfig, classes int, inputShape []int, rng *rand.Rand) (*VGG, error) {
	in, _, _, err := image("vgg", inputShape, 5)
	if err != nil {
		return nil, err
	}
	if c.Hidden < 0 {
		return nil, fmt.Errorf("models: vgg: %d hidden units, want at least 0 (for the default)", c.Hidden)
	}
	if c.Hidden == 0 {
		c.Hidden = 4096
	}
	if c.Dropout == 0 {
		c.Dropout = 0.5
	}
	m := &VGG{}
	for i, convolutions := range c.Stages {
		out := min(64<<i, 512)
		for range convolutions {
			m.Features = append(m.Features, nn.NewConv2d(rng, in, out, 3, nn.Conv2dConfig{Padding: 1},
				nn.WeightInit(nn.HeNormalOut), nn.BiasInit(nn.Zeros)))
			if c.BatchNorm {
				m.Features = append(m.Features, norm(out))
			}
			m.Features = append(m.Features, nn.ReLU{})
			in = out
		}
		m.Features = append(m.Features, nn.MaxPool2d{Kernel: 2})
	}
	linear := func(in, out int) *nn.Linear {
		return nn.NewLinear(rng, in, out, nn.WeightInit(nn.Normal(0.01)), nn.BiasInit(nn.Zeros))
	}
	m.Classifier = nn.Sequential{
		linear(in*7*7, c.Hidden), nn.ReLU{}, nn.Dropout{Rate: c.Dropout},
		linear(c.Hidden, c.Hidden), nn.ReLU{}, nn.Dropout{Rate: c.Dropout},
		linear(c.Hidden, classes),
	}
	return m, nil
}

// Forward adds the model to the graph.
func (m *VGG) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	y, err := nn.Chain(g, x, append(m.Features[:len(m.Features):len(m.Features)], nn.AdaptiveAvgPool2d{Height: 7, Width: 7}, nn.Flatten{})...)
	if err != nil {
		return nil, err
	}
	return m.Classifier.Forward(g, y)
}

// NewSmallVGG makes a network in the manner of VGG for images of at least
// 16x16: six 3x3 convolutions with batch normalisation, from 64 to 512 channels,
// four times halving the image, and one hidden layer of 512 units.
func NewSmallVGG(classes int, inputShape []int, rng *rand.Rand) (nn.Sequential, error) {
	in, h, w, err := image("vgg-small", inputShape, 4)
	if err != nil {
		return nil, err
	}
	var m nn.Sequential
	for i, convolutions := range []int{1, 1, 2, 2} {
		out := 64 << i
		for range convolutions {
			m = append(m, conv3x3(rng, in, out, 1), norm(out), nn.ReLU{})
			in = out
		}
		m = append(m, nn.MaxPool2d{Kernel: 2})
	}
	return append(m, nn.Flatten{}, nn.NewLinear(rng, in*(h/16)*(w/16), 512), nn.ReLU{}, nn.NewLinear(rng, 512, classes)), nil
}
