package nn

import (
	"fmt"

	"github.com/coda-ml/coda/nn/shard"
)

// placeable is a layer whose product can be placed.
type placeable interface {
	Module
	kind() string // the name of a model that is nothing but the layer
	product() (weight *Param, on Placement)
	// shard describes the layer to the workers; backward tells that the gradient
	// of its input is wanted.
	shard(backward bool) (shard.Config, error)
}

var _, _ placeable = (*Linear)(nil), (*Conv2d)(nil)

func (l *Linear) kind() string { return "linear" }

func (l *Linear) product() (*Param, Placement) { return l.Weight, l.placement }

func (l *Linear) shard(backward bool) (shard.Config, error) {
	if l.Weight == nil || len(l.Weight.Value.Shape) != 2 {
		return nil, fmt.Errorf("a linear layer without a weight of shape [out, in]")
	}
	shape := l.Weight.Value.Shape
	return shard.LinearConfig{In: shape[1], Out: shape[0], Backward: backward}, nil
}

func (l *Conv2d) kind() string { return "conv2d" }

func (l *Conv2d) product() (*Param, Placement) { return l.Weight, l.placement }

func (l *Conv2d) shard(backward bool) (shard.Config, error) {
	if l.Weight == nil || len(l.Weight.Value.Shape) != 4 {
		return nil, fmt.Errorf("a convolution without a weight of shape [out, in/groups, height, width]")
	}
	shape, c := l.Weight.Value.Shape, l.Config
	groups := orOne(c.Groups)
	return shard.Conv2dConfig{
		In: shape[1] * groups, Out: shape[0], KernelH: shape[2], KernelW: shape[3],
		Stride: orOne(c.Stride), Padding: c.Padding, Dilation: orOne(c.Dilation), Groups: groups, Backward: backward,
	}, nil
}
