package optim_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/coda-ml/coda/internal/golden"
	"github.com/coda-ml/coda/optim"
)

// settings are those of a golden file of an optimiser.
type settings struct {
	LR       float64 `json:"lr"`
	Momentum float64 `json:"momentum"`
	Decay    float64 `json:"weight_decay"`
	Nesterov bool    `json:"nesterov"`
}

func TestGoldenOptimizers(t *testing.T) {
	build := map[string]func(s settings) (optim.Optimizer, error){
		"optim_sgd": newGoldenSGD, "optim_sgd_momentum_wd": newGoldenSGD, "optim_sgd_nesterov_wd": newGoldenSGD,
		"optim_adam": newGoldenAdam, "optim_adam_wd": newGoldenAdam,
	}
	for name, mk := range build {
		t.Run(name, func(t *testing.T) {
			g := golden.Read(t, name)[0]
			var s settings
			g.Settings(&s)
			o, err := mk(s)
			if err != nil {
				t.Fatal(err)
			}
			w := g.Floats("w_0")
			for step := 1; step <= 8; step++ {
				p := optim.Param{Name: "w", Value: w, Grad: g.Floats(fmt.Sprintf("g_%d", step))}
				if err := o.Step(step, []optim.Param{p}); err != nil {
					t.Fatal(err)
				}
				for i, want := range g.Floats(fmt.Sprintf("w_%d", step)) {
					if d := math.Abs(float64(w[i] - want)); !(d <= 1e-5) {
						t.Errorf("step %d: w[%d] = %v, want %v", step, i, w[i], want)
					}
				}
			}
		})
	}
}

func newGoldenSGD(s settings) (optim.Optimizer, error) {
	return optim.NewSGD(optim.SGDConfig{LR: optim.Constant(s.LR), Momentum: s.Momentum, Decay: s.Decay, Nesterov: s.Nesterov})
}

func newGoldenAdam(s settings) (optim.Optimizer, error) {
	return optim.NewAdam(optim.AdamConfig{LR: optim.Constant(s.LR), Decay: s.Decay})
}

func TestGoldenSchedules(t *testing.T) {
	step, err := optim.Step(0.1, 5, 0.1) // StepLR(5, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	cosine, err := optim.Cosine(0.1, 0.001, 20) // CosineAnnealingLR(20, 0.001)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]optim.Schedule{"schedule_step": step, "schedule_cosine": cosine} {
		want := golden.Read(t, name)[0].Float64s("lr")
		if len(want) != 20 {
			t.Fatalf("%s: %d values, want 20", name, len(want))
		}
		for i, w := range want {
			if got := s(i + 1); !(math.Abs(got-w) <= 1e-12) {
				t.Errorf("%s: step %d: %v, want %v", name, i+1, got, w)
			}
		}
	}
}
