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
// a ReLU into the Linear, Conv2d or MaxPool2d before it or into the MaxPool2d
// behind it. The latter is preferred, since there is less to do after pooling,
// and the maximum of max(0, x) is max(0, the maximum of x).
func Chain(g *Graph, x *gorgonia.Node, modules ...Module) (*gorgonia.Node, error) {
	var err error
	for i := 0; i < len(modules); i++ {
		m := modules[i]
		f, ok := m.(fusable)
		switch {
		case ok && isReLU(modules, i+1) && !isPool(modules, i+2):
			x, err = f.forward(g, x, true)
			i++
		case isReLU(modules, i) && isPool(modules, i+1):
			x, err = modules[i+1].(fusable).forward(g, x, true)
			i++
		default:
			x, err = m.Forward(g, x)
		}
		if err != nil {
			return nil, err
		}
	}
	return x, nil
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
