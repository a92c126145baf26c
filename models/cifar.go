package models

import (
	"math/rand/v2"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/nn"
)

// CIFARResNet is the residual network for small images of He et al. (2016,
// section 4.2): a 3x3 convolution, then three groups of blocks of 16, 32 and 64
// channels, each but the first halving the image, then the average and one
// Linear. A shortcut between groups is a 1x1 convolution (option B).
type CIFARResNet struct {
	Conv1                  *nn.Conv2d
	BN1                    *nn.BatchNorm
	Layer1, Layer2, Layer3 []*CIFARBlock
	FC                     *nn.Linear
}

// CIFARBlock is a block of two 3x3 convolutions.
type CIFARBlock struct {
	Conv1    *nn.Conv2d
	BN1      *nn.BatchNorm
	Conv2    *nn.Conv2d
	BN2      *nn.BatchNorm
	Shortcut nn.Sequential // empty where the block keeps the shape
}

// NewCIFARResNet makes a network of 6*blocks+2 layers, 3 blocks for ResNet-20,
// for images of at least 4x4.
func NewCIFARResNet(blocks, classes int, inputShape []int, rng *rand.Rand) (*CIFARResNet, error) {
	channels, _, _, err := image("resnet for small images", inputShape, 2)
	if err != nil {
		return nil, err
	}
	m := &CIFARResNet{Conv1: conv3x3(rng, channels, 16, 1), BN1: norm(16)}
	in := 16
	for i, layer := range []*[]*CIFARBlock{&m.Layer1, &m.Layer2, &m.Layer3} {
		for j := range blocks {
			out, stride := 16<<i, 1
			if i > 0 && j == 0 {
				stride = 2
			}
			*layer = append(*layer, newCIFARBlock(rng, in, out, stride))
			in = out
		}
	}
	m.FC = nn.NewLinear(rng, in, classes)
	return m, nil
}

func newCIFARBlock(rng *rand.Rand, in, out, stride int) *CIFARBlock {
	b := &CIFARBlock{
		Conv1: conv3x3(rng, in, out, stride), BN1: norm(out),
		Conv2: conv3x3(rng, out, out, 1), BN2: norm(out),
	}
	if stride != 1 || in != out {
		b.Shortcut = nn.Sequential{conv1x1(rng, in, out, stride), norm(out)}
	}
	return b
}

// Forward adds the block to the graph.
func (b *CIFARBlock) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	shortcut, err := b.Shortcut.Forward(g, x)
	if err != nil {
		return nil, err
	}
	return nn.ChainAdd(g, x, shortcut, true, b.Conv1, b.BN1, nn.ReLU{}, b.Conv2, b.BN2)
}

// Forward adds the model to the graph.
func (m *CIFARResNet) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	list := []nn.Module{m.Conv1, m.BN1, nn.ReLU{}}
	list = appendAll(list, m.Layer1)
	list = appendAll(list, m.Layer2)
	list = appendAll(list, m.Layer3)
	return nn.Chain(g, x, append(list, nn.GlobalAvgPool2d{}, m.FC)...)
}

// appendAll appends modules of one type.
func appendAll[M nn.Module](list []nn.Module, modules []M) []nn.Module {
	for _, m := range modules {
		list = append(list, m)
	}
	return list
}

// conv3x3 is a convolution that keeps the size of an image, but for its stride.
// The weights are drawn as by the paper's authors.
func conv3x3(rng *rand.Rand, in, out, stride int) *nn.Conv2d {
	return nn.NewConv2d(rng, in, out, 3, nn.Conv2dConfig{Stride: stride, Padding: 1}, nn.NoBias(), nn.WeightInit(nn.HeNormalOut))
}

func conv1x1(rng *rand.Rand, in, out, stride int) *nn.Conv2d {
	return nn.NewConv2d(rng, in, out, 1, nn.Conv2dConfig{Stride: stride}, nn.NoBias(), nn.WeightInit(nn.HeNormalOut))
}

func norm(channels int) *nn.BatchNorm { return nn.NewBatchNorm(channels, nn.BatchNormConfig{}) }
