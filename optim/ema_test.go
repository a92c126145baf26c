package optim_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coda-ml/coda/optim"
)

func mustEMA(t *testing.T, c optim.EMAConfig) *optim.EMA {
	t.Helper()
	e, err := optim.NewEMA(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEMA(t *testing.T) {
	for _, warm := range []bool{false, true} {
		e := mustEMA(t, optim.EMAConfig{Decay: 0.75, WarmUp: warm})
		w := []float32{1, -2}
		p := []optim.Param{{Name: "w", Value: w}}
		want := []float64{1, -2}
		for step := 1; step <= 60; step++ {
			w[0], w[1] = float32(step), float32(-step*step)
			if err := e.Update(p); err != nil {
				t.Fatal(err)
			}
			d := 0.75
			if warm {
				d = min(d, float64(1+step)/float64(10+step))
			}
			for i := range want {
				if want[i] = d*want[i] + (1-d)*float64(w[i]); step == 1 {
					want[i] = float64(w[i])
				}
			}
		}
		if e.Updates() != 60 {
			t.Errorf("%d updates, want 60", e.Updates())
		}
		saved := slices.Clone(w)
		fail := errors.New("no")
		err := e.With(p, func() error {
			for i := range want {
				if d := math.Abs(float64(w[i])-want[i]) / math.Abs(want[i]); !(d < 1e-6) {
					t.Errorf("warm-up %v: average %v, want %v", warm, w[i], want[i])
				}
			}
			if e.Update(p) == nil || e.With(p, nil) == nil || e.LoadState(optim.State{}) == nil {
				t.Error("averages may not change while they are in the place of the weights")
			}
			if got := e.State().Tensors[0]; got.Name != "w.ema" || !slices.Equal(got.Data, w) {
				t.Errorf("state %v while averages %v are in", got, w)
			}
			return fail
		})
		if err != fail || !slices.Equal(w, saved) {
			t.Errorf("error %v, weights %v, want %v, %v", err, w, fail, saved)
		}
	}
}

func TestEMAPutsWeightsBack(t *testing.T) {
	e := mustEMA(t, optim.EMAConfig{Decay: 0.5})
	w := []float32{1}
	p := []optim.Param{{Name: "w", Value: w}}
	for range 2 {
		w[0]++
		if err := e.Update(p); err != nil {
			t.Fatal(err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = e.With(append(p, p...), func() error { panic("in the middle") })
	}()
	if w[0] != 3 {
		t.Errorf("after a panic, given twice: %v, want 3", w[0])
	}
	if err := e.With(p, func() error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	other := []float32{5, 6}
	err := e.With([]optim.Param{{Name: "v", Value: w}, {Name: "w", Value: other}}, func() error { t.Error("was run"); return nil })
	wantAll(t, err, "v has no average", "w has 2 values")
	if err := e.Update([]optim.Param{{Name: "w", Value: other}}); err == nil {
		t.Error("other size: no error")
	}
}

func TestEMAResumes(t *testing.T) {
	config := optim.EMAConfig{Decay: 0.9, WarmUp: true}
	a, b := mustEMA(t, config), mustEMA(t, config)
	w := []float32{1, 2, 3}
	p := []optim.Param{{Name: "net.w", Value: w}}
	for step := range 10 {
		if step == 5 {
			if err := b.LoadState(a.State()); err != nil {
				t.Fatal(err)
			}
		}
		w[step%3] += 0.3
		if err := a.Update(p); err != nil {
			t.Fatal(err)
		}
		if step >= 5 {
			if err := b.Update(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff(a.State(), b.State()); d != "" {
		t.Error(d)
	}
	if got := testing.AllocsPerRun(5, func() {
		if err := a.Update(p); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations an update", got)
	}
}
