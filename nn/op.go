package nn

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"runtime/debug"
	"slices"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/coda-ml/coda/internal/kernel"
)

// runContext is what an operation may know of the run that executes it. The
// Graph holds it, because gorgonia's Do has no room for a context.
type runContext struct {
	ctx  context.Context
	step int
	part int    // of the step: 0 for Train, then 1, 2, ... for Accumulate
	seed uint64 // of dropout
	pool *kernel.Pool
	// ws is shared by all convolutions of a network: its graphs, and the
	// operations of a graph, run one after another.
	ws *kernel.Workspace
}

// opSpec describes one operation: the only thing that a layer has to write.
// Exactly one of run and value is set.
type opSpec struct {
	layer string // dotted name of the layer, for messages
	kind  string // what the operation does: "linear", "conv2d backward input"
	in    []*gorgonia.Node
	shape []int  // of the output; nil for a scalar
	diff  []bool // which inputs grad can differentiate by; nil for none

	// run computes out from in. Every input is float32 (a scalar has length 1).
	// out is the operation's buffer until the last operation that reads it has
	// run; before that it holds anything.
	run func(rc *runContext, in [][]float32, out []float32) error

	// value is for operations that take or give other things than float32
	// tensors. It returns a Value of its own, or nil for out.
	value func(rc *runContext, in []gorgonia.Value, out []float32) (gorgonia.Value, error)

	// grad builds the gradient nodes of the inputs out of the gradient of the
	// output. want tells which inputs need one: the others' entries stay nil.
	grad func(g *Graph, out, grad *gorgonia.Node, want []bool) ([]*gorgonia.Node, error)
}

// op makes an opSpec an operation of a gorgonia graph. It is made for one
// node: it knows the shapes of its inputs and has the buffer of its output,
// which every step overwrites (see shareMemory). Operations are told apart by their sequence
// number in the graph, so that gorgonia, which merges nodes of equal hash,
// never merges two of them.
type op struct {
	opSpec
	graph    *Graph
	seq      int
	node     *gorgonia.Node
	producer *op    // of a view: the operation that computes its buffer; else nil
	want     []bool // diff, where something trainable hangs on the input

	buf     []float32     // the output's memory; nil until the first run
	dense   *tensor.Dense // header over buf
	scalar  *gorgonia.F32
	args    [][]float32
	sizes   []int     // of the inputs: asking a node for its shape allocates
	scalars []float32 // where the scalar inputs are put for args
}

var _ gorgonia.SDOp = (*op)(nil)

func (o *op) Arity() int { return len(o.in) }

// Type gives concrete types, not type variables: the nodes are known.
func (o *op) Type() hm.Type {
	types := make([]hm.Type, 0, len(o.in)+1)
	for _, n := range o.in {
		types = append(types, n.Type())
	}
	if o.shape == nil {
		types = append(types, tensor.Float32)
	} else {
		types = append(types, gorgonia.TensorType{Dims: len(o.shape), Of: tensor.Float32})
	}
	return hm.NewFnType(types...)
}

// InferShape returns the shape that was fixed when the operation was made.
func (o *op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) {
	return tensor.Shape(o.shape).Clone(), nil
}

func (o *op) ReturnsPtr() bool     { return false } // the result is never an input's register
func (o *op) CallsExtern() bool    { return false }
func (o *op) OverwritesInput() int { return -1 }
func (o *op) String() string       { return o.layer + ": " + o.kind }

func (o *op) WriteHash(h hash.Hash) {
	fmt.Fprintf(h, "nn.%d.%d %s %s %v", o.graph.salt, o.seq, o.layer, o.kind, o.shape)
}

func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// DiffWRT says which inputs get a gradient: those that the operation can be
// differentiated by and on which a trainable parameter hangs. So the gradient
// of the first layer's input is never computed.
func (o *op) DiffWRT(n int) []bool {
	if len(o.want) != n {
		return make([]bool, n)
	}
	return o.want
}

// SymDiff builds the operations that compute the inputs' gradients.
func (o *op) SymDiff(_ gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.grad == nil {
		return nil, fmt.Errorf("%v has no derivative", o)
	}
	grads, err := o.grad(o.graph, out, grad, o.want)
	if err != nil {
		return nil, err
	}
	if len(grads) != len(o.in) {
		return nil, fmt.Errorf("%v: %d gradients for %d inputs", o, len(grads), len(o.in))
	}
	return grads, nil
}

// Do runs the operation. A panic becomes an error: it must not leave the
// package, and out of gorgonia's machine, which runs operations on a goroutine
// of its own, it would end the process.
func (o *op) Do(in ...gorgonia.Value) (v gorgonia.Value, err error) {
	rc := &o.graph.run
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		if err != nil {
			v, err = nil, o.wrap(rc, err)
		}
	}()
	if err := context.Cause(rc.ctx); err != nil {
		return nil, err
	}
	out := o.buffer()
	if o.value != nil {
		v, err = o.value(rc, in, out)
		if err != nil || v != nil {
			return v, err
		}
		return o.result(), nil
	}
	for i, v := range in {
		if o.args[i], err = o.argument(i, v); err != nil {
			return nil, err
		}
	}
	if err := o.run(rc, o.args, out); err != nil {
		return nil, err
	}
	return o.result(), nil
}

// argument returns the numbers of an input and checks how many they are.
func (o *op) argument(i int, v gorgonia.Value) ([]float32, error) {
	if s, ok := v.(*gorgonia.F32); ok {
		o.scalars[i] = float32(*s)
		return o.scalars[i : i+1], nil
	}
	data, err := floats(v)
	if err != nil {
		return nil, fmt.Errorf("input %d: %w", i, err)
	}
	if want := o.sizes[i]; len(data) != want {
		return nil, fmt.Errorf("input %d: %d numbers, want %d of shape %v", i, len(data), want, o.in[i].Shape())
	}
	return data, nil
}

// floats returns the numbers of a float32 tensor, borrowed.
func floats(v gorgonia.Value) ([]float32, error) {
	d, ok := v.(interface{ Float32s() []float32 })
	if !ok || v.Dtype() != tensor.Float32 {
		return nil, fmt.Errorf("a %T of %v, want a float32 tensor", v, v.Dtype())
	}
	return d.Float32s(), nil
}

// buffer returns the output's memory, taken at the first run.
func (o *op) buffer() []float32 {
	if o.buf == nil {
		o.buf = make([]float32, size(o.shape))
	}
	return o.buf
}

// bind makes buf the memory of the output, so that a gradient is computed
// where the optimiser looks for it. It is called before the first run.
func (o *op) bind(buf []float32) { o.buf, o.dense = buf, nil }

// result wraps the output's memory as a Value. The header is made anew when
// somebody has changed it: gorgonia's Reshape works on its input's header.
func (o *op) result() gorgonia.Value {
	if o.shape == nil {
		*o.scalar = gorgonia.F32(o.buf[0])
		return o.scalar
	}
	if o.dense == nil || !slices.Equal(o.dense.Shape(), o.shape) {
		o.dense = newDense(o.shape, o.buf)
	}
	return o.dense
}

func (o *op) wrap(rc *runContext, err error) error {
	return &OpError{Layer: o.layer, Op: o.kind, Step: rc.step, Err: err}
}

// newDense returns a header of its own over data, which may be shared.
func newDense(shape []int, data []float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// size returns the number of elements of a shape; a scalar has one.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
