package nn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/internal/kernel"
)

// gradients adds the nodes of reverse-mode differentiation of a scalar and
// returns the gradient of every node that needs one.
//
// It walks gorgonia's graph backwards and asks each operation's SymDiff, as
// gorgonia.Grad does, with two differences. Where a node is used more than
// once, its gradients are summed by an operation that owns its output:
// gorgonia's allocates a tensor at every step. And a pseudo-parameter's
// gradient may be any node, because nobody adds to it or reads it.
func (g *Graph) gradients(loss *gorgonia.Node) (map[*gorgonia.Node]*gorgonia.Node, error) {
	if !loss.IsScalar() {
		return nil, fmt.Errorf("nn: gradient of a loss of shape %v, want a scalar", loss.Shape())
	}
	if !g.needsGrad(loss) {
		return nil, fmt.Errorf("nn: nothing that the loss depends on is trainable")
	}
	forward := append(gorgonia.Nodes(nil), g.ex.AllNodes()...)
	one := g.ex.AddNode(gorgonia.NewConstant(float32(1), gorgonia.WithName(fmt.Sprintf("one.%d", g.salt))))
	terms := map[*gorgonia.Node][]*gorgonia.Node{loss: {one}}
	grads := make(map[*gorgonia.Node]*gorgonia.Node)
	for i := len(forward) - 1; i >= 0; i-- {
		n := forward[i]
		if !g.needsGrad(n) || len(terms[n]) == 0 {
			continue
		}
		grad, err := g.sum(n, terms[n])
		if err != nil {
			return nil, err
		}
		grads[n] = grad
		if err := g.backpropagate(n, grad, terms); err != nil {
			return nil, err
		}
	}
	return grads, nil
}

// backpropagate adds the gradients of a node's inputs to their terms.
func (g *Graph) backpropagate(n, grad *gorgonia.Node, terms map[*gorgonia.Node][]*gorgonia.Node) error {
	if n.Op() == nil { // an input of the graph
		return nil
	}
	sd, ok := n.Op().(gorgonia.SDOp)
	if !ok {
		return fmt.Errorf("nn: %v has no derivative", n.Op())
	}
	in := g.children(n)
	wants := sd.DiffWRT(len(in))
	list, err := sd.SymDiff(in, n, grad)
	if err != nil {
		return fmt.Errorf("nn: derivative of %v: %w", n.Op(), err)
	}
	for i, c := range in {
		if !wants[i] || !g.needsGrad(c) {
			continue
		}
		if i >= len(list) || list[i] == nil {
			return fmt.Errorf("nn: derivative of %v: no gradient of input %d", n.Op(), i)
		}
		terms[c] = append(terms[c], list[i])
	}
	return nil
}

// sum adds up the gradients of a node in the order in which they were made.
func (g *Graph) sum(n *gorgonia.Node, terms []*gorgonia.Node) (*gorgonia.Node, error) {
	if len(terms) == 1 {
		return terms[0], nil
	}
	layer := n.Name()
	if o, ok := n.Op().(*op); ok {
		layer = o.layer
	}
	return g.apply(opSpec{
		layer: layer,
		kind:  "sum of gradients",
		in:    terms,
		shape: n.Shape(),
		run: func(rc *runContext, in [][]float32, out []float32) error {
			blocks(rc.pool, len(out), func(i, j int) {
				kernel.Add(out[i:j], in[0][i:j], in[1][i:j])
				for _, t := range in[2:] {
					kernel.Add(out[i:j], out[i:j], t[i:j])
				}
			})
			return nil
		},
	})
}
