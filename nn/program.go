package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/coda-ml/coda/internal/kernel"
)

// program is a compiled graph for one batch size and one mode, with the
// memory of its inputs.
type program struct {
	batch    int
	training bool
	g        *Graph
	vm       gorgonia.VM
	x        []float32
	logits   *op
	forward  int      // how many of g.ops belong to the model, the loss excluded
	loss     lossNode // of a training graph
	grads    []paramGrad
}

// paramGrad is where the gradient of a parameter comes from.
type paramGrad struct {
	param *Param
	name  string
	node  *gorgonia.Node
	// store is where it is wanted. It is the memory of the node's operation,
	// unless that serves another parameter as well or is not ours: then copied.
	store  []float32
	copied bool
}

// build adds the model, and for training its loss and gradients, to g.
func (p *program) build(g *Graph, model Module, shape []int, loss Loss, store func(*Param) []float32) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("nn: build graph of %T: %w", model, &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	p.g = g
	p.x = make([]float32, p.batch*size(shape))
	x, err := g.input("x", newDense(append([]int{p.batch}, shape...), p.x))
	if err != nil {
		return err
	}
	y, err := model.Forward(g, x)
	if err != nil {
		return err
	}
	if y == nil {
		return fmt.Errorf("nn: %T.Forward returned no node", model)
	}
	if s := y.Shape(); len(s) != 2 || s[0] != p.batch || y.Dtype() != tensor.Float32 {
		return fmt.Errorf("nn: output of %T: %v of shape %v, want float32 of shape [%d, outputs]", model, y.Dtype(), []int(s), p.batch)
	}
	if p.logits, err = g.output(y); err != nil {
		return err
	}
	p.forward = len(g.ops)
	if p.training {
		if err := p.differentiate(loss, store); err != nil {
			return err
		}
	}
	if err := g.check(); err != nil {
		return err
	}
	p.shareMemory()
	return nil
}

// output returns the operation of the model's output. One that is not ours is
// copied, so that its memory is known.
func (g *Graph) output(y *gorgonia.Node) (*op, error) {
	if o, ok := y.Op().(*op); ok && o.value == nil {
		return o, nil
	}
	n, err := g.reshape("output", y, y.Shape()...)
	if err != nil {
		return nil, err
	}
	return n.Op().(*op), nil
}

func (p *program) differentiate(l Loss, store func(*Param) []float32) error {
	p.loss.Loss = l
	loss, err := p.loss.add(p.g, p.logits.node)
	if err != nil {
		return err
	}
	grads, err := p.g.gradients(loss)
	if err != nil {
		return err
	}
	for _, b := range p.g.params {
		n := grads[b.node]
		if n == nil {
			continue
		}
		pg := paramGrad{param: b.param, name: b.name, node: n, store: store(b.param), copied: true}
		if o, ok := n.Op().(*op); ok && o.value == nil && o.buf == nil {
			o.bind(pg.store)
			pg.copied = false
		}
		p.grads = append(p.grads, pg)
	}
	return nil
}

// compile makes what executes the graph. Gorgonia panics where it cannot.
func (p *program) compile() (err error) {
	if p.g.ours() {
		p.vm = newTape(p.g)
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("nn: compile graph: %w", &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	p.vm = gorgonia.NewTapeMachine(p.g.ex)
	return nil
}

// value returns what a node holds after a run.
func (p *program) value(n *gorgonia.Node) gorgonia.Value {
	if t, ok := p.vm.(*tape); ok {
		return t.value(n)
	}
	return n.Value()
}

// execute runs the graph from its beginning and leaves it ready to run again,
// also after an error.
func (p *program) execute(ctx context.Context, step int, x []float32) error {
	copy(p.x, x)
	p.g.run.ctx, p.g.run.step = ctx, step
	defer func() { p.g.run.ctx = nil }()
	p.vm.Reset()
	if err := p.vm.RunAll(); err != nil {
		p.vm.Reset()
		return runError(err)
	}
	return nil
}

// collect brings the gradients that are not computed in place to their place, and
// waits for those that are futures.
func (p *program) collect(ctx context.Context, step int) error {
	for i := range p.grads {
		pg := &p.grads[i]
		if !pg.copied {
			continue
		}
		v := p.value(pg.node)
		if future, ok := v.(*pendingValue); ok {
			if err := future.resolve(ctx, pg.store); err != nil {
				return pg.node.Op().(*op).wrap(&p.g.run, err)
			}
			continue
		}
		data, err := floats(v)
		if err == nil && len(data) != len(pg.store) {
			err = fmt.Errorf("%d numbers, want %d", len(data), len(pg.store))
		}
		if err != nil {
			return fmt.Errorf("nn: step %d: gradient of %s: %w", step, pg.name, err)
		}
		copy(pg.store, data)
	}
	return nil
}

// nonFinite finds the first number that is not finite on the way to the loss.
func (p *program) nonFinite() string {
	if !finite(p.x) {
		return "the input"
	}
	for _, b := range p.g.params {
		if !finite(b.param.Value.Data) {
			return "parameter " + b.name
		}
	}
	for _, b := range p.g.buffers {
		if !finite(b.buffer.Value.Data) {
			return "buffer " + b.name
		}
	}
	for _, o := range p.g.ops[:p.forward] {
		if !finite(o.buf) {
			return fmt.Sprintf("output of layer %s (%s)", o.layer, o.kind)
		}
	}
	return ""
}

func finite(x []float32) bool {
	m := float64(kernel.MaxAbs(x)) // NaN if there is one
	return !math.IsNaN(m) && !math.IsInf(m, 0)
}

func (p *program) close() error {
	if p.vm == nil {
		return nil
	}
	if err := p.vm.Close(); err != nil {
		return fmt.Errorf("nn: close graph: %w", err)
	}
	return nil
}

// isCollision tells whether a graph should be built again with another salt.
func isCollision(err error) bool { return errors.Is(err, errCollision) }
