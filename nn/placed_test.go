package nn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// sizes are those of a model whose layers no k divides.
var sizes = []int{19, 13, 11, 14, 7}

// reveal is an update that moves nothing and leaves the gradient in the
// momenta: v = 0.9*0 + g.
func reveal(step int) coded.Update { return coded.Update{Step: step, Momentum: 0.9, Scale: 1} }

// compareGradients runs one step of both models on the same batch and compares
// the loss and every gradient. The weights of placed start without momentum.
func compareGradients(t *testing.T, local, placed *bench, step, batch int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(step), uint64(batch)))
	x, labels := data(rng, batch, sizes[0], sizes[len(sizes)-1])
	compareGradientsOn(t, local, placed, step, x, labels)
}

// compareGradientsOn is compareGradients on a batch of any model.
func compareGradientsOn(t *testing.T, local, placed *bench, step int, x []float32, labels []int32) {
	t.Helper()
	want, _, err := local.Train(t.Context(), step, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := placed.Train(t.Context(), step, x, labels)
	if err != nil {
		t.Fatal(err)
	}
	if d := (got - want) / want; !(d <= 1e-5 && d >= -1e-5) {
		t.Errorf("loss %v, local %v", got, want)
	}
	if err := nn.UpdatePlaced(t.Context(), placed.model, reveal(step)); err != nil {
		t.Fatal(err)
	}
	momenta, err := nn.Sync(t.Context(), placed.model)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range local.Params() {
		q := placed.param(t, p.Name)
		grad := q.Grad
		if q.Remote {
			grad = momenta[p.Name]
		}
		if d := apart(t, grad, p.Grad); !(d <= 1e-5) {
			t.Errorf("gradient of %s differs by %.2g of its largest entry", p.Name, d)
		}
	}
	if err := nn.Place(t.Context(), placed.model, nil); err != nil { // takes the momenta away
		t.Fatal(err)
	}
}

// The gradients of placed layers and of those around them are those of the
// local layer, whichever sufficient set answers.
func TestPlacedGradientsOfEverySet(t *testing.T) {
	for _, layers := range [][]int{{0}, {1}, {1, 2}, {0, 1, 2, 3}} {
		local := newBench(t, mlp(1, sizes, nil), sizes[0])
		for _, set := range everySet(6, 4) {
			t.Run(fmt.Sprint(layers, set), func(t *testing.T) {
				r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{Survivors: always(set...)}), Code: trigonometric(6, 4), Chunks: 3}
				compareGradients(t, local, newPlaced(t, 1, sizes, r, layers...), 1, 5)
			})
		}
	}
}

// Every chunk is answered by another set, and the batch size varies.
func TestPlacedGradientsOfMixedSets(t *testing.T) {
	for name, s := range map[string]shard.Survivors{"every": shard.EverySet(), "random": shard.RandomSurvivors(3)} {
		for _, spec := range []coded.Spec{trigonometric(8, 6), {Name: "uncoded", N: 5, K: 5}, {Name: "replication", N: 6, K: 3}} {
			t.Run(fmt.Sprint(name, spec), func(t *testing.T) {
				local := newBench(t, mlp(2, sizes, nil), sizes[0])
				r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{Survivors: s}), Code: spec, Chunks: 64}
				placed := newPlaced(t, 2, sizes, r, 0, 1, 2)
				for step, batch := range []int{8, 8, 3, 1, 8} {
					compareGradients(t, local, placed, step+1, batch)
				}
			})
		}
	}
}

// What travels: X and dY of each layer once, and dX only where it is wanted.
func TestPlacedRounds(t *testing.T) {
	local := shard.NewLocal(shard.LocalConfig{})
	s := &spy{Executor: local}
	placed := newPlaced(t, 1, sizes, &nn.Resident{Executor: s, Code: trigonometric(6, 4), Chunks: 2}, 0, 1)
	x, labels := data(rand.New(rand.NewPCG(1, 1)), 4, sizes[0], 7)
	if _, _, err := placed.Train(t.Context(), 5, x, labels); err != nil {
		t.Fatal(err)
	}
	round := func(layer string, p coded.Product, width int, discard bool) coded.Round {
		return coded.Round{Layer: layer, Product: p, Step: 5, Keep: true, Discard: discard, Operand: coded.Tensor{Shape: []int{4, width}}}
	}
	want := []coded.Round{
		round("0", coded.Forward, 19, false), round("2", coded.Forward, 13, false),
		round("2", coded.Backward, 11, false), round("0", coded.Backward, 13, true),
	}
	if d := cmp.Diff(want, s.rounds); d != "" {
		t.Error(d)
	}
	if first, second := len(local.Shard("0", 0).State()), len(local.Shard("2", 0).State()); first != 2 || second != 4 {
		t.Errorf("states of %d and %d tensors, want 2 (no copy for dX) and 4", first, second)
	}

	s.rounds = nil
	if _, _, err := placed.Evaluate(t.Context(), x, labels); err != nil {
		t.Fatal(err)
	}
	if len(s.rounds) != 0 {
		t.Errorf("an evaluation started %v", s.rounds)
	}
}

// A frozen weight is multiplied on the workers and not trained there.
func TestPlacedFrozen(t *testing.T) {
	for _, first := range []bool{true, false} {
		s := &spy{Executor: shard.NewLocal(shard.LocalConfig{})}
		model := mlp(1, sizes, map[int]nn.Placement{1: &nn.Resident{Executor: s, Code: trigonometric(6, 4), Chunks: 2}})
		model[2].(*nn.Linear).Weight.Frozen = true
		if first { // nothing before the placed layer is trained either
			model[0].(*nn.Linear).Weight.Frozen, model[0].(*nn.Linear).Bias.Frozen = true, true
		}
		placed := newBench(t, model, sizes[0])
		if err := nn.Place(t.Context(), model, nil); err != nil {
			t.Fatal(err)
		}
		local := newBench(t, mlp(1, sizes, nil), sizes[0])
		x, labels := data(rand.New(rand.NewPCG(1, 1)), 4, sizes[0], 7)
		for _, b := range []*bench{placed, local} {
			if _, _, err := b.Train(t.Context(), 1, x, labels); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range placed.Params() {
			if p.Grad == nil {
				if !p.Frozen {
					t.Errorf("%s has no gradient", p.Name)
				}
				continue
			}
			if d := apart(t, p.Grad, local.param(t, p.Name).Grad); !(d <= 1e-5) {
				t.Errorf("gradient of %s differs by %.2g", p.Name, d)
			}
		}
		want := map[bool]int{true: 1, false: 2}[first]
		if len(s.rounds) != want || s.rounds[0].Keep {
			t.Errorf("rounds %+v, want %d, none of them kept", s.rounds, want)
		}
	}
}

// twice calls a layer two times.
type twice struct{ Layer *nn.Linear }

func (m *twice) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return nn.Chain(g, x, m.Layer, nn.ReLU{}, m.Layer)
}

// backwards calls its layers in the reverse of the order of its fields.
type backwards struct{ Last, First *nn.Linear }

func (m *backwards) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return nn.Chain(g, x, m.First, nn.ReLU{}, m.Last)
}

func TestPlacedModelsThatCannotBeTrained(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	resident := func() *nn.Resident {
		return &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	}
	train := func(m nn.Module, place bool) error {
		t.Helper()
		n, err := nn.NewNetwork(m, []int{8}, nn.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if place {
			if err := nn.Place(t.Context(), m, nil); err != nil {
				t.Fatal(err)
			}
		}
		x, labels := data(rng, 2, 8, 8)
		_, _, err = n.Train(t.Context(), 1, x, labels)
		return err
	}
	newLinear := func(r *nn.Resident) *nn.Linear { return nn.NewLinear(rng, 8, 8, nn.On(r)) }

	wantError(t, train(nn.Sequential{newLinear(resident())}, false), "layer 0", "Place")
	wantError(t, train(&twice{newLinear(resident())}, true), "layer layer", "used once")
	wantError(t, train(&backwards{newLinear(resident()), nn.NewLinear(rng, 8, 8)}, true), "layer last", "InputGrad")
	r := resident()
	r.InputGrad = true
	if err := train(&backwards{newLinear(r), nn.NewLinear(rng, 8, 8)}, true); err != nil {
		t.Errorf("with InputGrad: %v", err)
	}
	l := newLinear(resident())
	if err := nn.Place(t.Context(), nn.Sequential{nn.ReLU{}, l}, nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, train(nn.Sequential{l}, false), "layer 0", "placed as 1")
	if err := train(newLinear(resident()), true); err != nil {
		t.Errorf("a model that is a layer: %v", err)
	}
}

// Errors keep their types from the executor to the caller of Train, and the
// next step is clean: what the failed one left on the workers is not applied.
func TestPlacedErrors(t *testing.T) {
	x, labels := data(rand.New(rand.NewPCG(1, 1)), 4, sizes[0], 7)
	broken := false
	r := &nn.Resident{Code: trigonometric(6, 4), Chunks: 2}
	r.Executor = shard.NewLocal(shard.LocalConfig{Survivors: func(_ *coded.Code, round coded.Round, _ int) []int {
		if broken && round.Layer == name(1) && round.Product == coded.Backward {
			return []int{1, 2, 3}
		}
		return []int{1, 2, 3, 5}
	}})
	placed := newPlaced(t, 1, sizes, r, 1, 2)

	broken = true
	_, _, err := placed.Train(t.Context(), 1, x, labels)
	var tooFew *coded.TooFewError
	if !errors.As(err, &tooFew) || tooFew.Layer != "2" || tooFew.Step != 1 || tooFew.Product != coded.Backward {
		t.Fatalf("%v, want a *coded.TooFewError of layer 2, backward, step 1", err)
	}
	broken = false
	compareGradients(t, newBench(t, mlp(1, sizes, nil), sizes[0]), placed, 2, 4)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := placed.Train(ctx, 3, x, labels); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}

	tight := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2, MaxCond: 1.5}
	_, _, err = newPlaced(t, 1, sizes, tight, 1).Train(t.Context(), 1, x, labels)
	if !errors.Is(err, coded.ErrIllConditioned) {
		t.Errorf("%v, want one of kind %v", err, coded.ErrIllConditioned)
	}
}

// Answers that do not fit are errors that name the layer, never a panic.
func TestPlacedRefusesWrongAnswers(t *testing.T) {
	x, labels := data(rand.New(rand.NewPCG(1, 1)), 4, sizes[0], 7)
	for want, change := range map[string]func(a [][]coded.Answer) [][]coded.Answer{
		"answers to 1 chunks, want 2":   func(a [][]coded.Answer) [][]coded.Answer { return a[:1] },
		"shape [4 7] and 28 values":     func(a [][]coded.Answer) [][]coded.Answer { a[0][1].Result = coded.NewTensor(4, 7); return a },
		"shape [3 1] and 3 values":      func(a [][]coded.Answer) [][]coded.Answer { a[0][1].Result = coded.NewTensor(3, 1); return a },
		"has shape []":                  func(a [][]coded.Answer) [][]coded.Answer { a[1][0].Result = coded.Tensor{}; return a },
		"slot 0 after that of slot 2":   func(a [][]coded.Answer) [][]coded.Answer { a[0][0], a[0][1] = a[0][1], a[0][0]; return a },
		"slot 2 after that of slot 2":   func(a [][]coded.Answer) [][]coded.Answer { a[0][0] = a[0][1]; return a },
		"task 9, want 0 to 5":           func(a [][]coded.Answer) [][]coded.Answer { a[1][3].Slot = 9; return a },
		"too few results":               func(a [][]coded.Answer) [][]coded.Answer { a[1] = a[1][:3]; return a },
		"chunk 0":                       func(a [][]coded.Answer) [][]coded.Answer { a[0] = nil; return a },
		"shape [4 1] and 5 values":      func(a [][]coded.Answer) [][]coded.Answer { a[0][0].Result.Data = make([]float32, 5); return a },
		"step 1: forward wait and deco": func(a [][]coded.Answer) [][]coded.Answer { return nil },
	} {
		s := &spy{Executor: shard.NewLocal(shard.LocalConfig{Survivors: always(0, 2, 3, 4)}), change: change}
		placed := newPlaced(t, 1, sizes, &nn.Resident{Executor: s, Code: trigonometric(6, 4), Chunks: 2}, 1)
		_, _, err := placed.Train(t.Context(), 1, x, labels)
		wantError(t, err, "layer 2", want)
		var panicked *nn.PanicError
		if errors.As(err, &panicked) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A steady-state step of a placed layer allocates no tensor, on either side.
func TestPlacedStepAllocatesNoTensor(t *testing.T) {
	wide := []int{200, 160, 120, 80}
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	placed := newPlaced(t, 1, wide, r, 0, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	const batch = 256
	x, labels := data(rng, batch, 200, 80)
	step := 0
	run := func() {
		step++
		if _, _, err := placed.Train(t.Context(), step, x, labels); err != nil {
			t.Fatal(err)
		}
		if err := nn.UpdatePlaced(t.Context(), placed.model, coded.Update{Step: step, LR: 0.01, Momentum: 0.9, Scale: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // random survivors: until their weights are cached
		run()
	}
	smallest := uint64(4 * batch * 80) // dY of the last layer; a block of it is not decoded
	if b := steady.Bytes(10, run); b >= smallest {
		t.Errorf("%d bytes allocated a step, want less than a tensor of %d", b, smallest)
	} else {
		t.Logf("%d bytes allocated a step", b)
	}
}
