package optim_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coda-ml/coda/optim"
)

func mustSGD(t testing.TB, c optim.SGDConfig) *optim.SGD {
	t.Helper()
	s, err := optim.NewSGD(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustAdam(t testing.TB, c optim.AdamConfig) *optim.Adam {
	t.Helper()
	a, err := optim.NewAdam(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// nesterov is the configuration of tests that need just any.
func nesterov() optim.SGDConfig {
	return optim.SGDConfig{LR: optim.Constant(0.1), Momentum: 0.9, Decay: 0.01, Nesterov: true}
}

func TestConfigListsEveryProblem(t *testing.T) {
	_, err := optim.NewSGD(optim.SGDConfig{Momentum: 1, Decay: math.NaN()})
	wantAll(t, err, "no learning rate schedule", "momentum 1", "weight decay NaN")
	_, err = optim.NewSGD(optim.SGDConfig{LR: optim.Constant(math.Inf(1)), Nesterov: true})
	wantAll(t, err, "learning rate +Inf", "Nesterov without momentum")
	_, err = optim.NewAdam(optim.AdamConfig{LR: optim.Constant(-1), Beta1: 1, Beta2: -0.5, Eps: -1, Decay: math.Inf(1)})
	wantAll(t, err, "learning rate -1", "beta1 1", "beta2 -0.5", "epsilon -1", "weight decay +Inf")
	_, err = optim.Step(math.NaN(), 0, -1)
	wantAll(t, err, "learning rate NaN", "every 0 steps", "gamma -1")
	_, err = optim.Cosine(0.1, 0.2, 0)
	wantAll(t, err, "floor 0.2", "0 steps")
}

func wantAll(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not mention %q", err, p)
		}
	}
}

func TestSchedulesOutsideTheirRange(t *testing.T) {
	c, err := optim.Cosine(1, 0.25, 4)
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range map[int]float64{-3: 1, 0: 1, 1: 1, 5: 0.25, 6: 0.25, 1000: 0.25} {
		if got := c(step); math.Abs(got-want) > 1e-15 {
			t.Errorf("cosine at step %d: %v, want %v", step, got, want)
		}
	}
	if got := optim.Constant(0.3)(17); got != 0.3 {
		t.Errorf("constant: %v, want 0.3", got)
	}
}

// A step that fails must leave values, state and count as they were.
func TestFailedStepChangesNothing(t *testing.T) {
	good := optim.Param{Name: "a", Value: []float32{1, 2}, Grad: []float32{1, 1}}
	cases := map[string]struct {
		step   int
		params []optim.Param
		want   string
	}{
		"step zero":  {0, []optim.Param{good}, "step 0"},
		"no name":    {2, []optim.Param{good, {Value: []float32{1}, Grad: []float32{1}}}, "without a name"},
		"lengths":    {2, []optim.Param{good, {Name: "b", Value: []float32{1}}}, "b has 1 values and 0 gradients"},
		"twice":      {2, []optim.Param{good, good}, "a is given twice"},
		"other size": {2, []optim.Param{{Name: "a", Value: []float32{1}, Grad: []float32{1}}}, "a has 1 values, its state 2"},
		"bad rate":   {99, []optim.Param{good}, "step 99: learning rate NaN"},
	}
	rate := func(step int) float64 {
		if step == 99 {
			return math.NaN()
		}
		return 0.1
	}
	for name, c := range cases {
		for _, o := range []optim.Optimizer{
			mustSGD(t, optim.SGDConfig{LR: rate, Momentum: 0.9}), mustAdam(t, optim.AdamConfig{LR: rate}),
		} {
			copy(good.Value, []float32{1, 2})
			if err := o.Step(1, []optim.Param{good}); err != nil {
				t.Fatal(err)
			}
			value, state := slices.Clone(good.Value), o.State()
			err := o.Step(c.step, c.params)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%s: error %v, want one with %q", name, err, c.want)
			}
			if !slices.Equal(value, good.Value) {
				t.Errorf("%s: the failed step changed the values", name)
			}
			if !cmp.Equal(state, o.State()) {
				t.Errorf("%s: the failed step changed the state", name)
			}
		}
	}
}

// Training that stops, saves, loads and goes on gives the same bits.
func TestResumeIsExact(t *testing.T) {
	for name, mk := range map[string]func() optim.Optimizer{
		"SGD":  func() optim.Optimizer { return mustSGD(t, nesterov()) },
		"Adam": func() optim.Optimizer { return mustAdam(t, optim.AdamConfig{LR: optim.Constant(0.1), Decay: 0.01}) },
	} {
		rapid.Check(t, func(rt *rapid.T) {
			steps := rapid.IntRange(1, 12).Draw(rt, "steps")
			stop := rapid.IntRange(0, steps).Draw(rt, "stop")
			grads := rapid.SliceOfN(rapid.Float32Range(-2, 2), 3*steps, 3*steps).Draw(rt, "grads")
			run := func(save bool) []float32 {
				o, w := mk(), []float32{1, -2, 3}
				for i := range steps {
					if save && i == stop {
						saved := o.State()
						o = mk()
						if err := o.LoadState(saved); err != nil {
							rt.Fatal(err)
						}
						for _, tensor := range saved.Tensors {
							clear(tensor.Data) // the loaded state must be a copy
						}
					}
					p := []optim.Param{{Name: "a.w", Value: w[:2], Grad: grads[3*i : 3*i+2]}, {Name: "a.b", Value: w[2:], Grad: grads[3*i+2 : 3*i+3]}}
					if err := o.Step(i+1, p); err != nil {
						rt.Fatal(err)
					}
				}
				return w
			}
			if a, b := run(false), run(true); !slices.Equal(a, b) {
				rt.Fatalf("%s: resumed at %d: %v, want %v", name, stop, b, a)
			}
		})
	}
}

func TestLoadStateRefuses(t *testing.T) {
	adam := mustAdam(t, optim.AdamConfig{LR: optim.Constant(0.1)})
	err := adam.LoadState(optim.State{Updates: -1, Tensors: []optim.Tensor{
		{Name: "w.exp_avg", Data: []float32{1}},
		{Name: "w.exp_avg_sq", Data: []float32{1, 2}},
		{Name: "v.exp_avg_sq", Data: []float32{1}},
		{Name: "u.exp_avg", Data: []float32{1}},
		{Name: "u.exp_avg", Data: []float32{1}},
		{Name: "w.momentum_buffer"}, {Name: "exp_avg"},
	}})
	wantAll(t, err, "-1 updates", `"w.exp_avg_sq" has 2 values, "w.exp_avg" 1`, `"v.exp_avg" is missing`,
		`"u.exp_avg" is given twice`, `"u.exp_avg_sq" is missing`, `unknown tensor "w.momentum_buffer"`, `unknown tensor "exp_avg"`)
	if s := adam.State(); s.Updates != 0 || len(s.Tensors) != 0 {
		t.Errorf("a refused state was loaded: %+v", s)
	}
}

func TestStateNames(t *testing.T) {
	o := mustAdam(t, optim.AdamConfig{LR: optim.Constant(0.1)})
	p := []optim.Param{{Name: "fc1.weight", Value: make([]float32, 2), Grad: make([]float32, 2)}, {Name: "conv1.bias", Value: make([]float32, 1), Grad: make([]float32, 1)}}
	if err := o.Step(1, p); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tensor := range o.State().Tensors {
		names = append(names, tensor.Name)
	}
	want := []string{"conv1.bias.exp_avg", "conv1.bias.exp_avg_sq", "fc1.weight.exp_avg", "fc1.weight.exp_avg_sq"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestLinear(t *testing.T) {
	lr, err := optim.Step(0.5, 2, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	c := nesterov()
	c.LR = lr
	update, err := mustSGD(t, c).Linear("fc1")
	if err != nil {
		t.Fatal(err)
	}
	u, err := update(3)
	if err != nil {
		t.Fatal(err)
	}
	if u.Step != 3 || u.LR != 0.5*0.1 || u.Momentum != 0.9 || u.Decay != 0.01 || u.Scale != 1 || !u.Nesterov {
		t.Errorf("update %+v", u)
	}

	_, err = mustAdam(t, optim.AdamConfig{LR: lr}).Linear("net.fc1")
	var not *optim.NotLinearError
	if !errors.As(err, &not) || not.Layer != "net.fc1" || not.Optimizer != "Adam" {
		t.Fatalf("Adam: %v, want a *NotLinearError with layer and optimiser", err)
	}
	wantAll(t, err, "net.fc1", "Adam", "local", "batch")
}

// With a gradient of zero, decay is all that moves a value.
func TestNoDecay(t *testing.T) {
	for name, o := range map[string]optim.Optimizer{
		"SGD": mustSGD(t, nesterov()), "Adam": mustAdam(t, optim.AdamConfig{LR: optim.Constant(0.1), Decay: 0.5}),
	} {
		a, b := []float32{2}, []float32{2}
		params := []optim.Param{{Name: "a", Value: a, Grad: []float32{0}}, {Name: "b", Value: b, Grad: []float32{0}, NoDecay: true}}
		if err := o.Step(1, params); err != nil {
			t.Fatal(err)
		}
		if a[0] >= 2 || b[0] != 2 {
			t.Errorf("%s: values %v with and %v without decay, want less than 2 and 2", name, a[0], b[0])
		}
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	p := []optim.Param{{Name: "w", Value: make([]float32, 100), Grad: make([]float32, 100)}}
	for name, o := range map[string]optim.Optimizer{
		"SGD": mustSGD(t, nesterov()), "Adam": mustAdam(t, optim.AdamConfig{LR: optim.Constant(0.1)}),
	} {
		if n := testing.AllocsPerRun(10, func() {
			if err := o.Step(1, p); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a step", name, n)
		}
	}
}
