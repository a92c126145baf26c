package nn

import (
	"context"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"
)

// TestOpGradient runs two linear layers and compares with sums by hand.
func TestSmoke(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := NewLinear(rng, 3, 2)
	g := newGraph(nil, map[any]string{l: "l", l.Weight: "l.weight", l.Bias: "l.bias"}, 2, true, 0)
	x, err := g.input("x", newDense([]int{2, 3}, []float32{1, 2, 3, 4, 5, 6}))
	if err != nil {
		t.Fatal(err)
	}
	y, err := l.forward(g, x, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.apply(opSpec{layer: "sum", kind: "sum", in: []*gorgonia.Node{y}, diff: []bool{true},
		run: func(_ *runContext, in [][]float32, out []float32) error {
			out[0] = 0
			for _, v := range in[0] {
				out[0] += v
			}
			return nil
		},
		grad: func(g *Graph, out, grad *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			n, err := g.apply(opSpec{layer: "sum", kind: "sum backward", in: []*gorgonia.Node{grad}, shape: y.Shape(),
				run: func(_ *runContext, in [][]float32, out []float32) error {
					for i := range out {
						out[i] = in[0][0]
					}
					return nil
				}})
			return []*gorgonia.Node{n}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	grads, err := g.gradients(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.check(); err != nil {
		t.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g.ex)
	g.run.ctx = context.Background()
	for range 2 {
		vm.Reset()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(y.Value(), s.Value())
	for _, p := range g.params {
		t.Log(p.name, grads[p.node].Value())
	}
}
