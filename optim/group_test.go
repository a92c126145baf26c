package optim_test

import (
	"math"
	"strings"
	"testing"

	"github.com/coda-ml/coda/optim"
)

// Plain SGD on a gradient of 1 and weights of 1 shows each parameter's rate and decay.
func TestGroups(t *testing.T) {
	sgd := mustSGD(t, optim.SGDConfig{LR: optim.Constant(0.1), Decay: 1, Groups: []optim.Group{
		{Match: "*.bias", NoDecay: true},
		{Match: "layer[12].*", LRScale: 0.5},
		{Func: func(name string) bool { return strings.HasPrefix(name, "layer3") }, LRScale: 2, Decay: 3},
		{Match: "layer1.*", LRScale: 100}, // never the first match
	}})
	for name, want := range map[string]float64{
		"fc.weight":             1 - 0.1*(1+1),
		"layer1.0.bias":         1 - 0.1*1,
		"layer1.0.conv1.weight": 1 - 0.05*(1+1),
		"layer2.weight":         1 - 0.05*(1+1),
		"layer3.weight":         1 - 0.2*(1+3),
		"layer4.weight":         1 - 0.1*(1+1),
	} {
		w := []float32{1}
		if err := sgd.Step(1, []optim.Param{{Name: name, Value: w, Grad: []float32{1}}}); err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(w[0])-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, w[0], want)
		}
	}
	w := []float32{1}
	if err := sgd.Step(1, []optim.Param{{Name: "layer3.gamma", Value: w, Grad: []float32{1}, NoDecay: true}}); err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(w[0])-(1-0.2)) > 1e-6 {
		t.Errorf("NoDecay in a group with decay: %v, want 0.8", w[0])
	}
}

func TestGroupsHoldAfterLoading(t *testing.T) {
	config := optim.SGDConfig{LR: optim.Constant(0.1), Momentum: 0.5, Groups: []optim.Group{{Match: "a", LRScale: 10}}}
	first, second := mustSGD(t, config), mustSGD(t, config)
	w := []float32{0}
	p := []optim.Param{{Name: "a", Value: w, Grad: []float32{1}}}
	if err := first.Step(1, p); err != nil {
		t.Fatal(err)
	}
	if err := second.LoadState(first.State()); err != nil {
		t.Fatal(err)
	}
	if err := second.Step(2, p); err != nil {
		t.Fatal(err)
	}
	if w[0] != -1-1.5 {
		t.Errorf("%v, want -2.5", w[0])
	}
}

func TestGroupProblems(t *testing.T) {
	all := func(string) bool { return true }
	_, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(1), Groups: []optim.Group{
		{}, {Match: "a", Func: all}, {Match: "[", LRScale: -1}, {Func: all, Decay: math.Inf(1), NoDecay: true}, {Match: "fine"},
	}})
	wantAll(t, err, "group 1: want either", "group 2: want either", `group 3: match "[" is not a pattern`,
		"group 3: learning rate factor -1", "group 4: both weight decay +Inf and no decay", "group 4: weight decay +Inf")
	if strings.Contains(err.Error(), "group 5") {
		t.Errorf("%v: group 5 is fine", err)
	}
}

// A coded layer cannot follow settings that only one layer has.
func TestLinearRefuses(t *testing.T) {
	lr := optim.Constant(0.1)
	groups := mustSGD(t, optim.SGDConfig{LR: lr, Groups: []optim.Group{{Match: "*.bias", NoDecay: true}, {Match: "fc1.*", LRScale: 2}}})
	if _, err := groups.Linear("fc2"); err != nil {
		t.Errorf("fc2: %v", err)
	}
	_, err := groups.Linear("fc1")
	wantAll(t, err, "layer fc1", "fc1.weight", "local")
}
