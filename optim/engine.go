package optim

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// common is the part of the configurations that all optimisers have.
type common struct {
	lr     Schedule
	decay  float64
	clip   float64
	groups []Group
	pool   *kernel.Pool
}

func (c *common) problems() problems {
	var p problems
	p.schedule(c.lr)
	p.atLeastZero("weight decay", c.decay)
	p.atLeastZero("clip norm", c.clip)
	for i, g := range c.groups {
		p = append(p, g.problems(fmt.Sprintf("group %d", i+1))...)
	}
	return p
}

// pieceSize is the number of elements that a goroutine treats at a time. It
// also fixes the order of sums, so that they do not depend on the pool.
const pieceSize = 1 << 14

// pass is a sweep over one parameter: it treats the elements from lo up to hi,
// of which lo is a multiple of pieceSize. Pieces are treated in any order, and
// at the same time. A pass begins when the one before it has ended.
type pass func(u *update, lo, hi int)

// update is the step of one parameter.
type update struct {
	value, grad []float32
	buffers     [][]float32
	lr, decay   float64
	scale       float64 // factor of the gradient
	noDecay     bool    // excluded from decay, rather than with a decay of 0
	count       int     // of the optimiser's updates, with this one
}

// engine is what the optimisers share: all but the arithmetic of their passes.
type engine struct {
	common
	name   string
	memory memory
	begin  func(elements int) // makes room for the passes of a parameter, if they need any
	passes []pass

	sums  []float64 // of the squares of gradients, by piece
	local []Param   // the parameters of a step that are not Remote

	clipped struct { // the last step that was made
		step  int
		scale float64
	}

	// The pass and the parameter at hand, for piece.
	pass   pass
	update update

	// Methods as values, made once because each is an allocation.
	run  func(i int) // piece
	norm pass        // squares
}

func newEngine(name string, c common, buffers []string, passes ...pass) *engine {
	e := &engine{common: c, name: name, passes: passes}
	e.memory = newMemory(name, e.common.settings, buffers...)
	e.run, e.norm = e.piece, e.squares
	return e
}

// rate is the learning rate of a step.
func (e *engine) rate(step int) (float64, error) {
	if step < 1 {
		return 0, fmt.Errorf("optim: %s: step %d, want at least 1", e.name, step)
	}
	lr := e.lr(step)
	if !finite(lr) || lr < 0 {
		return 0, fmt.Errorf("optim: %s: step %d: learning rate %v, want a finite number of at least 0", e.name, step, lr)
	}
	return lr, nil
}

// Step implements Optimizer. What depends on the number of steps counts the
// updates made, not the training step, so that a state that starts late is
// treated as well.
func (e *engine) Step(step int, params []Param) error {
	lr, err := e.rate(step)
	if err != nil {
		return err
	}
	scale, err := e.clipScale(step, params)
	if err != nil {
		return err
	}
	e.local = e.local[:0]
	for _, p := range params {
		if !p.Remote {
			e.local = append(e.local, p)
		}
	}
	defer func() { clear(e.local) }() // lets go of the model's memory
	if err := e.memory.prepare(step, e.local); err != nil {
		return err
	}
	for _, p := range e.local {
		s := e.memory.slots[p.Name]
		e.update = update{
			value: p.Value, grad: p.Grad, buffers: s.data, lr: lr * s.lrScale, decay: s.decay, scale: scale,
			noDecay: s.noDecay || p.NoDecay, count: e.memory.updates + 1,
		}
		if p.NoDecay {
			e.update.decay = 0
		}
		if e.begin != nil {
			e.begin(len(p.Value))
		}
		for _, pass := range e.passes {
			e.sweep(pass)
		}
	}
	e.memory.updates++
	e.clipped.step, e.clipped.scale = step, scale
	e.update = update{} // lets go of the model's memory
	return nil
}

// sweep runs a pass on the parameter at hand.
func (e *engine) sweep(p pass) {
	e.pass = p
	switch n := pieces(len(e.update.grad)); {
	case n > 1 && e.pool != nil:
		e.pool.Run(n, e.run)
	default:
		for i := range n {
			e.piece(i)
		}
	}
}

func (e *engine) piece(i int) {
	e.pass(&e.update, i*pieceSize, min((i+1)*pieceSize, len(e.update.grad)))
}

// pieces is the number of pieces of n elements.
func pieces(n int) int { return (n + pieceSize - 1) / pieceSize }

// clipScale is the factor of the gradients that keeps their norm within the
// configured one.
func (e *engine) clipScale(step int, params []Param) (float64, error) {
	if e.clip == 0 {
		return 1, nil
	}
	var total float64
	for _, p := range params {
		e.update = update{grad: p.Grad}
		e.sums = growTo(e.sums, pieces(len(p.Grad)))
		e.sweep(e.norm)
		one := p.SumSquares
		for _, s := range e.sums[:pieces(len(p.Grad))] {
			one += s
		}
		if !finite(one) {
			return 0, fmt.Errorf("optim: %s: step %d: %w", e.name, step, &NormError{Param: p.Name, SumSquares: one})
		}
		total += one
	}
	return ClipScale(total, e.clip), nil
}

func (e *engine) squares(u *update, lo, hi int) {
	e.sums[lo/pieceSize] = kernel.SumSquares(u.grad[lo:hi])
}

// growTo returns x, or a longer slice, with a length of at least n.
func growTo[T any](x []T, n int) []T {
	if len(x) < n {
		return make([]T, n)
	}
	return x
}

// State implements Optimizer.
func (e *engine) State() State { return e.memory.state() }

// LoadState implements Optimizer. A state that is refused changes nothing.
func (e *engine) LoadState(st State) error { return e.memory.load(st) }

// Linear implements Optimizer: it fails, with a *NotLinearError.
func (e *engine) Linear(layer string) (func(step int) (coded.Update, error), error) {
	return nil, &NotLinearError{Layer: layer, Optimizer: e.name}
}
