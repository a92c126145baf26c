package nn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"
)

// blend computes w[0]*x*x + x*s, s of the shape of x, as one operation of three
// inputs. It counts what it is asked for.
type blend struct {
	Weight *Param
	S      Module
	asked  [][]bool // which gradients, by run of Backward
	broken string
}

func (m *blend) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	s, err := m.S.Forward(g, x)
	if err != nil {
		return nil, err
	}
	w, err := g.Param(m.Weight)
	if err != nil {
		return nil, err
	}
	return g.Apply(Op{
		Layer: g.Name(m, "blend"), Kind: "blend", In: []*gorgonia.Node{x, s, w}, Shape: x.Shape(),
		Forward: func(c *Call) error {
			x, s, w := c.In[0], c.In[1], c.In[2][0]
			c.Split(len(x), func(from, to int) {
				for i := from; i < to; i++ {
					c.Out[i] = w*x[i]*x[i] + x[i]*s[i]
				}
			})
			if m.broken == "input" {
				x[0]++
			}
			return nil
		},
		Backward: m.backward,
	})
}

func (m *blend) backward(c *Call) error {
	x, s, w, dy := c.In[0], c.In[1], c.In[2][0], c.GradOut
	dx, ds, dw := c.GradIn[0], c.GradIn[1], c.GradIn[2]
	m.asked = append(m.asked, []bool{dx != nil, ds != nil, dw != nil})
	factor := float32(2)
	if m.broken == "factor" {
		factor = 1.9
	}
	for i := range dx {
		dx[i] = dy[i] * (factor*w*x[i] + s[i])
	}
	for i := range ds {
		ds[i] = dy[i] * x[i]
	}
	if dw != nil {
		if m.broken != "adds" {
			dw[0] = 0
		}
		for i, v := range x {
			dw[0] += dy[i] * v * v
		}
	}
	if m.broken == "panic" {
		panic(fmt.Sprint("out of ", len(x)))
	}
	return nil
}

func newBlend() *blend {
	m := &blend{Weight: NewParam(1), S: NewLinear(newRand(3), 4, 4)}
	m.Weight.Value.Data[0] = 0.7
	return m
}

// TestApplyGradients: every combination of wanted gradients gives the right ones.
func TestApplyGradients(t *testing.T) {
	for mask := range 4 {
		m := newBlend()
		s := m.S.(*Linear)
		m.Weight.Frozen = mask&1 != 0
		s.Weight.Frozen, s.Bias.Frozen = mask&2 != 0, mask&2 != 0
		if err := CheckGradients(m, []int{3, 4}, GradientCheck{}); err != nil {
			t.Errorf("mask %b: %v", mask, err)
		}
		// x is trained by the check, and so is s, which is made of it.
		if want := []bool{true, true, mask&1 == 0}; !slices.Equal(m.asked[0], want) {
			t.Errorf("mask %b: asked for %v, want %v", mask, m.asked[0], want)
		}
	}
}

// TestApplyOnlyWanted: in a network nobody wants the gradient of the data, and the
// first one that is wanted need not be that of the first input.
func TestApplyOnlyWanted(t *testing.T) {
	for _, c := range []struct {
		frozenWeight, frozenS bool
		want                  []bool
	}{
		{false, false, []bool{false, true, true}},
		{true, false, []bool{false, true, false}},
		{false, true, []bool{false, false, true}},
	} {
		m := newBlend()
		s := m.S.(*Linear)
		m.Weight.Frozen, s.Weight.Frozen, s.Bias.Frozen = c.frozenWeight, c.frozenS, c.frozenS
		net := newNetwork(t, m, []int{4}, Config{Threads: 1})
		x, labels := batchFor([]int{4}, 3, 1)
		if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
			t.Fatal(err)
		}
		if len(m.asked) != 1 || !slices.Equal(m.asked[0], c.want) {
			t.Errorf("asked for %v, want %v once", m.asked, c.want)
		}
	}
}

// TestApplyTakesPartInTraining: threads change no bit, steps take no memory
// for tensors, and every gradient is where the optimiser looks for it.
func TestApplyTakesPartInTraining(t *testing.T) {
	const width = 1 << 17 // more than one part of a Split, and more than a step may allocate
	var values [2][]float32
	for i, threads := range []int{1, 2} {
		square := elementwise{f: func(v float32) float32 { return v * v }, d: func(v float32) float32 { return 2 * v }}
		model := Sequential{square, NewLinear(newRand(1), width, 3, NoBias())}
		net := newNetwork(t, model, []int{width}, Config{Threads: threads})
		x, labels := batchFor([]int{width}, 2, 1)
		step := func() {
			if _, _, err := net.Train(t.Context(), 1, x, labels); err != nil {
				t.Fatal(err)
			}
		}
		step()
		if bytes := bytesOf(step); bytes > 64<<10 {
			t.Errorf("%d threads: a step allocates %d bytes", threads, bytes)
		}
		values[i] = flatGrads(net)
	}
	if !slices.Equal(values[0], values[1]) {
		t.Error("the gradients depend on the number of threads")
	}
}

// bytesOf returns what a call allocates.
func bytesOf(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// elementwise is a module of a function and its derivative.
type elementwise struct{ f, d func(float32) float32 }

func (m elementwise) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.Apply(Op{
		Kind: "elementwise", In: []*gorgonia.Node{x}, Shape: x.Shape(),
		Forward: func(c *Call) error {
			c.Split(len(c.Out), func(from, to int) {
				for i := from; i < to; i++ {
					c.Out[i] = m.f(c.In[0][i])
				}
			})
			return nil
		},
		Backward: func(c *Call) error {
			c.Split(len(c.Out), func(from, to int) {
				for i := from; i < to; i++ {
					c.GradIn[0][i] = m.d(c.In[0][i]) * c.GradOut[i]
				}
			})
			return nil
		},
	})
}

// dropHalf drops a part of the batch by Call.Rand, once per direction.
type dropHalf struct{ log *[]float64 }

func (m dropHalf) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	scale := func(c *Call, dst, src []float32) error {
		f := c.Rand().Float64()
		*m.log = append(*m.log, f)
		for i, v := range src {
			dst[i] = float32(f) * v
		}
		return nil
	}
	return g.Apply(Op{
		Kind: "drop", In: []*gorgonia.Node{x}, Shape: x.Shape(),
		Forward:  func(c *Call) error { return scale(c, c.Out, c.In[0]) },
		Backward: func(c *Call) error { return scale(c, c.GradIn[0], c.GradOut) },
	})
}

// TestCallRand: the numbers are the same in both directions and after a
// resumption; they differ between layers, steps, parts of a step and seeds.
func TestCallRand(t *testing.T) {
	draws := func(seed uint64, steps ...int) []float64 {
		var log []float64
		drop := dropHalf{&log}
		model := Sequential{NewLinear(newRand(1), 4, 3), drop, drop}
		net := newNetwork(t, model, []int{4}, Config{Threads: 1, Seed: seed})
		x, labels := batchFor([]int{4}, 3, 1)
		for _, step := range steps {
			if _, _, err := net.Train(t.Context(), step, x, labels); err != nil {
				t.Fatal(err)
			}
			if _, _, err := net.Accumulate(t.Context(), step, x, labels); err != nil {
				t.Fatal(err)
			}
		}
		return log
	}
	log := draws(1, 1, 2)
	// A part of a step: first layer, second layer, and back.
	var distinct []float64
	for i := 0; i < len(log); i += 4 {
		if log[i] != log[i+3] || log[i+1] != log[i+2] {
			t.Errorf("forward %v, backward %v", log[i:i+2], log[i+2:i+4])
		}
		distinct = append(distinct, log[i], log[i+1])
	}
	if !slices.Equal(draws(1, 2), log[8:]) {
		t.Error("a resumed run draws other numbers")
	}
	distinct = append(distinct, draws(2, 1)[:2]...)
	slices.Sort(distinct)
	if n := len(slices.Compact(distinct)); n != 10 {
		t.Errorf("%d different numbers, want 10", n)
	}
}

// TestApplyTellsWhere: an error, a panic and a cancellation inside an operation.
func TestApplyTellsWhere(t *testing.T) {
	m := newBlend()
	m.broken = "panic"
	net := newNetwork(t, m, []int{4}, Config{Threads: 1})
	x, labels := batchFor([]int{4}, 3, 1)
	_, _, err := net.Train(t.Context(), 7, x, labels)
	var where *OpError
	var panicked *PanicError
	if !errors.As(err, &where) || !errors.As(err, &panicked) || where.Step != 7 || where.Op != "blend backward" {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var steps []int
	probe := called(func(c *Call) error {
		steps = append(steps, c.Step())
		cancel()
		return context.Cause(c.Context())
	})
	net = newNetwork(t, Sequential{probe, NewLinear(newRand(1), 4, 3)}, []int{4}, Config{Threads: 1})
	_, err = net.Predict(ctx, x)
	if !errors.Is(err, context.Canceled) || !errors.As(err, &where) || where.Layer != "probe1" || !slices.Equal(steps, []int{0}) {
		t.Errorf("error %v, steps %v", err, steps)
	}
}

// called is an operation without a derivative.
type called func(c *Call) error

func (f called) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return g.Apply(Op{Kind: "probe", In: []*gorgonia.Node{x}, Shape: x.Shape(), Forward: f})
}

// TestApplyWithoutBackward may stand before what is trained, and in evaluation.
func TestApplyWithoutBackward(t *testing.T) {
	copies := called(func(c *Call) error { copy(c.Out, c.In[0]); return nil })
	x, labels := batchFor([]int{4}, 3, 1)
	first := newNetwork(t, Sequential{copies, NewLinear(newRand(1), 4, 3)}, []int{4}, Config{Threads: 1})
	if _, _, err := first.Train(t.Context(), 1, x, labels); err != nil {
		t.Error(err)
	}
	last := newNetwork(t, Sequential{NewLinear(newRand(1), 4, 3), copies}, []int{4}, Config{Threads: 1})
	if _, err := last.Predict(t.Context(), x); err != nil {
		t.Error(err)
	}
	if _, _, err := last.Train(t.Context(), 1, x, labels); !contains(err, `layer probe1: operation "probe": something trainable comes before input 0, so it needs a Backward`) {
		t.Errorf("error %v", err)
	}
}

func TestPublicApplyRefuses(t *testing.T) {
	g, other := newGraph(nil, nil, 1, true, 0), newGraph(nil, nil, 1, true, 1)
	x, err := g.input("x", newDense([]int{2}, make([]float32, 2)))
	if err != nil {
		t.Fatal(err)
	}
	y, err := other.input("y", newDense([]int{2}, make([]float32, 2)))
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(*Call) error { return nil }
	in := []*gorgonia.Node{x}
	for want, o := range map[string]Op{
		"want a Kind, inputs and a Forward":            {In: in, Shape: []int{1}, Forward: nothing},
		`layer a1: operation "a": want a Kind, inputs`: {Kind: "a", Shape: []int{1}, Forward: nothing},
		"and a Forward": {Layer: "l", Kind: "a", In: in, Shape: []int{1}},
		`layer l: operation "a": output of shape [], want posi`: {Layer: "l", Kind: "a", In: in, Forward: nothing},
		"output of shape [2 0], want positive dimensions":       {Layer: "l", Kind: "a", In: in, Shape: []int{2, 0}, Forward: nothing},
		"input 1 is nil":                                     {Layer: "l", Kind: "a", In: []*gorgonia.Node{x, nil}, Shape: []int{1}, Forward: nothing},
		"input 1 is a node of another graph":                 {Layer: "l", Kind: "a", In: []*gorgonia.Node{x, y}, Shape: []int{1}, Forward: nothing},
		"input 0 is a float32, want a float32 tensor":        {Layer: "l", Kind: "a", In: []*gorgonia.Node{gorgonia.NewScalar(g.ex, gorgonia.Float32)}, Shape: []int{1}, Forward: nothing},
		"input 0 is a Vector float64, want a float32 tensor": {Layer: "l", Kind: "a", In: []*gorgonia.Node{gorgonia.NewVector(g.ex, gorgonia.Float64, gorgonia.WithShape(2), gorgonia.WithName("v"))}, Shape: []int{1}, Forward: nothing},
	} {
		if _, err := g.Apply(o); !contains(err, want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if len(g.ops) != 0 {
		t.Errorf("%d operations were added", len(g.ops))
	}
}

// TestCheckGradientsFinds the mistakes that layers are written with.
func TestCheckGradientsFinds(t *testing.T) {
	for broken, want := range map[string]string{
		"factor": "nn: check gradients of *nn.blend: gradient of input: entry ",
		"adds":   "gradient of weight: entry 0 is NaN, the loss says ",
		"input":  "input was written to by an operation that has it as an input",
		"panic":  "blend backward: panic: out of 12",
	} {
		m := newBlend()
		m.broken = broken
		if err := CheckGradients(m, []int{3, 4}, GradientCheck{}); !contains(err, want) {
			t.Errorf("%s: error %v, want one with %q", broken, err, want)
		}
	}
	unwritten := called(func(*Call) error { return nil })
	err := CheckGradients(Sequential{unwritten}, []int{2, 2}, GradientCheck{})
	if !contains(err, "needs a Backward") {
		t.Errorf("no derivative: error %v", err)
	}
	lazy := elementwise{f: func(float32) float32 { return float32(math.NaN()) }, d: func(float32) float32 { return 0 }}
	var notFinite *NonFiniteError
	if err := CheckGradients(lazy, []int{2, 2}, GradientCheck{}); !errors.As(err, &notFinite) {
		t.Errorf("an output that is NaN: error %v", err)
	}
}

// TestCheckGradientsOfLayers: those of this package pass, statistics and all, and
// keep their values.
func TestCheckGradientsOfLayers(t *testing.T) {
	rng := newRand(5)
	bn := NewBatchNorm(3, BatchNormConfig{})
	for i, m := range []Module{
		GELU{}, Tanh{}, NewLayerNorm(2, 2), bn, &Residual{Body: Sequential{NewConv2d(rng, 3, 3, 3, Conv2dConfig{Padding: 1}), bn}},
		Sequential{Dropout{Rate: 0.5}, Flatten{}, NewLinear(rng, 12, 5)}, AvgPool2d{Kernel: 2}, Sequential{},
	} {
		before := fmt.Sprint(stateValues(t, m))
		if err := CheckGradients(m, []int{4, 3, 2, 2}, GradientCheck{Seed: uint64(i)}); err != nil {
			t.Error(err)
		}
		if after := fmt.Sprint(stateValues(t, m)); after != before {
			t.Errorf("%T: the check has changed the module", m)
		}
	}
}

func stateValues(t *testing.T, m Module) (list [][]float32) {
	t.Helper()
	state, err := State(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range state {
		if v.Counter != nil {
			list = append(list, []float32{float32(v.Counter.Value)})
		} else {
			list = append(list, slices.Clone(v.tensor().Data))
		}
	}
	return list
}

func TestCheckGradientsRefuses(t *testing.T) {
	for want, check := range map[string]func() error{
		"no module":                func() error { return CheckGradients(nil, []int{1, 1}, GradientCheck{}) },
		"input of shape [3], want": func() error { return CheckGradients(GELU{}, []int{3}, GradientCheck{}) },
		"step -1":                  func() error { return CheckGradients(GELU{}, []int{1, 1}, GradientCheck{Step: -1}) },
		"layer linear: input of shape ": func() error {
			return CheckGradients(&unnamed{NewLinear(newRand(1), 2, 2)}, []int{1, 3}, GradientCheck{})
		},
	} {
		if err := check(); !contains(err, want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// unnamed hides its layer from the walk.
type unnamed struct{ layer *Linear }

func (m *unnamed) Forward(g *Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return m.layer.Forward(g, x)
}
