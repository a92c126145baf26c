package optim_test

import (
	"fmt"
	"math"
	"strings"
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
	AMSGrad  bool    `json:"amsgrad"`
}

// build makes the optimiser of a case: its name begins with that of the optimiser.
func (s settings) build(t *testing.T, name string) optim.Optimizer {
	t.Helper()
	kind := strings.Split(name, "_")[1]
	if s.AMSGrad {
		kind = "amsgrad"
	}
	o, err := optim.New(kind, optim.Config{LR: optim.Constant(s.LR), Momentum: s.Momentum, Decay: s.Decay, Nesterov: s.Nesterov})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestGoldenOptimizers(t *testing.T) {
	cases := golden.Read(t, "optim_*")
	if len(cases) != 10 {
		t.Errorf("%d optimisers, want 10", len(cases))
	}
	for _, g := range cases {
		t.Run(g.Name, func(t *testing.T) {
			var s settings
			g.Settings(&s)
			o := s.build(t, g.Name)
			w := g.Floats("w_0")
			for step := 1; step <= 8; step++ {
				p := optim.Param{Name: "w", Value: w, Grad: g.Floats(fmt.Sprintf("g_%d", step))}
				if err := o.Step(step, []optim.Param{p}); err != nil {
					t.Fatal(err)
				}
				wantFloats(t, fmt.Sprintf("w after step %d", step), w, g.Floats(fmt.Sprintf("w_%d", step)))
			}
		})
	}
}

// wantFloats allows 1e-5 of the largest entry.
func wantFloats(t *testing.T, what string, got, want []float32) {
	t.Helper()
	most := 0.0
	for _, v := range want {
		most = max(most, math.Abs(float64(v)))
	}
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-5*most) {
			t.Errorf("%s: [%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestGoldenClip(t *testing.T) {
	g := golden.Read(t, "clip_grad_norm_1")[0]
	params := []optim.Param{{Name: "0", Grad: g.Floats("g_0")}, {Name: "1", Grad: g.Floats("g_1")}}
	norm, err := optim.Clip(params, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := float64(g.Floats("norm")[0]); !(math.Abs(norm-want) <= 1e-6*want) {
		t.Errorf("norm %v, want %v", norm, want)
	}
	wantFloats(t, "0", params[0].Grad, g.Floats("clipped_0"))
	wantFloats(t, "1", params[1].Grad, g.Floats("clipped_1"))
}

// must returns a schedule that is valid.
func must(s optim.Schedule, err error) optim.Schedule {
	if err != nil {
		panic(err)
	}
	return s
}

func TestGoldenSchedules(t *testing.T) {
	for name, s := range map[string]optim.Schedule{
		"step":          must(optim.Step(0.1, 5, 0.1)),                                    // StepLR(5, 0.1)
		"multistep":     must(optim.MultiStep(0.1, []int{4, 9}, 0.2)),                     // MultiStepLR([4, 9], 0.2)
		"exponential":   must(optim.Exponential(0.1, 0.9)),                                // ExponentialLR(0.9)
		"cosine":        must(optim.Cosine(0.1, 0.001, 20)),                               // CosineAnnealingLR(20, 0.001)
		"onecycle":      must(optim.OneCycle(optim.OneCycleConfig{Peak: 0.4, Steps: 20})), // OneCycleLR(0.4, 20)
		"linear_warmup": must(optim.WarmUp(0.1, 5, optim.Constant(0.1))),                  // LinearLR(0.1, 1, 5)
	} {
		want := golden.Read(t, "schedule_"+name)[0].Float64s("lr")
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

func TestGoldenPlateau(t *testing.T) {
	g := golden.Read(t, "schedule_plateau")[0]
	p, err := optim.NewPlateau(optim.PlateauConfig{
		Factor: g.Setting("factor"), Patience: int(g.Setting("patience")), Threshold: g.Setting("threshold"),
	})
	if err != nil {
		t.Fatal(err)
	}
	rate := p.Schedule(optim.Constant(g.Setting("base_lr")))
	lrs := g.Float64s("lr")
	for i, metric := range g.Float64s("metric") {
		before := rate(1)
		reduced := p.Observe(metric)
		if got := rate(1); !(math.Abs(got-lrs[i]) <= 1e-12) || reduced != (got < before) {
			t.Errorf("epoch %d: %v, reduced %v, want %v", i+1, got, reduced, lrs[i])
		}
	}
}
