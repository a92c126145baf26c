package nn

import (
	"fmt"

	"github.com/coda-ml/coda/nn/shard"
)

// Placeable is a layer whose product can be placed: a Linear or a Conv2d.
type Placeable struct {
	Name   string // "linear" or "conv2d" where the model is nothing but the layer
	Weight NamedParam
	// First tells that no trainable parameter comes before it in the model, in
	// the order of Params: so nobody wants the gradient of its input.
	First bool
	Layer interface {
		Module
		Place(Placement)
	}

	on     Placement
	module placeable
}

// Placeables lists the layers of a model whose products can be placed, in the
// order of Params.
func Placeables(model Module) ([]Placeable, error) {
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	layers := make(map[*Param]placeable)
	for key := range w.names {
		if l, ok := key.(placeable); ok {
			weight, _ := l.product()
			layers[weight] = l
		}
	}
	var found []Placeable
	first := true
	for _, p := range w.params {
		if l := layers[p.Param]; l != nil {
			name := w.names[l]
			if name == "" {
				name = l.kind()
			}
			_, on := l.product()
			found = append(found, Placeable{Name: name, Weight: p, First: first, Layer: l, on: on, module: l})
		}
		first = first && p.Frozen
	}
	return found, nil
}

// Shape returns the numbers of input and output features, or channels, of the
// layer and of the groups that they are divided in.
func (p Placeable) Shape() (in, out, groups int) {
	in, out, groups = p.Weight.Value.Shape[1], p.Weight.Value.Shape[0], 1
	if c, ok := p.module.(*Conv2d); ok {
		groups = orOne(c.Config.Groups)
	}
	return in * groups, out, groups
}

// placeable is a layer whose product can be placed.
type placeable interface {
	Module
	Place(Placement)
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
