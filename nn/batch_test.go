package nn_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

func matdot(n, p int) coded.Spec { return coded.Spec{Name: "trigonometric-matdot", N: n, P: p} }

func newBatchBench(t *testing.T, b *nn.Batch) *bench {
	t.Helper()
	placed := newBench(t, convModel(1, b), convInput...)
	if err := nn.Place(t.Context(), placed.model, nil); err != nil {
		t.Fatal(err)
	}
	return placed
}

// The gradients of layers with coded batches are those of local layers, for batches
// of several sizes, wherever the gradient of the weights is computed.
func TestBatchGradients(t *testing.T) {
	local := newConvBench(t, nil)
	for _, gradient := range []coded.Spec{
		{}, matdot(6, 4), matdot(7, 3), {Name: "cyclic-reed-solomon", N: 6, K: 6, Load: 3}, {Name: "fractional-repetition", N: 6, K: 12, Load: 6},
	} {
		t.Run(fmt.Sprint(gradient), func(t *testing.T) {
			code := trigonometric(6, 4)
			if gradient.N == 7 {
				code = trigonometric(7, 3)
			}
			placed := newBatchBench(t, &nn.Batch{Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.EverySet()}), Code: code, Gradient: gradient, Chunks: 3})
			for step, batch := range []int{8, 2, 13, 8} {
				x, labels := data(rand.New(rand.NewPCG(uint64(step), 3)), batch, 2*8*7, 7)
				compareGradientsOn(t, local, placed, step+1, x, labels)
			}
		})
	}
}

// Weights that the optimiser changes here reach the workers with the next update:
// twenty steps of a rule of one's own give the losses of local training.
func TestBatchFollowsTheWeights(t *testing.T) {
	local := newConvBench(t, nil)
	placed := newBatchBench(t, &nn.Batch{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Gradient: matdot(6, 4), Chunks: 2})
	trainsAsLocally(t, local, placed)
}

// trainsAsLocally makes twenty steps of a rule that is not linear in the gradient, with
// local layers and with placed ones whose weights are local parameters, and compares
// the losses.
func trainsAsLocally(t *testing.T, local, placed *bench) {
	t.Helper()
	train := func(b *bench, step int) float64 {
		x, labels := data(rand.New(rand.NewPCG(uint64(step%2), 3)), 9, 2*8*7, 7)
		loss, _, err := b.Train(t.Context(), step, x, labels)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Params() {
			for i, g := range p.Grad { // not linear in the gradient
				p.Value.Data[i] -= 0.02 * g / (float32(math.Abs(float64(g))) + 0.01)
			}
		}
		if err := nn.UpdatePlaced(t.Context(), b.model, coded.Update{Step: step}); err != nil {
			t.Fatal(err)
		}
		return loss
	}
	var first, last float64
	for step := 1; step <= 20; step++ {
		want, got := train(local, step), train(placed, step)
		if math.Abs(got-want) > 1e-3 {
			t.Fatalf("step %d: loss %v, local %v", step, got, want)
		}
		if last = want; step == 1 {
			first = want
		}
	}
	if last > first-0.3 {
		t.Errorf("loss %v after %v: nothing was learnt", last, first)
	}
	if momenta, err := nn.Sync(t.Context(), placed.model); err != nil || len(momenta) != 0 {
		t.Errorf("momenta %v, error %v: the weights are here", momenta, err)
	}
	if names, err := nn.PlacedLayers(placed.model); err != nil || len(names) != 0 {
		t.Errorf("layers %v, error %v: none needs a linear optimiser", names, err)
	}
	if ok, err := nn.Placed(placed.model); err != nil || !ok {
		t.Errorf("placed %v, error %v", ok, err)
	}
}

// stepPlacedOn makes one step of a network whose first two layers are placed, the second
// of which is not trained.
func stepPlacedOn(t *testing.T, on nn.Placement) {
	t.Helper()
	model := mlp(1, sizes, map[int]nn.Placement{0: on, 1: on})
	model[2].(*nn.Linear).Weight.Frozen = true
	placed := newBench(t, model, sizes[0])
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	x, labels := data(rand.New(rand.NewPCG(1, 1)), 8, sizes[0], 7)
	if _, _, err := placed.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	if err := nn.UpdatePlaced(t.Context(), model, coded.Update{Step: 1}); err != nil {
		t.Fatal(err)
	}
}

// What travels: a block for each slot, new weights only when they are trained.
func TestBatchRounds(t *testing.T) {
	s := &spy{Executor: shard.NewLocal(shard.LocalConfig{})}
	b := &nn.Batch{Executor: s, Code: trigonometric(6, 4), Chunks: 2}
	stepPlacedOn(t, b)
	var got []string
	for _, r := range s.rounds {
		got = append(got, fmt.Sprint(r.Layer, " ", r.Product, " ", r.Keep))
	}
	want := "[0 forward false 2 forward false 2 backward false 0 forward true 0 backward true]"
	if fmt.Sprint(got) != want {
		t.Errorf("rounds %v, want %v", got, want)
	}
}

func TestBatchErrors(t *testing.T) {
	good := nn.Batch{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	with := func(change func(*nn.Batch)) nn.Placement {
		b := good
		change(&b)
		return &b
	}
	err := nn.Place(t.Context(), mlp(1, []int{9, 8, 8, 8, 8, 8, 3}, map[int]nn.Placement{
		0: with(func(b *nn.Batch) { b.Executor = nil }),
		1: with(func(b *nn.Batch) { b.Chunks = 0 }),
		2: with(func(b *nn.Batch) { b.Code = coded.Spec{Name: "matdot", N: 5, P: 2} }),
		3: with(func(b *nn.Batch) { b.Gradient = matdot(6, 3) }),
		4: with(func(b *nn.Batch) { b.Gradient = coded.Spec{Name: "matdot", N: 7, P: 4}; b.Code = trigonometric(7, 4) }),
		5: with(func(b *nn.Batch) { b.Gradient = trigonometric(6, 4) }),
	}), nil)
	wantError(t, err, "layer 0", "no executor", "layer 2", "0 chunks", "layer 4", "one-sided code", "layer 6", "with 6 tasks, of a sum of 4 products",
		"layer 8", "coded blocks are not those", "layer 10")

	l := nn.NewLinear(rand.New(rand.NewPCG(1, 1)), 8, 8, nn.On(&good))
	for _, want := range []string{"used once", "call Place"} {
		var m nn.Module = &twice{l}
		if want == "call Place" {
			m = nn.Sequential{l}
		}
		n, err := nn.NewNetwork(m, []int{8}, nn.Config{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if want == "used once" {
			if err := nn.Place(t.Context(), m, nil); err != nil {
				t.Fatal(err)
			}
		} else {
			l.Place(&nn.Batch{Executor: good.Executor, Code: good.Code, Chunks: 2})
		}
		x, labels := data(rand.New(rand.NewPCG(1, 1)), 4, 8, 8)
		_, _, err = n.Train(t.Context(), 1, x, labels)
		wantError(t, err, "layer", want)
	}
	_, err = nn.Sync(t.Context(), nn.Sequential{l})
	wantError(t, err, "layer 0", "not been placed")
}

// An error of a round that nothing in the graph waits for comes from Train, with
// its layer and type, and the next step is clean.
func TestBatchGradientError(t *testing.T) {
	broken := true
	all := []int{0, 1, 2, 3, 4, 5}
	b := &nn.Batch{Code: trigonometric(6, 4), Gradient: matdot(6, 4), Chunks: 2}
	b.Executor = shard.NewLocal(shard.LocalConfig{Survivors: func(_ *coded.Code, r coded.Round, _ int) []int {
		if broken && r.Product == coded.Gradient && r.Layer == "2.gradient" {
			return all[1:]
		}
		return all
	}})
	placed := newBatchBench(t, b)
	x, labels := data(rand.New(rand.NewPCG(1, 2)), 4, 2*8*7, 7)
	_, _, err := placed.Train(t.Context(), 1, x, labels)
	var tooFew *coded.TooFewError
	if !errors.As(err, &tooFew) || tooFew.Layer != "2.gradient" || tooFew.Product != coded.Gradient || tooFew.Have != 5 {
		t.Fatalf("%v, want a *coded.TooFewError of the gradient of layer 2", err)
	}
	broken = false
	compareGradientsOn(t, newConvBench(t, nil), placed, 2, x, labels)
}
