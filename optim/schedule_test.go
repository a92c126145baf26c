package optim_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/optim"
)

func TestSchedulesOutsideTheirRange(t *testing.T) {
	for name, c := range map[string]struct {
		s    optim.Schedule
		want map[int]float64
	}{
		"constant":  {optim.Constant(0.3), map[int]float64{-1: 0.3, 17: 0.3}},
		"step":      {must(optim.Step(1, 2, 0.5)), map[int]float64{-1: 1, 0: 1, 2: 1, 3: 0.5}},
		"multi":     {must(optim.MultiStep(1, []int{1, 3}, 0.5)), map[int]float64{-1: 1, 1: 1, 2: 0.5, 3: 0.5, 4: 0.25, 99: 0.25}},
		"no steps":  {must(optim.MultiStep(1, nil, 0.5)), map[int]float64{1: 1, 99: 1}},
		"exp":       {must(optim.Exponential(1, 0.5)), map[int]float64{-1: 1, 1: 1, 3: 0.25}},
		"cosine":    {must(optim.Cosine(1, 0.25, 4)), map[int]float64{-3: 1, 0: 1, 1: 1, 5: 0.25, 6: 0.25, 1000: 0.25}},
		"one cycle": {must(optim.OneCycle(optim.OneCycleConfig{Peak: 1, Steps: 20, Rise: 0.5, Div: 10, FinalDiv: 10})), map[int]float64{-3: 0.1, 1: 0.1, 10: 1, 20: 0.01, 21: 0.01, 99: 0.01}},
		"linear":    {must(optim.OneCycle(optim.OneCycleConfig{Peak: 1, Steps: 11, Rise: 6. / 11, Div: 10, FinalDiv: 10, Linear: true})), map[int]float64{1: 0.1, 3: 0.46, 6: 1, 8: 0.604, 11: 0.01, 12: 0.01}},
		"rise only": {must(optim.OneCycle(optim.OneCycleConfig{Peak: 1, Steps: 5, Rise: 1, Div: 10})), map[int]float64{1: 0.1, 5: 1, 6: 1}},
		"one step":  {must(optim.OneCycle(optim.OneCycleConfig{Peak: 1, Steps: 1})), map[int]float64{1: 1, 2: 1}},
		"two steps": {must(optim.OneCycle(optim.OneCycleConfig{Peak: 1, Steps: 2, Div: 10, FinalDiv: 10})), map[int]float64{1: 1, 2: 0.01}},
		"warm-up":   {must(optim.WarmUp(0, 4, must(optim.Step(1, 2, 0.5)))), map[int]float64{-1: 0, 1: 0, 3: 0.5, 4: 0.75, 5: 1, 6: 1, 7: 0.5}},
		"then":      {must(optim.Then(optim.Constant(3), 2, must(optim.Exponential(1, 0.5)))), map[int]float64{0: 3, 2: 3, 3: 1, 4: 0.5}},
		"every":     {must(optim.Every(3, must(optim.Exponential(1, 0.5)))), map[int]float64{0: 1, 1: 1, 3: 1, 4: 0.5, 6: 0.5, 7: 0.25}},
	} {
		for step, want := range c.want {
			if got := c.s(step); !(math.Abs(got-want) <= 1e-15) {
				t.Errorf("%s at step %d: %v, want %v", name, step, got, want)
			}
		}
	}
}

func TestScheduleProblems(t *testing.T) {
	bad := math.NaN()
	for _, c := range []struct {
		err   func() (optim.Schedule, error)
		parts []string
	}{
		{func() (optim.Schedule, error) { return optim.Step(bad, 0, -1) }, []string{"learning rate NaN", "every 0 steps", "gamma -1"}},
		{func() (optim.Schedule, error) { return optim.MultiStep(-1, []int{0, 5, 5, 9}, bad) }, []string{"learning rate -1", "milestone 1 is 0", "milestone 3 is 5", "gamma NaN"}},
		{func() (optim.Schedule, error) { return optim.Exponential(bad, math.Inf(1)) }, []string{"learning rate NaN", "gamma +Inf"}},
		{func() (optim.Schedule, error) { return optim.Cosine(0.1, 0.2, 0) }, []string{"floor 0.2", "0 steps"}},
		{func() (optim.Schedule, error) {
			return optim.OneCycle(optim.OneCycleConfig{Peak: -1, Rise: 2, Div: 0.5, FinalDiv: bad})
		}, []string{"learning rate -1", "0 steps", "rise 2", "div 0.5", "final div NaN"}},
		{func() (optim.Schedule, error) { return optim.WarmUp(2, 0, nil) }, []string{"first part 2", "0 steps", "no learning rate schedule"}},
		{func() (optim.Schedule, error) { return optim.Then(nil, 0, optim.Constant(1)) }, []string{"two schedules", "0 steps"}},
		{func() (optim.Schedule, error) { return optim.Every(-1, nil) }, []string{"want a schedule", "-1 steps"}},
	} {
		s, err := c.err()
		wantAll(t, err, c.parts...)
		if s != nil {
			t.Errorf("%v: a schedule as well", err)
		}
	}
}

// MultiStep keeps no hold of the caller's slice.
func TestMultiStepCopies(t *testing.T) {
	m := []int{5}
	s := must(optim.MultiStep(1, m, 0.1))
	m[0] = 1
	if s(3) != 1 {
		t.Error("the schedule followed the caller's slice")
	}
}

func TestOneCycleRisesAndFalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.IntRange(1, 200).Draw(rt, "steps")
		rise := rapid.Float64Range(0.01, 1).Draw(rt, "rise")
		s := must(optim.OneCycle(optim.OneCycleConfig{Peak: 2, Steps: steps, Rise: rise}))
		falling := false
		for step := 1; step <= steps; step++ {
			if v := s(step); !(v >= 2.0/25/1e4*0.999 && v <= 2) {
				rt.Fatalf("step %d: %v", step, v)
			}
			if step > 1 && s(step) < s(step-1) {
				falling = true
			} else if falling && s(step) > s(step-1) {
				rt.Fatalf("step %d: it rises again", step)
			}
		}
	})
}

// TestCycleMomentum: the momenta of OneCycleLR(SGD, 0.4, total_steps=20) in
// PyTorch 2, in both its forms.
func TestCycleMomentum(t *testing.T) {
	for _, c := range []struct {
		linear bool
		want   map[int]float64
	}{
		{false, map[int]float64{1: 0.95, 2: 0.9404508497187474, 5: 0.8595491502812526, 6: 0.85, 7: 0.8512536043909088, 13: 0.9, 19: 0.9487463956090911, 20: 0.95, 99: 0.95}},
		{true, map[int]float64{1: 0.95, 2: 0.93, 5: 0.87, 6: 0.85, 7: 0.8571428571428571, 13: 0.9, 19: 0.9428571428571428, 20: 0.95, 99: 0.95}},
	} {
		s := must(optim.CycleMomentum(optim.OneCycleConfig{Steps: 20, Linear: c.linear}, 0.95, 0.85))
		for step, want := range c.want {
			if got := s(step); !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("linear %v, step %d: %v, want %v", c.linear, step, got, want)
			}
		}
	}
	_, err := optim.CycleMomentum(optim.OneCycleConfig{Rise: 2}, 1, math.NaN())
	wantAll(t, err, "0 steps", "rise 2", "momentum 1", "momentum down to NaN")
	_, err = optim.CycleMomentum(optim.OneCycleConfig{Steps: 1}, 0.8, 0.9)
	wantAll(t, err, "momentum down to 0.9", "the highest, 0.8")
}

func observe(p *optim.Plateau, metrics ...float64) (factor float64) {
	for _, m := range metrics {
		p.Observe(m)
	}
	return p.State().Factor
}

func TestPlateau(t *testing.T) {
	inf, bad := math.Inf(1), math.NaN()
	for name, c := range map[string]struct {
		config  optim.PlateauConfig
		metrics []float64
		want    float64
	}{
		"patience 0":         {optim.PlateauConfig{Factor: 0.5}, []float64{1, 1}, 0.5},
		"default factor":     {optim.PlateauConfig{}, []float64{1, 1}, 0.1},
		"progress":           {optim.PlateauConfig{Factor: 0.5}, []float64{3, 2, 1}, 1},
		"below threshold":    {optim.PlateauConfig{Factor: 0.5, Threshold: 0.1}, []float64{1, 0.95}, 0.5},
		"above threshold":    {optim.PlateauConfig{Factor: 0.5, Threshold: 0.1}, []float64{1, 0.85}, 1},
		"accuracy":           {optim.PlateauConfig{Factor: 0.5, Maximise: true}, []float64{0.1, 0.2, 0.3, 0.2}, 0.5},
		"accuracy threshold": {optim.PlateauConfig{Factor: 0.5, Maximise: true, Threshold: 0.1}, []float64{1, 1.05}, 0.5},
		"cooldown":           {optim.PlateauConfig{Factor: 0.5, Cooldown: 2}, []float64{1, 1, 1, 1}, 0.5},
		"after cooldown":     {optim.PlateauConfig{Factor: 0.5, Cooldown: 2}, []float64{1, 1, 1, 1, 1}, 0.25},
		"floor":              {optim.PlateauConfig{Factor: 0.5, Floor: 0.3}, []float64{1, 1, 1, 1}, 0.3},
		"not finite":         {optim.PlateauConfig{Factor: 0.5, Patience: 1}, []float64{bad, inf}, 0.5},
		"finite after NaN":   {optim.PlateauConfig{Factor: 0.5, Patience: 1}, []float64{bad, 7, -inf, 6}, 1},
	} {
		p, err := optim.NewPlateau(c.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := observe(p, c.metrics...); got != c.want {
			t.Errorf("%s: factor %v, want %v", name, got, c.want)
		}
	}
	_, err := optim.NewPlateau(optim.PlateauConfig{Factor: 1, Patience: -1, Threshold: bad, Cooldown: -2, Floor: 2})
	wantAll(t, err, "factor 1", "patience -1", "threshold NaN", "cooldown -2", "floor 2")
}

func TestPlateauResumes(t *testing.T) {
	config := optim.PlateauConfig{Factor: 0.5, Patience: 1, Cooldown: 1}
	rapid.Check(t, func(rt *rapid.T) {
		metrics := rapid.SliceOfN(rapid.SampledFrom([]float64{1, 0.9, 0.8, math.NaN()}), 1, 20).Draw(rt, "metrics")
		stop := rapid.IntRange(0, len(metrics)).Draw(rt, "stop")
		whole, _ := optim.NewPlateau(config)
		first, _ := optim.NewPlateau(config)
		second, _ := optim.NewPlateau(config)
		observe(whole, metrics...)
		observe(first, metrics[:stop]...)
		text, err := json.Marshal(first.State())
		if err != nil {
			rt.Fatal(err)
		}
		var state optim.PlateauState
		if err := json.Unmarshal(text, &state); err != nil {
			rt.Fatal(err)
		}
		if err := second.LoadState(state); err != nil {
			rt.Fatal(err)
		}
		if observe(second, metrics[stop:]...); second.State() != whole.State() {
			rt.Fatalf("%+v, want %+v", second.State(), whole.State())
		}
	})
	p, _ := optim.NewPlateau(config)
	err := p.LoadState(optim.PlateauState{Factor: 2, Best: math.NaN(), Bad: -1, Cooldown: -1})
	wantAll(t, err, "factor 2", "best metric NaN", "-1 bad", "cooldown -1")
	if p.State() != (optim.PlateauState{Factor: 1}) {
		t.Errorf("a refused state was loaded: %+v", p.State())
	}
}
