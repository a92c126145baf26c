package nn

import "gorgonia.org/gorgonia"

// Sequential is a model that passes its input through modules in turn. Their
// names are their indices.
type Sequential []Module

// Forward adds the modules to the graph, see Chain.
func (s Sequential) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return Chain(g, x, s...)
}

// fusable is a layer that can apply a ReLU to its output on the way.
type fusable interface {
	forward(g *Graph, x *gorgonia.Node, relu bool) (*gorgonia.Node, error)
}

// Chain passes x through modules in turn. What no one else can see is fused:
// a ReLU into the Linear, Conv2d, BatchNorm or MaxPool2d before it or into the
// MaxPool2d behind it. The latter is preferred, since there is less to do after
// pooling, and the maximum of max(0, x) is max(0, the maximum of x). In
// evaluation a BatchNorm becomes part of the Conv2d before it.
func Chain(g *Graph, x *gorgonia.Node, modules ...Module) (*gorgonia.Node, error) {
	for len(modules) > 0 {
		y, used, err := chainNext(g, x, modules)
		if err != nil {
			return nil, err
		}
		x, modules = y, modules[used:]
	}
	return x, nil
}

// chainNext adds the first module together with those behind it that it can be
// fused with, and returns how many that makes.
func chainNext(g *Graph, x *gorgonia.Node, m []Module) (y *gorgonia.Node, used int, err error) {
	if isReLU(m, 0) && isPool(m, 1) {
		y, err = m[1].(fusable).forward(g, x, true)
		return y, 2, err
	}
	used = 1
	conv, norm := foldable(g, m)
	if norm != nil {
		used = 2
	}
	relu := isReLU(m, used) && !isPool(m, used+1)
	first, fuses := m[0].(fusable)
	switch {
	case norm != nil:
		y, err = conv.folded(g, x, norm, relu)
	case fuses:
		y, err = first.forward(g, x, relu)
	default:
		y, err = m[0].Forward(g, x)
		return y, used, err
	}
	if relu {
		used++
	}
	return y, used, err
}

// foldable returns the convolution and the batch normalisation that modules
// begin with, if they can be folded into one.
func foldable(g *Graph, m []Module) (*Conv2d, *BatchNorm) {
	if g.Training() || len(m) < 2 {
		return nil, nil
	}
	conv, ok := m[0].(*Conv2d)
	if !ok || conv.placement != nil && g.placed {
		return nil, nil
	}
	norm, _ := m[1].(*BatchNorm)
	return conv, norm
}

func isReLU(m []Module, i int) bool {
	if i >= len(m) {
		return false
	}
	switch m[i].(type) {
	case ReLU, *ReLU:
		return true
	}
	return false
}

func isPool(m []Module, i int) bool {
	if i >= len(m) {
		return false
	}
	switch m[i].(type) {
	case MaxPool2d, *MaxPool2d:
		return true
	}
	return false
}
