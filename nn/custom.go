package nn

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Op is an operation of one's own: what a module computes that those of this
// package do not. It is to a Graph what torch.autograd.Function is to PyTorch:
// Forward computes the output from the inputs, Backward the gradients of the
// inputs from that of the output.
//
//	func (Square) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
//		return g.Apply(nn.Op{
//			Kind: "square", In: []*gorgonia.Node{x}, Shape: x.Shape(),
//			Forward: func(c *nn.Call) error {
//				for i, v := range c.In[0] {
//					c.Out[i] = v * v
//				}
//				return nil
//			},
//			Backward: func(c *nn.Call) error {
//				for i, v := range c.In[0] {
//					c.GradIn[0][i] = 2 * v * c.GradOut[i]
//				}
//				return nil
//			},
//		})
//	}
//
// CheckGradients tells whether the two fit each other.
type Op struct {
	// Layer is the name in messages, as Graph.Name gives it; empty for a module
	// without parameters: then it is Kind with a number, "square2".
	Layer string
	// Kind says what is computed; required.
	Kind string
	// In are the inputs, at least one: the module's x, nodes of other modules,
	// parameters (Graph.Param).
	In []*gorgonia.Node
	// Shape is that of the output, row-major like those of the inputs.
	Shape []int

	// Forward computes Out from In.
	Forward func(c *Call) error
	// Backward computes those GradIn that are not nil from GradOut, In and Out.
	// It runs after Forward of the same step, so they may share what a closure
	// holds: a mask, saved statistics. Without a Backward the operation can stand
	// only where nothing trainable comes before it, or in evaluation.
	Backward func(c *Call) error
}

// Call is one run of an operation. All slices are borrowed for its duration.
// Nothing but Out (in Forward) and GradIn (in Backward) may be written; what
// these hold at first is left over from other operations, so each of their
// numbers has to be set, not added to.
type Call struct {
	In  [][]float32 // the values of Op.In
	Out []float32   // the value of the output

	GradOut []float32   // gradient of the loss by Out; nil in Forward
	GradIn  [][]float32 // by In: nil where it is not wanted, and in Forward

	rc  *runContext
	key uint64 // of Rand
}

// Context ends when the run is to be given up.
func (c *Call) Context() context.Context { return c.rc.ctx }

// Step is the number of the training step; 0 in evaluation.
func (c *Call) Step() int { return c.rc.step }

// Parallel calls f(0) to f(n-1) in any order on the network's goroutines, and
// returns when all have returned. For bits that do not depend on Config.Threads
// each call sums by itself, in a fixed order.
func (c *Call) Parallel(n int, f func(i int)) { c.rc.pool.Run(n, f) }

// Split is Parallel for element-wise work: f gets ranges that cover 0 to n.
func (c *Call) Split(n int, f func(from, to int)) { blocks(c.rc.pool, n, f) }

// Rand returns a generator that depends on Config.Seed, the step, its part (see
// Network.Accumulate), the layer and the kind alone: Forward and Backward of a
// step get the same numbers, and so does a run that is resumed.
func (c *Call) Rand() *rand.Rand {
	return rand.New(rand.NewPCG(c.rc.seed^c.key, uint64(c.rc.step)<<20^uint64(c.rc.part)))
}

// Apply adds an operation to the graph and returns its output. The operation
// has memory for it from the beginning, so that a step allocates none, and a
// panic in it becomes an error with the names of the layer and the step.
func (g *Graph) Apply(o Op) (*gorgonia.Node, error) {
	if o.Layer == "" && o.Kind != "" {
		o.Layer = g.number(o.Kind)
	}
	if err := o.check(g); err != nil {
		return nil, err
	}
	c := o.call()
	s := opSpec{
		layer: o.Layer, kind: o.Kind, in: slices.Clone(o.In), shape: slices.Clone(o.Shape),
		run: func(rc *runContext, in [][]float32, out []float32) error {
			c.rc, c.In, c.Out = rc, in, out
			return o.Forward(&c)
		},
	}
	if o.Backward != nil {
		s.diff = slices.Repeat([]bool{true}, len(o.In))
		s.grad = func(g *Graph, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
			return g.applyBackward(o, y, dy, want)
		}
	}
	return g.apply(s)
}

// call returns what all runs of the operation share.
func (o Op) call() Call {
	h := fnv.New64a()
	fmt.Fprint(h, o.Layer, "\x00", o.Kind) // a hash never fails
	return Call{key: h.Sum64()}
}

func (o Op) check(g *Graph) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("nn: layer %s: operation %q: %w", o.Layer, o.Kind, fmt.Errorf(format, args...))
	}
	if o.Kind == "" || len(o.In) == 0 || o.Forward == nil {
		return fail("want a Kind, inputs and a Forward")
	}
	if len(o.Shape) == 0 || slices.Min(o.Shape) < 1 {
		return fail("output of shape %v, want positive dimensions", o.Shape)
	}
	for i, n := range o.In {
		switch {
		case n == nil:
			return fail("input %d is nil", i)
		case n.Graph() != g.ex:
			return fail("input %d is a node of another graph", i)
		case n.IsScalar() || n.Dtype() != tensor.Float32:
			return fail("input %d is a %v, want a float32 tensor", i, n.Type())
		case o.Backward == nil && g.training && g.needsGrad(n):
			return fail("something trainable comes before input %d, so it needs a Backward", i)
		}
	}
	return nil
}

// applyBackward adds one operation for all gradients that are wanted: the first
// of them is its output, the others are views.
func (g *Graph) applyBackward(o Op, y, dy *gorgonia.Node, want []bool) ([]*gorgonia.Node, error) {
	first := slices.Index(want, true)
	views := make([]*op, len(want))
	c := o.call()
	c.GradIn = make([][]float32, len(want))
	node, err := g.apply(opSpec{
		layer: o.Layer, kind: o.Kind + " backward", in: append(slices.Clone(o.In), y, dy), shape: o.In[first].Shape(),
		run: func(rc *runContext, v [][]float32, dx []float32) error {
			n := len(o.In)
			c.rc, c.In, c.Out, c.GradOut = rc, v[:n:n], v[n], v[n+1]
			for i, view := range views {
				c.GradIn[i] = viewBuffer(view)
			}
			c.GradIn[first] = dx
			return o.Backward(&c)
		},
	})
	if err != nil {
		return nil, err
	}
	grads := make([]*gorgonia.Node, len(want))
	grads[first] = node
	for i := first + 1; i < len(want); i++ {
		if !want[i] {
			continue
		}
		s := opSpec{layer: o.Layer, kind: fmt.Sprintf("%s backward of input %d", o.Kind, i), shape: o.In[i].Shape()}
		if views[i], err = g.view(s, node.Op().(*op)); err != nil {
			return nil, err
		}
		grads[i] = views[i].node
	}
	return grads, nil
}
