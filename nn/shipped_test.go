package nn_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

var orthoPolynomial = coded.Spec{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}

// newShippedBench places all layers of a model that can be: those without groups.
func newShippedBench(t *testing.T, s *nn.Shipped) *bench {
	t.Helper()
	model := convModel(1, nil)
	layers, err := nn.Placeables(model)
	if err != nil {
		t.Fatal(err)
	}
	placed := 0
	for _, l := range layers {
		if _, _, groups := l.Shape(); groups == 1 {
			l.Layer.Place(s)
			placed++
		}
	}
	if placed != 5 {
		t.Fatalf("%d layers placed, want 5", placed)
	}
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	return newBench(t, model, convInput...)
}

// The gradients of layers with both factors coded are those of local layers, for batches
// of several sizes, also for such with fewer samples than blocks, and codes of one and of several
// coded blocks a task.
func TestShippedGradients(t *testing.T) {
	local := newConvBench(t, nil)
	for _, spec := range []coded.Spec{
		orthoPolynomial, {Name: "ortho-matdot", N: 5, P: 2}, {Name: "entangled", N: 7, M: 2, P: 2, Q: 1}, {Name: "rotation", N: 5, M: 4, Q: 2},
	} {
		t.Run(spec.Name, func(t *testing.T) {
			placed := newShippedBench(t, &nn.Shipped{Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.EverySet()}), Code: spec, Chunks: 2})
			for step, batch := range []int{8, 1, 13, 8} {
				x, labels := data(rand.New(rand.NewPCG(uint64(step), 3)), batch, 2*8*7, 7)
				compareGradientsOn(t, local, placed, step+1, x, labels)
			}
		})
	}
}

// The weights are local parameters: twenty steps of a rule that is not linear in the
// gradient give the losses of local training.
func TestShippedTrains(t *testing.T) {
	local := newConvBench(t, nil)
	placed := newShippedBench(t, &nn.Shipped{Executor: shard.NewLocal(shard.LocalConfig{}), Code: orthoPolynomial, Chunks: 2})
	trainsAsLocally(t, local, placed)
}

// Both rounds of the way back are started before the first is waited for, no round is
// made of what nobody wants, and a slot is sent a block of either factor.
func TestShippedRounds(t *testing.T) {
	s := &spy{Executor: shard.NewLocal(shard.LocalConfig{})}
	on := &nn.Shipped{Executor: s, Code: orthoPolynomial, Chunks: 2}
	stepPlacedOn(t, on)
	var got []string
	for _, r := range s.rounds {
		got = append(got, fmt.Sprint(r.Layer, " ", r.Product, " ", r.Keep, " ", len(r.Slots), " ", len(r.Slots[0]), " ", r.Slots[5][0].Shape))
	}
	half := (sizes[1] + 1) / 2
	want := fmt.Sprintf("[0 forward false 6 2 [1 4 %d] 2 forward false 6 2 [1 4 %d] 2 backward false 6 2 [1 4 %d] 0 gradient false 6 2 [1 8 %d]]",
		sizes[0], sizes[1], sizes[2], half)
	if fmt.Sprint(got) != want {
		t.Errorf("rounds %v, want %v", got, want)
	}

	placed := newBench(t, mlp(1, sizes, map[int]nn.Placement{1: on}), sizes[0])
	if err := nn.Place(t.Context(), placed.model, nil); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := placed.WriteDot(&out, 8); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, m := range regexp.MustCompile(`label="2\\n((?:encode|forward|backward|weight gradient)[^"]*)\\n`).FindAllStringSubmatch(out.String(), -1) {
		order = append(order, m[1])
	}
	nodes := "encode batch, encode batch, forward start, forward wait and decode, encode gradient of batch, encode gradient of batch, backward start, " +
		"encode weight gradient, encode weight gradient, weight gradient start, backward wait and decode"
	if got := strings.Join(order, ", "); got != nodes {
		t.Errorf("nodes\n%s, want\n%s", got, nodes)
	}
}

func TestShippedErrors(t *testing.T) {
	good := nn.Shipped{Executor: shard.NewLocal(shard.LocalConfig{}), Code: orthoPolynomial, Chunks: 2}
	with := func(change func(*nn.Shipped)) nn.Placement {
		s := good
		change(&s)
		return &s
	}
	code := func(c coded.Spec) nn.Placement { return with(func(s *nn.Shipped) { s.Code = c }) }
	err := nn.Place(t.Context(), mlp(1, []int{9, 8, 8, 8, 8, 8, 3, 1}, map[int]nn.Placement{
		0: with(func(s *nn.Shipped) { s.Executor = nil }),
		1: with(func(s *nn.Shipped) { s.Chunks = 0 }),
		2: code(trigonometric(6, 4)),
		3: code(coded.Spec{Name: "sketch", N: 6, P: 4}),
		4: code(coded.Spec{Name: "ortho-polynomial", N: 5, M: 3, Q: 2}),
		5: code(coded.Spec{Name: "ortho-matdot", N: 8, P: 4}),
		6: with(func(*nn.Shipped) {}),
	}), nil)
	wantError(t, err, "layer 0", "no executor", "layer 2", "0 chunks", "layer 4", "code trigonometric (6,4): want an exact one for the product of two coded factors",
		"layer 6", "code sketch", "layer 8", "n must be", "layer 10", "out has 3 features, fewer than the 4 blocks", "layer 12", "out has 1 features, fewer than the 2 blocks")

	l := nn.NewLinear(rand.New(rand.NewPCG(1, 1)), 8, 8, nn.On(&good))
	_, err = nn.Sync(t.Context(), nn.Sequential{l})
	wantError(t, err, "layer 0", "not been placed")
	grouped := nn.NewConv2d(rand.New(rand.NewPCG(1, 1)), 8, 8, 3, nn.Conv2dConfig{Groups: 2}, nn.On(&good))
	wantError(t, nn.Place(t.Context(), nn.Sequential{grouped}, nil), "layer 0", "groups")
}

// An error of the round of a gradient comes from Train, and the next step is clean.
func TestShippedGradientError(t *testing.T) {
	broken := true
	all := []int{0, 1, 2, 3, 4, 5}
	s := &nn.Shipped{Code: orthoPolynomial, Chunks: 2}
	s.Executor = shard.NewLocal(shard.LocalConfig{Survivors: func(_ *coded.Code, r coded.Round, _ int) []int {
		if broken && r.Product == coded.Gradient && r.Layer == "2" {
			return all[:3]
		}
		return all
	}})
	placed := newShippedBench(t, s)
	x, labels := data(rand.New(rand.NewPCG(1, 2)), 4, 2*8*7, 7)
	_, _, err := placed.Train(t.Context(), 1, x, labels)
	var tooFew *coded.TooFewError
	if !errors.As(err, &tooFew) || tooFew.Layer != "2" || tooFew.Product != coded.Gradient || tooFew.Have != 3 {
		t.Fatalf("%v, want a *coded.TooFewError of the gradient of layer 2", err)
	}
	broken = false
	compareGradientsOn(t, newConvBench(t, nil), placed, 2, x, labels)
}
