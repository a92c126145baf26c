package models

import (
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// ResNet is the residual network for photographs of He et al. (2016, table 1),
// as torchvision has it: with the stride of a Bottleneck in its 3x3 convolution.
type ResNet struct {
	Conv1                          *nn.Conv2d
	BN1                            *nn.BatchNorm
	Layer1, Layer2, Layer3, Layer4 []nn.Module // of BasicBlock or Bottleneck
	FC                             *nn.Linear
}

// BasicBlock is a block of two 3x3 convolutions.
type BasicBlock struct {
	Conv1      *nn.Conv2d
	BN1        *nn.BatchNorm
	Conv2      *nn.Conv2d
	BN2        *nn.BatchNorm
	Downsample nn.Sequential // empty where the block keeps the shape
}

// Bottleneck is a block whose 3x3 convolution works on a quarter of the channels.
type Bottleneck struct {
	Conv1      *nn.Conv2d
	BN1        *nn.BatchNorm
	Conv2      *nn.Conv2d
	BN2        *nn.BatchNorm
	Conv3      *nn.Conv2d
	BN3        *nn.BatchNorm
	Downsample nn.Sequential
}

// bottleneckExpansion is how many times more channels a Bottleneck gives than
// its 3x3 convolution has.
const bottleneckExpansion = 4

// NewResNet makes a ResNet with so many blocks in each of its four groups, {2,
// 2, 2, 2} for ResNet-18, for images of any size from 32x32.
func NewResNet(blocks [4]int, bottleneck bool, classes int, inputShape []int, rng *rand.Rand) (*ResNet, error) {
	channels, _, _, err := image("resnet", inputShape, 5)
	if err != nil {
		return nil, err
	}
	m := &ResNet{
		Conv1: nn.NewConv2d(rng, channels, 64, 7, nn.Conv2dConfig{Stride: 2, Padding: 3}, nn.NoBias(), nn.WeightInit(nn.HeNormalOut)),
		BN1:   norm(64),
	}
	in := 64
	for i, layer := range []*[]nn.Module{&m.Layer1, &m.Layer2, &m.Layer3, &m.Layer4} {
		for j := range blocks[i] {
			width, stride := 64<<i, 1
			if i > 0 && j == 0 {
				stride = 2
			}
			if bottleneck {
				*layer = append(*layer, newBottleneck(rng, in, width, stride))
				in = width * bottleneckExpansion
			} else {
				*layer = append(*layer, newBasicBlock(rng, in, width, stride))
				in = width
			}
		}
	}
	m.FC = nn.NewLinear(rng, in, classes)
	return m, nil
}

func newBasicBlock(rng *rand.Rand, in, width, stride int) *BasicBlock {
	return &BasicBlock{
		Conv1: conv3x3(rng, in, width, stride), BN1: norm(width),
		Conv2: conv3x3(rng, width, width, 1), BN2: norm(width),
		Downsample: downsample(rng, in, width, stride),
	}
}

func newBottleneck(rng *rand.Rand, in, width, stride int) *Bottleneck {
	out := width * bottleneckExpansion
	return &Bottleneck{
		Conv1: conv1x1(rng, in, width, 1), BN1: norm(width),
		Conv2: conv3x3(rng, width, width, stride), BN2: norm(width),
		Conv3: conv1x1(rng, width, out, 1), BN3: norm(out),
		Downsample: downsample(rng, in, out, stride),
	}
}

// downsample is the shortcut of a block that changes the shape.
func downsample(rng *rand.Rand, in, out, stride int) nn.Sequential {
	if stride == 1 && in == out {
		return nil
	}
	return nn.Sequential{conv1x1(rng, in, out, stride), norm(out)}
}

// Forward adds the block to the graph.
func (b *BasicBlock) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	shortcut, err := b.Downsample.Forward(g, x)
	if err != nil {
		return nil, err
	}
	return nn.ChainAdd(g, x, shortcut, true, b.Conv1, b.BN1, nn.ReLU{}, b.Conv2, b.BN2)
}

// Forward adds the block to the graph.
func (b *Bottleneck) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	shortcut, err := b.Downsample.Forward(g, x)
	if err != nil {
		return nil, err
	}
	return nn.ChainAdd(g, x, shortcut, true, b.Conv1, b.BN1, nn.ReLU{}, b.Conv2, b.BN2, nn.ReLU{}, b.Conv3, b.BN3)
}

// Forward adds the model to the graph.
func (m *ResNet) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	list := []nn.Module{m.Conv1, m.BN1, nn.ReLU{}, nn.MaxPool2d{Kernel: 3, Stride: 2, Padding: 1}}
	for _, layer := range [][]nn.Module{m.Layer1, m.Layer2, m.Layer3, m.Layer4} {
		list = append(list, layer...)
	}
	return nn.Chain(g, x, append(list, nn.GlobalAvgPool2d{}, m.FC)...)
}
