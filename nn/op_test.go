package nn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// through multiplies x by a number, and then calls run: it is how the tests
// make an operation fail.
type through struct {
	Weight *Param
	run    func(rc *runContext) error
}

func (m *through) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	w, err := g.Param(m.Weight)
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: g.Name(m, "through"), kind: "identity", in: []*gorgonia.Node{x, w}, shape: x.Shape(), diff: []bool{true, true},
		run: func(rc *runContext, v [][]float32, y []float32) error {
			kernel.Scale(y, v[1][0], v[0])
			return m.run(rc)
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			dw, err := g.apply(opSpec{
				layer: "through", kind: "identity backward", in: []*gorgonia.Node{x, dy}, shape: []int{1},
				run: func(_ *runContext, v [][]float32, dw []float32) error {
					dw[0] = kernel.Dot(v[0], v[1])
					return nil
				},
			})
			return []*gorgonia.Node{dy, dw}, err
		},
	})
}

// TestErrorsKeepTheirType: what an operation returns comes out of Train with
// layer, step and its type; then the same graph runs again, to the same result.
func TestErrorsKeepTheirType(t *testing.T) {
	m := &through{Weight: NewParam(1), run: func(*runContext) error { return nil }}
	m.Weight.Value.Data[0] = 1
	net := newNetwork(t, Sequential{m, NewLinear(newRand(1), 4, 3)}, []int{4}, Config{Threads: 2})
	x, labels := batchFor([]int{4}, 5, 1)
	want, _, err := net.Train(t.Context(), 1, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	grads := flatGrads(net)

	tooFew := &coded.TooFewError{Layer: "fc1", Product: coded.Forward, Step: 9, Have: 3, Need: 4, Missing: []string{"worker 2 (killed)"}}
	overflow := fmt.Errorf("index: %w", errors.ErrUnsupported)
	for _, c := range []struct {
		name string
		run  func(rc *runContext) error
		is   error
		says string // the whole message
	}{
		{"error", func(*runContext) error { return overflow }, errors.ErrUnsupported,
			"nn: layer 0: step 9: identity: index: unsupported operation"},
		{"too few", func(*runContext) error { return fmt.Errorf("wait: %w", tooFew) }, coded.ErrTooFewResults,
			"nn: wait: " + tooFew.Error()},
		{"panic", func(*runContext) error { panic("boom") }, nil, "nn: layer 0: step 9: identity: panic: boom"},
		{"panic with an error", func(*runContext) error { panic(overflow) }, errors.ErrUnsupported,
			"nn: layer 0: step 9: identity: panic: index: unsupported operation"},
		{"panic in the pool", func(rc *runContext) error {
			rc.pool.Run(8, func(i int) { panic(overflow) })
			return nil
		}, errors.ErrUnsupported, ""},
		{"context", func(rc *runContext) error { return rc.ctx.Err() }, nil, ""},
	} {
		m.run = c.run
		_, _, err := net.Train(t.Context(), 9, x, labels)
		if c.name == "context" {
			if err != nil {
				t.Errorf("the step's context does not reach the operation: %v", err)
			}
			continue
		}
		var op *OpError
		if !errors.As(err, &op) || op.Layer != "0" || op.Op != "identity" || op.Step != 9 {
			t.Errorf("%s: %v is not the OpError", c.name, err)
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is not %v", c.name, err, c.is)
		}
		if c.says != "" && err.Error() != c.says {
			t.Errorf("%s: %q, want %q", c.name, err, c.says)
		}
		if flatGrads(net) != nil {
			t.Errorf("%s: gradients are left", c.name)
		}
		m.run = func(*runContext) error { return nil }
		loss, _, err := net.Train(t.Context(), 10, x, labels)
		if err != nil || loss != want || !slices.Equal(flatGrads(net), grads) {
			t.Errorf("after %s: loss %v, want %v; error %v", c.name, loss, want, err)
		}
	}
}

// TestCancelStopsBetweenOperations: a step ends at the next operation when
// its context does.
func TestCancelStopsBetweenOperations(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted by the user")
	ran := false
	first := &through{Weight: NewParam(1), run: func(*runContext) error { cancel(cause); return nil }}
	second := &through{Weight: NewParam(1), run: func(*runContext) error { ran = true; return nil }}
	net := newNetwork(t, Sequential{first, second}, []int{3}, Config{Threads: 1})
	_, err := net.Predict(ctx, make([]float32, 3))
	if !errors.Is(err, cause) || ran {
		t.Errorf("error %v, second operation ran: %v", err, ran)
	}
}

// sender stands for a placed layer with a trained weight: its output is x, and
// it sends the gradient of that away. Nothing before it is trained.
type sender struct{ sent []string }

func (m *sender) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	ticket, err := g.ticket("sender")
	if err != nil {
		return nil, err
	}
	return g.apply(opSpec{
		layer: "sender", kind: "wait", in: []*gorgonia.Node{x, ticket}, shape: x.Shape(), diff: []bool{true, true},
		value: func(_ *runContext, in []gorgonia.Value, out []float32) (gorgonia.Value, error) {
			m.sent = append(m.sent, "x")
			data, err := floats(in[0])
			copy(out, data)
			return nil, err
		},
		grad: func(g *Graph, _, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			if !slices.Equal(want, []bool{false, true}) {
				return nil, fmt.Errorf("gradients %v are wanted", want)
			}
			send, err := g.apply(opSpec{
				layer: "sender", kind: "send", in: []*gorgonia.Node{dy}, shape: []int{1},
				run: func(_ *runContext, in [][]float32, _ []float32) error {
					m.sent = append(m.sent, fmt.Sprint("dy of ", len(in[0])))
					return nil
				},
			})
			return []*gorgonia.Node{nil, send}, err
		},
	})
}

// TestTicket: an operation with a ticket is differentiated although nothing
// that it depends on is a parameter.
func TestTicket(t *testing.T) {
	m := &sender{}
	net := newNetwork(t, m, []int{3}, Config{Threads: 1})
	x := []float32{1, -2, 3, 0, 1, 1}
	for step := range 2 {
		if _, _, err := net.Train(t.Context(), step+1, x, []int32{0, 2}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"x", "dy of 6", "x", "dy of 6"}; !slices.Equal(m.sent, want) {
		t.Errorf("log %q, want %q", m.sent, want)
	}
}

// colliding reports a collision of hashes for the first graphs it is asked for.
type colliding struct {
	*Linear
	left int
}

func (c *colliding) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	if c.left > 0 {
		c.left--
		return nil, fmt.Errorf("colliding: %w", errCollision)
	}
	return c.Linear.Forward(g, x)
}

func TestCollisionsAreSalted(t *testing.T) {
	if _, err := NewNetwork(&colliding{NewLinear(newRand(1), 2, 2), maxSalts}, []int{2}, Config{}); !errors.Is(err, errCollision) {
		t.Errorf("always colliding: error %v", err)
	}
	net := newNetwork(t, &colliding{NewLinear(newRand(1), 2, 2), maxSalts - 1}, []int{2}, Config{Threads: 1})
	if _, err := net.Predict(t.Context(), make([]float32, 2)); err != nil {
		t.Error(err)
	}
	hashes := map[uint32]bool{}
	for salt := range uint32(maxSalts) {
		o := &op{opSpec: opSpec{layer: "a", kind: "b"}, graph: newGraph(nil, nil, 1, false, salt)}
		hashes[o.Hashcode()] = true
	}
	if len(hashes) != maxSalts {
		t.Errorf("%d salts give %d hashes", maxSalts, len(hashes))
	}
}

// TestCheckFindsMergedNodes: gorgonia merges two inputs of one name, and the
// builder must notice.
func TestCheckFindsMergedNodes(t *testing.T) {
	g := newGraph(nil, nil, 1, false, 0)
	if _, err := g.input("x", newDense([]int{2}, make([]float32, 2))); err != nil {
		t.Fatal(err)
	}
	g.inputs = 0 // the next input gets the same unique name
	if _, err := g.input("x", newDense([]int{2}, make([]float32, 2))); !errors.Is(err, errCollision) {
		t.Errorf("a merged input: error %v", err)
	}
}

// TestForeignOperations: gorgonia's own operations may stand between ours.
func TestForeignOperations(t *testing.T) {
	l1, l2 := NewLinear(newRand(1), 4, 4), NewLinear(newRand(2), 4, 3)
	m := Sequential{l1, foreign{}, l2}
	net := newNetwork(t, m, []int{4}, Config{Threads: 1})
	x, labels := batchFor([]int{4}, 5, 8)
	first, _, err := net.Train(t.Context(), 1, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	// A step along the negative gradient must lower the loss by about lr*|g|^2.
	norm := 0.0
	for _, g := range flatGrads(net) {
		norm += float64(g) * float64(g)
	}
	const lr = 1e-3
	descend(net, lr)
	second, _, err := net.Train(t.Context(), 2, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	if got := (first - second) / (lr * norm); got < 0.97 || got > 1.03 {
		t.Errorf("the loss fell by %v of what the gradients foretell", got)
	}
}

type foreign struct{}

func (foreign) Forward(_ *Graph, x *gorgonia.Node) (*gorgonia.Node, error) { return gorgonia.Tanh(x) }

func TestApplyRefuses(t *testing.T) {
	g := newGraph(nil, nil, 1, true, 0)
	x, err := g.input("x", newDense([]int{2}, make([]float32, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.apply(opSpec{layer: "a", kind: "b", in: []*gorgonia.Node{x}}); err == nil || !strings.Contains(err.Error(), "a: b: exactly one of run and value") {
		t.Errorf("neither run nor value: %v", err)
	}
	if _, err := g.apply(opSpec{layer: "a", kind: "b", in: []*gorgonia.Node{nil}, run: func(*runContext, [][]float32, []float32) error { return nil }}); err == nil || !strings.Contains(err.Error(), "input 0 is nil") {
		t.Errorf("nil input: %v", err)
	}
	if _, err := g.Param(nil); err == nil {
		t.Error("a nil parameter is taken")
	}
	if _, err := g.gradients(x); err == nil || !strings.Contains(err.Error(), "want a scalar") {
		t.Errorf("gradients of a vector: %v", err)
	}
	loss, err := weightedSum(g, x, []float32{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.gradients(loss); err == nil || !strings.Contains(err.Error(), "trainable") {
		t.Errorf("gradients without parameters: %v", err)
	}
}
