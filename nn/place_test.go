package nn_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/optim"
)

// trainer trains a bench with an optimiser, in micro-batches.
type trainer struct {
	*bench
	sgd *optim.SGD
}

func newTrainer(t testing.TB, b *bench) *trainer {
	t.Helper()
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.05), Momentum: 0.9, Decay: 1e-3, Nesterov: true})
	if err != nil {
		t.Fatal(err)
	}
	return &trainer{b, sgd}
}

// step trains on parts batches of equal size and returns the mean loss.
func (tr *trainer) step(t testing.TB, step, batch, parts int) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(step), 9))
	var sum float64
	for part := range parts {
		x, labels := data(rng, batch, sizes[0], 7)
		run := tr.Train
		if part > 0 {
			run = tr.Accumulate
		}
		loss, _, err := run(t.Context(), step, x, labels)
		if err != nil {
			t.Fatal(err)
		}
		sum += loss
	}
	var params []optim.Param
	for _, p := range tr.Params() {
		if p.Remote {
			continue
		}
		for i := range p.Grad {
			p.Grad[i] /= float32(parts)
		}
		params = append(params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
	}
	if err := tr.sgd.Step(step, params); err != nil {
		t.Fatal(err)
	}
	update, err := tr.sgd.Linear("any")
	if err != nil {
		t.Fatal(err)
	}
	u, err := update(step)
	if err != nil {
		t.Fatal(err)
	}
	u.Scale = 1 / float64(parts)
	if err := nn.UpdatePlaced(t.Context(), tr.model, u); err != nil {
		t.Fatal(err)
	}
	return sum / float64(parts)
}

func (tr *trainer) sync(t testing.TB) nn.Momenta {
	t.Helper()
	m, err := nn.Sync(t.Context(), tr.model)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Forty steps, some of them in micro-batches and some smaller, give the losses,
// the evaluation and the weights of local training.
func TestPlacedTrainingFollowsLocal(t *testing.T) {
	local := newTrainer(t, newBench(t, mlp(3, sizes, nil), sizes[0]))
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 3}
	placed := newTrainer(t, newPlaced(t, 3, sizes, r, 0, 1, 2))
	for step := 1; step <= 40; step++ {
		batch, parts := 16, 1+step%2
		if step%5 == 0 {
			batch = 6
		}
		want, got := local.step(t, step, batch, parts), placed.step(t, step, batch, parts)
		if math.Abs(got-want) > 1e-4*want {
			t.Fatalf("step %d: loss %v, local %v", step, got, want)
		}
	}
	placed.sync(t)
	for _, p := range local.Params() {
		if d := apart(t, placed.param(t, p.Name).Value.Data, p.Value.Data); !(d <= 1e-4) {
			t.Errorf("%s differs by %.2g", p.Name, d)
		}
	}
	x, labels := data(rand.New(rand.NewPCG(77, 1)), 50, sizes[0], 7)
	want, wantCorrect, err := local.Evaluate(t.Context(), x, labels)
	if err != nil {
		t.Fatal(err)
	}
	got, correct, err := placed.Evaluate(t.Context(), x, labels)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got-want) > 1e-4*want || correct != wantCorrect {
		t.Errorf("evaluation: loss %v, %d correct; local %v, %d", got, correct, want, wantCorrect)
	}
}

// Training that is placed anew from weights and momenta, on another code, goes
// on as if nothing had happened.
func TestResumePlaced(t *testing.T) {
	make := func(spec coded.Spec) *trainer {
		r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: spec, Chunks: 2}
		return newTrainer(t, newPlaced(t, 4, sizes, r, 1, 2))
	}
	whole, first, second := make(trigonometric(6, 4)), make(trigonometric(6, 4)), make(trigonometric(8, 5))
	for step := 1; step <= 10; step++ {
		whole.step(t, step, 8, 1)
	}
	for step := 1; step <= 5; step++ {
		first.step(t, step, 8, 1)
	}
	momenta := first.sync(t)
	if len(momenta) != 2 {
		t.Fatalf("%d momenta, want 2", len(momenta))
	}
	for _, p := range first.Params() {
		copy(second.param(t, p.Name).Value.Data, p.Value.Data)
	}
	if err := second.sgd.LoadState(first.sgd.State()); err != nil {
		t.Fatal(err)
	}
	if err := nn.Place(t.Context(), second.model, momenta); err != nil {
		t.Fatal(err)
	}
	for step := 6; step <= 10; step++ {
		second.step(t, step, 8, 1)
	}
	want, got := whole.sync(t), second.sync(t)
	for _, p := range whole.Params() {
		if d := apart(t, second.param(t, p.Name).Value.Data, p.Value.Data); !(d <= 2e-5) {
			t.Errorf("%s differs by %.2g", p.Name, d)
		}
	}
	for name := range want {
		if d := apart(t, got[name], want[name]); !(d <= 1e-4) {
			t.Errorf("momentum of %s differs by %.2g", name, d)
		}
	}
}

func TestPlacedLayers(t *testing.T) {
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	names, err := nn.PlacedLayers(mlp(1, sizes, map[int]nn.Placement{2: r, 0: r}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"0", "4"}, names); d != "" {
		t.Error(d)
	}
}

// Every layer is checked before the first one is placed.
func TestPlaceListsEveryProblem(t *testing.T) {
	s := shard.NewLocal(shard.LocalConfig{})
	good := nn.Resident{Executor: s, Code: trigonometric(6, 4), Chunks: 2}
	with := func(change func(*nn.Resident)) nn.Placement {
		r := good
		change(&r)
		return &r
	}
	model := mlp(1, []int{9, 8, 8, 8, 8, 8, 3}, map[int]nn.Placement{
		0: with(func(*nn.Resident) {}),
		1: with(func(r *nn.Resident) { r.Executor = nil }),
		2: with(func(r *nn.Resident) { r.Chunks = 0 }),
		3: with(func(r *nn.Resident) { r.Code.Name = "magic" }),
		4: with(func(*nn.Resident) {}),
		5: with(func(*nn.Resident) {}),
	})
	model[8].(*nn.Linear).Weight.NoDecay = true
	err := nn.Place(t.Context(), model, nn.Momenta{"0.weight": make([]float32, 3)})
	wantError(t, err, "layer 0", "its momentum 3", "layer 2", "no executor", "layer 4", "0 chunks", "layer 6", "magic",
		"layer 8", "NoDecay", "layer 10", "out has 3 features", "stay local")
	if s.Shard("0", 0) != nil {
		t.Error("a layer was placed although others cannot be")
	}
	if err := nn.Place(t.Context(), nil, nil); err == nil {
		t.Error("a nil model was placed")
	}
}

// What a placement cannot be is told when it is placed, before any step.
func TestPlaceRefuses(t *testing.T) {
	s := shard.NewLocal(shard.LocalConfig{})
	matdot := coded.Spec{Name: "matdot", N: 6, P: 2}
	for _, c := range []struct {
		on   nn.Placement
		want string
	}{
		{(*nn.Resident)(nil), "nil *nn.Resident"},
		{(*nn.Batch)(nil), "nil *nn.Batch"},
		{(*nn.Shipped)(nil), "nil *nn.Shipped"},
		{&nn.Resident{Executor: s, Code: matdot, Chunks: 1}, "code matdot (6,2x2): the resident placement needs a one-sided code"},
		{&nn.Resident{Executor: s, Code: coded.Spec{Name: "cyclic-reed-solomon", N: 6, K: 6, Load: 2}, Chunks: 1}, "the resident placement needs a one-sided code"},
		{&nn.Resident{Executor: s, Code: trigonometric(4, 6), Chunks: 1}, "n must be at least k"},
		{&nn.Resident{Executor: s, Code: trigonometric(6, 4), Chunks: 1, MaxCond: -1}, "condition number -1, want at least 1"},
		{&nn.Batch{Executor: s, Code: trigonometric(6, 4), Chunks: 1, MaxCond: math.NaN()}, "condition number NaN, want at least 1"},
		{&nn.Shipped{Executor: s, Code: matdot, Chunks: 1, MaxCond: 0.5}, "condition number 0.5, want at least 1"},
		{&nn.Shipped{Executor: s, Code: trigonometric(6, 4), Chunks: 1}, "product of two coded factors"},
	} {
		model := mlp(1, []int{9, 8, 3}, map[int]nn.Placement{1: c.on})
		wantError(t, nn.Place(t.Context(), model, nil), "layer 2", c.want)
	}
}

func TestSyncNeedsPlace(t *testing.T) {
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{Survivors: always(0, 1)}), Code: trigonometric(6, 4), Chunks: 2}
	model := mlp(1, sizes, map[int]nn.Placement{1: r})
	_, err := nn.Sync(t.Context(), model)
	wantError(t, err, "layer 2", "not been placed")
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(model[2].(*nn.Linear).Weight.Value.Data)
	if _, err = nn.Sync(t.Context(), model); !errors.Is(err, coded.ErrTooFewResults) {
		t.Errorf("%v, want one of kind %v", err, coded.ErrTooFewResults)
	}
	if !slices.Equal(before, model[2].(*nn.Linear).Weight.Value.Data) {
		t.Error("a failed Sync changed the weight")
	}
	wantError(t, nn.UpdatePlaced(t.Context(), model, coded.Update{}), "step 0", "update placed layers")
}
