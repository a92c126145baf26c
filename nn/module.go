package nn

import "gorgonia.org/gorgonia"

// Module is a layer or a model. Forward adds its computation on x to the
// graph and returns the output. It is called once for every graph that a
// Network builds, so it must do the same thing each time; what depends on the
// mode asks g.Training.
type Module interface {
	Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error)
}
