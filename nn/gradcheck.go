package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gorgonia.org/gorgonia"
)

// GradientCheck holds the settings of CheckGradients; the zero value will do.
type GradientCheck struct {
	// Seed draws the input and the target, and decides what Dropout drops.
	Seed uint64
	// Step is how far an entry is moved to either side; 0 means 0.01.
	Step float64
	// Tolerance is how much a gradient may differ, relative to the largest entry
	// of its tensor; 0 means 0.01.
	Tolerance float64
	// Entries is how many entries of a tensor are tried, drawn at random where
	// there are more; 0 means 100.
	Entries int
}

// CheckGradients compares the gradients of a module, by its input and by its
// parameters, with what the loss really does when an entry v is moved:
//
//	dL/dv = (L(v+h) - L(v-h)) / 2h + O(h^2)
//
// It is what torch.autograd.gradcheck is to PyTorch, in float32: L is the mean
// squared difference between the module's output, in training mode, and a
// random target; the input is standard normal, of the given shape, batch first.
// Parameters and buffers are used as they are and are left so. The error names
// every tensor that is wrong, and its worst entry.
//
// Beforehand all memory of operations is filled with NaN, which is therefore
// what an operation gives that does not write, or adds to, a part of its
// output. A module that is not smooth, such as a ReLU, fails where an entry
// happens to be within h of a kink: choose another seed.
func CheckGradients(m Module, shape []int, c GradientCheck) (err error) {
	c.Step, c.Tolerance = orDefault(c.Step, 0.01), orDefault(c.Tolerance, 0.01)
	if c.Entries == 0 {
		c.Entries = 100
	}
	if !(c.Step > 0 && c.Tolerance > 0) || c.Entries < 0 {
		return fmt.Errorf("nn: check gradients: step %v, tolerance %v, %d entries, want nothing below 0", c.Step, c.Tolerance, c.Entries)
	}
	g, err := newGradientChecker(m, shape, c)
	if err != nil {
		return fmt.Errorf("nn: check gradients of %T: %w", m, err)
	}
	defer func() { err = errors.Join(err, g.net.Close()) }()
	if err := g.run(); err != nil {
		return fmt.Errorf("nn: check gradients of %T: %w", m, err)
	}
	return nil
}

// checked is a module whose input is a parameter, so that it has a gradient.
type checked struct {
	Input *Param `nn:"input"`
	Module
}

// Forward adds the module on the parameter; what the network gives is not read.
func (m *checked) Forward(g *Graph, _ *gorgonia.Node) (*gorgonia.Node, error) {
	x, err := g.Param(m.Input)
	if err != nil {
		return nil, err
	}
	y, err := m.Module.Forward(g, x)
	if err != nil || y == nil {
		return nil, err
	}
	return Flatten{}.Forward(g, y)
}

// gradientChecker is a network of a checked module, and its only batch.
type gradientChecker struct {
	GradientCheck
	net       *Network
	x, target []float32
	rng       *rand.Rand
	restore   func() // the buffers, which a step moves
}

func newGradientChecker(m Module, shape []int, c GradientCheck) (*gradientChecker, error) {
	if m == nil {
		return nil, errors.New("no module")
	}
	if len(shape) < 2 || slices.Min(shape) < 1 {
		return nil, fmt.Errorf("input of shape %v, want positive dimensions, batch first", shape)
	}
	model := &checked{Input: NewParam(shape...), Module: m}
	w, err := walk(model)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x67726164))
	draw := func(x []float32) { Normal(1)(rng, x, 0, 0) }
	draw(model.Input.Value.Data)
	// Not by NewNetwork, which tries a model with a batch of 1.
	n := &Network{
		model: model, shape: []int{1}, config: Config{Loss: MSE{}, Seed: c.Seed},
		params: w.params, names: w.names, gradients: make(map[*Param]*gradient),
	}
	g := &gradientChecker{GradientCheck: c, net: n, x: make([]float32, shape[0]), rng: rng, restore: snapshot(w.state)}
	p, err := n.program(g.x, shape[0], true)
	if err != nil {
		return nil, err
	}
	n.outputs = p.logits.shape[1]
	g.target = make([]float32, shape[0]*n.outputs)
	draw(g.target)
	for _, o := range p.g.ops {
		fill(o.buffer(), float32(math.NaN()))
	}
	return g, nil
}

// snapshot returns a function that puts buffers and counters back.
func snapshot(state []NamedValue) (restore func()) {
	buffers, counters := make(map[*Buffer][]float32), make(map[*Counter]int64)
	for _, v := range state {
		if v.Buffer != nil {
			buffers[v.Buffer] = slices.Clone(v.Buffer.Value.Data)
		} else if v.Counter != nil {
			counters[v.Counter] = v.Counter.Value
		}
	}
	return func() {
		for b, data := range buffers {
			copy(b.Value.Data, data)
		}
		for c, value := range counters {
			c.Value = value
		}
	}
}

// run compares all gradients, and looks for an input that was written to.
func (g *gradientChecker) run() error {
	var before [][]float32
	for _, p := range g.net.params {
		before = append(before, slices.Clone(p.Value.Data))
	}
	if _, err := g.loss(); err != nil {
		return err
	}
	var tensors []*comparison
	for i, p := range g.net.params {
		if !slices.Equal(p.Value.Data, before[i]) {
			return fmt.Errorf("%s was written to by an operation that has it as an input", p.Name)
		}
		if p.Grad != nil {
			tensors = append(tensors, &comparison{name: p.Name, value: p.Value.Data, grad: slices.Clone(p.Grad)})
		}
	}
	largest := 0.0
	for _, t := range tensors {
		if err := g.differentiate(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		largest = max(largest, t.largest)
	}
	var errs []error
	for _, t := range tensors {
		errs = append(errs, t.check(g.Tolerance, largest))
	}
	return errors.Join(errs...)
}

func (g *gradientChecker) loss() (float64, error) {
	defer g.restore()
	return g.net.TrainTargets(context.Background(), 1, g.x, g.target)
}

// comparison is the gradient of a tensor, computed in two ways.
type comparison struct {
	name        string
	value, grad []float32
	entries     []int     // that were tried
	differences []float64 // by the entries moved
	largest     float64   // of them
}

// differentiate moves entries of a tensor, one at a time.
func (g *gradientChecker) differentiate(t *comparison) error {
	t.entries = g.rng.Perm(len(t.value))
	t.entries = t.entries[:min(len(t.entries), g.Entries)]
	slices.Sort(t.entries)
	for _, i := range t.entries {
		v := t.value[i]
		var losses [2]float64
		var moved [2]float64
		for side, h := range []float64{-g.Step, g.Step} {
			t.value[i] = float32(float64(v) + h)
			moved[side] = float64(t.value[i]) // as rounded
			var err error
			losses[side], err = g.loss()
			t.value[i] = v
			if err != nil {
				return err
			}
		}
		d := (losses[1] - losses[0]) / (moved[1] - moved[0])
		t.differences = append(t.differences, d)
		t.largest = max(t.largest, math.Abs(d))
	}
	return nil
}

// check compares both. A tensor whose gradient is nothing but rounding, as that
// of a bias before a normalisation, is compared with the largest of all.
func (t *comparison) check(tolerance, largest float64) error {
	scale := max(t.largest, largest/1000)
	worst, at := 0.0, -1
	for k, i := range t.entries {
		off := math.Abs(float64(t.grad[i]) - t.differences[k])
		if math.IsNaN(off) {
			off = math.Inf(1)
		}
		if off > tolerance*scale && off > worst {
			worst, at = off, k
		}
	}
	if at < 0 {
		return nil
	}
	return fmt.Errorf("gradient of %s: entry %d is %.6g, the loss says %.6g (largest %.6g)", t.name, t.entries[at], t.grad[t.entries[at]], t.differences[at], t.largest)
}
