package optim_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/internal/steady"
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
	bad := math.NaN()
	_, err := optim.NewSGD(optim.SGDConfig{Momentum: 1, Decay: bad, ClipNorm: -1})
	wantAll(t, err, "SGD", "no learning rate schedule", "momentum 1", "weight decay NaN", "clip norm -1")
	_, err = optim.NewSGD(optim.SGDConfig{LR: optim.Constant(math.Inf(1)), Nesterov: true})
	wantAll(t, err, "learning rate +Inf", "Nesterov without momentum")
	adam := optim.AdamConfig{LR: optim.Constant(-1), Beta1: 1, Beta2: -0.5, Eps: -1, Decay: math.Inf(1)}
	_, err = optim.NewAdam(adam)
	wantAll(t, err, "Adam: ", "learning rate -1", "beta1 1", "beta2 -0.5", "epsilon -1", "weight decay +Inf")
	_, err = optim.NewAdamW(adam)
	wantAll(t, err, "AdamW: ", "learning rate -1", "beta1 1")
	_, err = optim.NewRMSProp(optim.RMSPropConfig{Alpha: 1, Eps: -1, Momentum: -1, Decay: -1})
	wantAll(t, err, "RMSProp", "no learning rate schedule", "alpha 1", "epsilon -1", "momentum -1", "weight decay -1")
	_, err = optim.NewAdagrad(optim.AdagradConfig{Eps: bad})
	wantAll(t, err, "Adagrad", "no learning rate schedule", "epsilon NaN")
	_, err = optim.NewLAMB(optim.LAMBConfig{Beta1: bad, Beta2: 2, Eps: -1})
	wantAll(t, err, "LAMB", "no learning rate schedule", "beta1 NaN", "beta2 2", "epsilon -1")
	_, err = optim.NewEMA(optim.EMAConfig{Decay: 1})
	wantAll(t, err, "EMA", "decay 1")
}

// TestMomentaByStep: with a momentum for every step, SGD moves as with a constant
// one as long as it is the same, and as with another from where it changes.
func TestMomentaByStep(t *testing.T) {
	momenta := func(step int) float64 { return []float64{0.9, 0.9, 0.5}[step-1] }
	varied := mustSGD(t, optim.SGDConfig{LR: optim.Constant(0.1), Momenta: momenta, Nesterov: true})
	twin := mustSGD(t, optim.SGDConfig{LR: optim.Constant(0.1), Momentum: 0.9, Nesterov: true})
	got := []optim.Param{{Name: "a", Value: []float32{1, 2}, Grad: []float32{3, -1}}}
	want := []optim.Param{{Name: "a", Value: []float32{1, 2}, Grad: []float32{3, -1}}}
	for step := 1; step <= 2; step++ {
		if err := errors.Join(varied.Step(step, got), twin.Step(step, want)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0].Value, want[0].Value) {
			t.Fatalf("step %d: %v, want %v", step, got[0].Value, want[0].Value)
		}
	}
	// With g = 3: v = 3, 0.9*3+3 = 5.7, then 0.5*5.7+3 = 5.85; w -= 0.1*(g + 0.5*v).
	before := got[0].Value[0]
	if err := varied.Step(3, got); err != nil {
		t.Fatal(err)
	}
	if moved := before - got[0].Value[0]; math.Abs(float64(moved)-0.5925) > 1e-6 {
		t.Errorf("the third step moved by %v, want 0.5925", moved)
	}
	update, err := varied.Linear("fc")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := update(3); err != nil || u.Momentum != 0.5 {
		t.Errorf("a placed layer's third update: %+v, %v; want momentum 0.5", u, err)
	}
}

func TestMomentaThatAreNone(t *testing.T) {
	_, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(1), Momentum: 0.9, Momenta: optim.Constant(0.9)})
	wantAll(t, err, "momentum 0.9 beside momenta by step")
	for _, bad := range []float64{1, -0.1, math.NaN()} {
		o := mustSGD(t, optim.SGDConfig{LR: optim.Constant(1), Momenta: optim.Constant(bad)})
		p := []optim.Param{{Name: "a", Value: []float32{1}, Grad: []float32{1}}}
		wantAll(t, o.Step(1, p), "step 1: momentum")
		if p[0].Value[0] != 1 {
			t.Errorf("momentum %v changed the value", bad)
		}
		update, err := o.Linear("fc")
		if err != nil {
			t.Fatal(err)
		}
		_, err = update(1)
		wantAll(t, err, "step 1: momentum")
	}
	_, err = optim.New("adam", optim.Config{LR: optim.Constant(1), Momenta: optim.Constant(0.9)})
	wantAll(t, err, "adam: it has no momenta")
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

// A step that fails must leave values, state and count as they were.
func TestFailedStepChangesNothing(t *testing.T) {
	good := optim.Param{Name: "a", Value: []float32{1, 2}, Grad: []float32{1, 1}}
	new := optim.Param{Name: "c", Value: []float32{3}, Grad: []float32{1}}
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
		"new twice":  {2, []optim.Param{good, new, new}, "c is given twice"},
		"new first":  {2, []optim.Param{new, {Name: "a", Value: []float32{1}, Grad: []float32{1}}}, "a has 1 values"},
	}
	rate := func(step int) float64 {
		if step == 99 {
			return math.NaN()
		}
		return 0.1
	}
	forEach(t, func(t *testing.T, make func(optim.Schedule) optim.Optimizer) {
		for name, c := range cases {
			o := make(rate)
			copy(good.Value, []float32{1, 2})
			if err := o.Step(1, []optim.Param{good}); err != nil {
				t.Fatal(err)
			}
			value, state := slices.Clone(good.Value), o.State()
			err := o.Step(c.step, c.params)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%s: error %v, want one with %q", name, err, c.want)
			}
			if !slices.Equal(value, good.Value) || new.Value[0] != 3 {
				t.Errorf("%s: the failed step changed the values", name)
			}
			if !cmp.Equal(state, o.State()) {
				t.Errorf("%s: the failed step changed the state", name)
			}
		}
	})
}

// Training that stops, saves, loads and goes on gives the same bits.
func TestResumeIsExact(t *testing.T) {
	forEach(t, func(t *testing.T, make func(optim.Schedule) optim.Optimizer) {
		rapid.Check(t, func(rt *rapid.T) {
			steps := rapid.IntRange(1, 12).Draw(rt, "steps")
			stop := rapid.IntRange(0, steps).Draw(rt, "stop")
			grads := rapid.SliceOfN(rapid.Float32Range(-2, 2), 3*steps, 3*steps).Draw(rt, "grads")
			run := func(save bool) []float32 {
				o, w := make(optim.Constant(0.1)), []float32{1, -2, 3}
				for i := range steps {
					if save && i == stop {
						saved := o.State()
						o = make(optim.Constant(0.1))
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
				rt.Fatalf("resumed at %d: %v, want %v", stop, b, a)
			}
		})
	})
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
	forEach(t, func(t *testing.T, make func(optim.Schedule) optim.Optimizer) {
		name := strings.TrimPrefix(t.Name(), "TestNoDecay/")
		if variants[strings.ReplaceAll(name, "_", " ")].config.Decay == 0 {
			return
		}
		o, a, b := make(optim.Constant(0.1)), []float32{2}, []float32{2}
		params := []optim.Param{{Name: "a", Value: a, Grad: []float32{0}}, {Name: "b", Value: b, Grad: []float32{0}, NoDecay: true}}
		if err := o.Step(1, params); err != nil {
			t.Fatal(err)
		}
		if !(a[0] < 2) || b[0] != 2 {
			t.Errorf("values %v with and %v without decay, want less than 2 and 2", a[0], b[0])
		}
	})
}

func TestStepAllocatesNothing(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	const n = 50_000 // several pieces
	p := []optim.Param{{Name: "w", Value: make([]float32, n), Grad: make([]float32, n)}}
	for name := range variants {
		o := variant(t, name, optim.Constant(0.1), pool)
		if got := steady.Allocs(10, func() {
			if err := o.Step(1, p); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s: %v allocations a step", name, got)
		}
	}
}

// The goroutines of a pool must not show in the bits.
func TestPoolGivesTheSameBits(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	for name := range variants {
		r := rand.New(rand.NewPCG(1, 2))
		const n = 70_001
		grad, start := make([]float32, n), make([]float32, n)
		for i := range n {
			grad[i], start[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
		run := func(pool *kernel.Pool) []float32 {
			o, w := variant(t, name, optim.Constant(0.1), pool), slices.Clone(start)
			for step := 1; step <= 3; step++ {
				if err := o.Step(step, []optim.Param{{Name: "w", Value: w[:60_000], Grad: grad[:60_000]}, {Name: "b", Value: w[60_000:], Grad: grad[60_000:]}}); err != nil {
					t.Fatal(err)
				}
			}
			return w
		}
		if a, b := run(nil), run(pool); !slices.Equal(a, b) || slices.Equal(a, start) {
			t.Errorf("%s: other values with a pool", name)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	const n = 1 << 20
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		for threads, pool := range map[int]*kernel.Pool{1: nil, 2: pool} {
			b.Run(fmt.Sprintf("%s/threads=%d/n=1M", name, threads), func(b *testing.B) {
				p := []optim.Param{{Name: "w", Value: make([]float32, n), Grad: make([]float32, n)}}
				for i := range n {
					p[0].Value[i], p[0].Grad[i] = float32(i%7+1), float32(i%5+1)
				}
				o := variant(b, name, optim.Constant(1e-6), pool)
				b.ReportAllocs()
				for b.Loop() {
					if err := o.Step(1, p); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/param")
			})
		}
	}
}
