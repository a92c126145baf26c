package nn

import (
	"context"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/kernel"
)

// TestAgreesWithGorgoniaGrad: gradients of a value that is used several times are
// those that gorgonia.Grad finds on the same graph.
func TestAgreesWithGorgoniaGrad(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := newRand(rapid.Uint64().Draw(rt, "seed"))
		uses := rapid.IntRange(1, 4).Draw(rt, "uses")
		n := rapid.IntRange(2, 5).Draw(rt, "width")
		l := NewLinear(rng, n, n)
		names := map[any]string{l: "fc", l.Weight: "fc.weight", l.Bias: "fc.bias"}
		x, c := normals(rng, 3*n), normals(rng, 3*n)
		var results [2][][]float32
		for i := range results {
			g := newGraph(nil, names, 3, true, 0)
			in, err := g.input("x", newDense([]int{3, n}, x))
			if err != nil {
				rt.Fatal(err)
			}
			y := in
			for range uses {
				if y, err = l.forward(g, y, true); err != nil {
					rt.Fatal(err)
				}
			}
			loss, err := weightedSum(g, y, c)
			if err != nil {
				rt.Fatal(err)
			}
			var nodes []*gorgonia.Node
			if i == 0 {
				grads, err := g.gradients(loss)
				if err != nil {
					rt.Fatal(err)
				}
				for _, p := range g.params {
					nodes = append(nodes, grads[p.node])
				}
			} else {
				var wrt []*gorgonia.Node
				for _, p := range g.params {
					wrt = append(wrt, p.node)
				}
				if nodes, err = gorgonia.Grad(loss, wrt...); err != nil {
					rt.Fatal(err)
				}
			}
			g.run.ctx = context.Background()
			if err := gorgonia.NewTapeMachine(g.ex).RunAll(); err != nil {
				rt.Fatal(err)
			}
			for _, n := range nodes {
				data, err := floats(n.Value())
				if err != nil {
					rt.Fatal(err)
				}
				results[i] = append(results[i], slices.Clone(data))
			}
		}
		for i := range results[0] {
			wantClose(t, "gradient", results[0][i], results[1][i], 1e-6)
		}
	})
}

// TestLossGradientIsScaled: the loss may be part of a larger expression.
func TestLossGradientIsScaled(t *testing.T) {
	l := NewLinear(newRand(1), 2, 3)
	var grads [2][]float32
	for i, factor := range []float32{1, -2} {
		g := newGraph(nil, map[any]string{l: "l", l.Weight: "l.weight", l.Bias: "l.bias"}, 2, true, 0)
		x, err := g.input("x", newDense([]int{2, 2}, []float32{1, 2, 3, 4}))
		if err != nil {
			t.Fatal(err)
		}
		y, err := l.Forward(g, x)
		if err != nil {
			t.Fatal(err)
		}
		ce := &lossNode{Loss: CrossEntropy{}, target: target{labels: []int32{0, 2}}}
		loss, err := ce.add(g, y)
		if err != nil {
			t.Fatal(err)
		}
		if loss, err = weightedSum(g, loss, []float32{factor}); err != nil {
			t.Fatal(err)
		}
		nodes, err := g.gradients(loss)
		if err != nil {
			t.Fatal(err)
		}
		g.run.ctx = t.Context()
		if err := gorgonia.NewTapeMachine(g.ex).RunAll(); err != nil {
			t.Fatal(err)
		}
		if grads[i], err = floats(nodes[g.params[0].node].Value()); err != nil {
			t.Fatal(err)
		}
	}
	kernel.Scale(grads[0], -2, grads[0])
	wantClose(t, "gradient of -2 times the loss", grads[1], grads[0], 1e-6)
}

// shift adds two parameters to x, so that both have dy as their gradient.
type shift struct{ A, B *Param }

func (m *shift) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	a, err := g.Param(m.A)
	if err != nil {
		return nil, err
	}
	b, err := g.Param(m.B)
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: "shift", kind: "sum", in: []*gorgonia.Node{x, a, b}, shape: x.Shape(), diff: []bool{true, true, true},
		run: func(_ *runContext, v [][]float32, y []float32) error {
			kernel.Add(y, v[0], v[1])
			kernel.Add(y, y, v[2])
			return nil
		},
		grad: func(_ *Graph, _, dy *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			return []*gorgonia.Node{dy, dy, dy}, nil
		},
	})
}

// TestOneGradientForTwoParameters: each gets its own copy.
func TestOneGradientForTwoParameters(t *testing.T) {
	m := &shift{NewParam(2, 3), NewParam(2, 3)}
	l := &Linear{Weight: NewParam(3, 3)}
	for i := range 3 {
		l.Weight.Value.Data[4*i] = 1
	}
	// A batch of 2 is the only one that m can take, so no trial with one sample.
	n := &Network{model: Sequential{m, l}, shape: []int{3}, outputs: 3, config: Config{Loss: CrossEntropy{}}, gradients: map[*Param]*gradient{}}
	w, err := walk(n.model)
	if err != nil {
		t.Fatal(err)
	}
	n.params, n.names = w.params, w.names
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := n.Train(t.Context(), 1, make([]float32, 6), []int32{0, 2}); err != nil {
		t.Fatal(err)
	}
	// Equal logits: (softmax - t)/2.
	want := []float32{-1.0 / 3, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, -1.0 / 3}
	wantClose(t, "gradient of A", m.A.Grad, want, 1e-6)
	wantClose(t, "gradient of B", m.B.Grad, want, 1e-6)
	if &m.A.Grad[0] == &m.B.Grad[0] {
		t.Error("two parameters share the memory of their gradient")
	}
}
