package optim_test

import (
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/optim"
)

func TestNamesAreKnown(t *testing.T) {
	want := []string{"adagrad", "adam", "adamw", "amsgrad", "lamb", "rmsprop", "sgd"}
	if got := optim.Names(); !slices.Equal(got, want) {
		t.Errorf("optimisers %v, want %v", got, want)
	}
	for _, name := range optim.Names() {
		lr := optim.DefaultLR(name)
		if o, err := optim.New(name, optim.Config{LR: optim.Constant(lr), Decay: 1e-4}); err != nil || o == nil || !(lr > 0) {
			t.Errorf("%s with rate %v: %v", name, lr, err)
		}
		if o, err := optim.New(name, optim.Config{}); err == nil || o != nil {
			t.Errorf("%s without a rate: %v, %v", name, o, err)
		}
	}
	want = []string{"constant", "cosine", "exponential", "multi-step", "one-cycle", "plateau", "step", "warm-up"}
	if got := optim.ScheduleNames(); !slices.Equal(got, want) {
		t.Errorf("schedules %v, want %v", got, want)
	}
	if optim.DefaultLR("lion") != 0 {
		t.Error("a rate for an optimiser that is not known")
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := optim.New("lion", optim.Config{})
	wantAll(t, err, `"lion"`, "adagrad, adam, adamw, amsgrad, lamb, rmsprop, sgd")
	_, err = optim.New("adam", optim.Config{Momentum: 0.9, Nesterov: true, Alpha: 0.5, Beta1: 2})
	wantAll(t, err, "adam: it has no momentum (0.9)", "no nesterov", "no alpha", "beta1 2", "no learning rate schedule")
	_, err = optim.New("sgd", optim.Config{LR: optim.Constant(1), Beta1: 0.5, Beta2: 0.6, Eps: 1})
	wantAll(t, err, "no beta1 (0.5)", "no beta2 (0.6)", "no epsilon (1)")
}

func TestSchedulesByName(t *testing.T) {
	const steps = 100
	for name, c := range map[string]struct {
		config optim.ScheduleConfig
		want   map[int]float64
	}{
		"constant":    {optim.ScheduleConfig{}, map[int]float64{1: 1, 100: 1}},
		"step":        {optim.ScheduleConfig{}, map[int]float64{34: 1, 35: 0.1, 68: 0.1, 69: 0.01}},
		"multi-step":  {optim.ScheduleConfig{}, map[int]float64{50: 1, 51: 0.1, 76: 0.01}},
		"exponential": {optim.ScheduleConfig{}, map[int]float64{1: 1, 101: 0.01}},
		"cosine":      {optim.ScheduleConfig{Floor: 0.5}, map[int]float64{1: 1, 51: 0.75, 101: 0.5}},
		"warm-up":     {optim.ScheduleConfig{WarmUpFrom: 0.5}, map[int]float64{1: 0.5, 6: 1, 100: 1}},
		"one-cycle":   {optim.ScheduleConfig{Rise: 0.5, Div: 10, FinalDiv: 10}, map[int]float64{1: 0.1, 50: 1, 100: 0.01}},
		"plateau":     {optim.ScheduleConfig{Plateau: optim.PlateauConfig{Factor: 0.5}}, map[int]float64{1: 1, 100: 1}},
	} {
		c.config.LR, c.config.Steps = 1, steps
		s, plateau, err := optim.NewSchedule(name, c.config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for step, want := range c.want {
			if got := s(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("%s at step %d: %v, want %v", name, step, got, want)
			}
		}
		if (plateau != nil) != (name == "plateau") {
			t.Errorf("%s: plateau %v", name, plateau)
		}
	}
}

func TestWarmUpBeforeAny(t *testing.T) {
	for _, name := range optim.ScheduleNames() {
		c := optim.ScheduleConfig{LR: 1, Steps: 50, WarmUp: 10, WarmUpFrom: 0.1}
		s, plateau, err := optim.NewSchedule(name, c)
		if name == "one-cycle" {
			wantAll(t, err, "no warm-up (10)")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s(1) != 0.1 || math.Abs(s(6)-0.55) > 1e-12 || s(11) != 1 {
			t.Errorf("%s: rates %v, %v, %v, want 0.1, 0.55, 1", name, s(1), s(6), s(11))
		}
		if plateau != nil { // reduces the warm-up, too
			plateau.Observe(1)
			plateau.Observe(1)
			if math.Abs(s(1)-0.01) > 1e-12 {
				t.Errorf("rate %v after a reduction, want 0.01", s(1))
			}
		}
	}
}

func TestNewScheduleRefuses(t *testing.T) {
	_, _, err := optim.NewSchedule("linear", optim.ScheduleConfig{})
	wantAll(t, err, `"linear"`, "constant, cosine")
	_, _, err = optim.NewSchedule("constant", optim.ScheduleConfig{
		LR: -1, WarmUpFrom: 2, Every: 1, Milestones: []int{1}, Gamma: 1, Floor: 1, Rise: 1, Div: 2, FinalDiv: 3, Plateau: optim.PlateauConfig{Patience: 1},
	})
	wantAll(t, err, "no every", "no milestones ([1])", "no gamma", "no floor", "no rise", "no div", "no final div", "no plateau",
		"0 steps", "warm-up from 2", "without a warm-up", "learning rate -1")
	_, _, err = optim.NewSchedule("cosine", optim.ScheduleConfig{LR: 1, Steps: 10, WarmUp: 10, Floor: 2})
	wantAll(t, err, "warm-up of 10 steps", "floor 2")
	_, _, err = optim.NewSchedule("plateau", optim.ScheduleConfig{LR: 1, Steps: 10, Plateau: optim.PlateauConfig{Factor: 3}})
	wantAll(t, err, "factor 3")
}
