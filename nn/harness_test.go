package nn

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/golden"
	"github.com/coda-ml/coda/internal/kernel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 17)) }

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// goldenParam is a parameter with the values of a golden file.
func goldenParam(c *golden.Case, name string) *Param {
	return &Param{Value: coded.Tensor{Shape: c.Shape(name), Data: c.Floats(name)}}
}

// bench runs one module forward and backward: the loss is the sum of its
// output weighted by gradOut, so that gradOut is the output's gradient.
type bench struct {
	out   []float32
	gradX []float32 // nil unless asked for
	grads map[string][]float32
	g     *Graph
	vm    gorgonia.VM
}

func newBench(t *testing.T, m Module, shape []int, x, gradOut []float32, wantX bool) *bench {
	t.Helper()
	w, err := walk(m)
	if err != nil {
		t.Fatal(err)
	}
	pool := kernel.NewPool(2)
	t.Cleanup(pool.Close)
	g := newGraph(pool, w.names, shape[0], true, 0)
	in, err := g.input("x", newDense(shape, x))
	if err != nil {
		t.Fatal(err)
	}
	g.needs[in] = wantX
	y, err := m.Forward(g, in)
	if err != nil {
		t.Fatal(err)
	}
	loss, err := weightedSum(g, y, gradOut)
	if err != nil {
		t.Fatal(err)
	}
	grads, err := g.gradients(loss)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.check(); err != nil {
		t.Fatal(err)
	}
	b := &bench{g: g, vm: gorgonia.NewTapeMachine(g.ex), grads: make(map[string][]float32)}
	g.run.ctx = t.Context()
	// Twice: the second run finds the buffers as the first has left them.
	for range 2 {
		b.vm.Reset()
		g.begin()
		if err := b.vm.RunAll(); err != nil {
			t.Fatal(err)
		}
	}
	g.commit()
	value := func(n *gorgonia.Node) []float32 {
		data, err := floats(n.Value())
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	b.out = value(y)
	if wantX {
		b.gradX = value(grads[in])
	}
	for _, p := range g.params {
		if n := grads[p.node]; n != nil {
			b.grads[p.name] = value(n)
		}
	}
	return b
}

// weightedSum adds the scalar sum_i c[i] y[i], without derivatives of c.
func weightedSum(g *Graph, y *gorgonia.Node, c []float32) (*gorgonia.Node, error) {
	return g.apply(opSpec{
		layer: "test", kind: "weighted sum", in: []*gorgonia.Node{y}, diff: []bool{true},
		run: func(_ *runContext, v [][]float32, out []float32) error {
			sum := 0.0
			for i, w := range c {
				sum += float64(w) * float64(v[0][i])
			}
			out[0] = float32(sum)
			return nil
		},
		grad: func(g *Graph, _, dloss *gorgonia.Node, _ []bool) ([]*gorgonia.Node, error) {
			dy, err := g.apply(opSpec{
				layer: "test", kind: "weighted sum backward", in: []*gorgonia.Node{dloss}, shape: y.Shape(),
				run: func(_ *runContext, v [][]float32, dy []float32) error {
					kernel.Scale(dy, v[0][0], c)
					return nil
				},
			})
			return []*gorgonia.Node{dy}, err
		},
	})
}

// wantClose compares with a tolerance relative to the largest number wanted.
func wantClose(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	wantCloseTo(t, what, got, want, tol, 0)
}

// wantCloseTo is wantClose relative to at least the given number.
func wantCloseTo(t *testing.T, what string, got, want []float32, tol, largest float64) {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%s: %d numbers, want %d", what, len(got), len(want))
		return
	}
	for _, v := range want {
		largest = max(largest, math.Abs(float64(v)))
	}
	for i, v := range want {
		if d := math.Abs(float64(got[i]) - float64(v)); !(d <= tol*largest) {
			t.Errorf("%s[%d] = %v, want %v (tolerance %g of %g)", what, i, got[i], v, tol, largest)
			return
		}
	}
}

func tensorOf(shape []int, n int) coded.Tensor {
	return coded.Tensor{Shape: shape, Data: make([]float32, n)}
}

// contains tells whether there is an error that says want.
func contains(err error, want string) bool { return err != nil && strings.Contains(err.Error(), want) }
