package nn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// convModel has every kind of convolution: a first one, one with a stride and
// without a bias, one with groups in a residual branch, one whose ReLU is fused.
// All that have a weight are on the placement, if there is one.
func convModel(seed uint64, on nn.Placement) nn.Sequential {
	rng := rand.New(rand.NewPCG(seed, 0))
	var opts []nn.Option
	if on != nil {
		opts = append(opts, nn.On(on))
	}
	return nn.Sequential{
		nn.NewConv2d(rng, 2, 7, 3, nn.Conv2dConfig{Padding: 1}, opts...), nn.SiLU{},
		nn.NewConv2d(rng, 7, 12, 3, nn.Conv2dConfig{Stride: 2}, append(opts, nn.NoBias())...), nn.SiLU{},
		&nn.Residual{Body: nn.Sequential{
			nn.NewConv2d(rng, 12, 12, 3, nn.Conv2dConfig{Padding: 2, Dilation: 2, Groups: 2}, opts...), nn.SiLU{},
			nn.NewConv2d(rng, 12, 12, 1, nn.Conv2dConfig{}, opts...),
		}},
		nn.NewConv2d(rng, 12, 9, 3, nn.Conv2dConfig{Padding: 1}, opts...), nn.ReLU{},
		nn.AvgPool2d{Kernel: 2}, nn.Flatten{},
		nn.NewLinear(rng, 9, 7, opts...),
	}
}

var convInput = []int{2, 8, 7}

func newConvBench(t *testing.T, r *nn.Resident) *bench {
	t.Helper()
	if r == nil {
		return newBench(t, convModel(1, nil), convInput...)
	}
	b := newBench(t, convModel(1, r), convInput...)
	if err := nn.Place(t.Context(), b.model, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// The gradients of placed convolutions, and of what lies around them, are those
// of the local layers for every sufficient set.
func TestPlacedConvGradientsOfEverySet(t *testing.T) {
	local := newConvBench(t, nil)
	x, labels := data(rand.New(rand.NewPCG(1, 2)), 3, 2*8*7, 7)
	for _, set := range everySet(6, 4) {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{Survivors: always(set...)}), Code: trigonometric(6, 4), Chunks: 2}
			compareGradientsOn(t, local, newConvBench(t, r), 1, x, labels)
		})
	}
}

// Chunks are answered by different sets; the batch varies, so that they are
// samples or channels.
func TestPlacedConvGradientsOfMixedSets(t *testing.T) {
	local := newConvBench(t, nil)
	for _, spec := range []coded.Spec{trigonometric(8, 5), {Name: "uncoded", N: 3, K: 3}} {
		r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(5)}), Code: spec, Chunks: 2}
		placed := newConvBench(t, r)
		for step, batch := range []int{4, 1, 12, 4} {
			x, labels := data(rand.New(rand.NewPCG(uint64(step), 3)), batch, 2*8*7, 7)
			compareGradientsOn(t, local, placed, step+1, x, labels)
		}
	}
}

// A convolution that cannot be cut is refused before anything is placed, with
// the layer's name and what can be done.
func TestPlaceRefusesConvolutions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	err := nn.Place(t.Context(), nn.Sequential{
		nn.NewConv2d(rng, 3, 3, 3, nn.Conv2dConfig{}, nn.On(r)),
		nn.NewConv2d(rng, 3, 8, 3, nn.Conv2dConfig{}, nn.On(r)),
		nn.NewConv2d(rng, 8, 8, 3, nn.Conv2dConfig{Groups: 8}, nn.On(r)),
	}, nil)
	wantError(t, err, "layer 0", "out has 3 channels, fewer than the 4 blocks", "layer 1", "in has 3 channels",
		"layer 2", "in has 1 channels a group", "stay local")
}

// The first convolution keeps no copy for dX although it has fewer channels than
// there are blocks.
func TestPlacedFirstConvolution(t *testing.T) {
	local := shard.NewLocal(shard.LocalConfig{})
	newConvBench(t, &nn.Resident{Executor: local, Code: trigonometric(6, 4), Chunks: 2})
	if first, second := len(local.Shard("0", 0).State()), len(local.Shard("2", 0).State()); first != 2 || second != 4 {
		t.Errorf("states of %d and %d tensors, want 2 (no copy for dX) and 4", first, second)
	}
}

func TestPlacedConvStepAllocatesNoTensor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	model := nn.Sequential{
		nn.NewConv2d(rng, 4, 16, 3, nn.Conv2dConfig{Padding: 1}, nn.On(r)), nn.ReLU{},
		nn.NewConv2d(rng, 16, 16, 3, nn.Conv2dConfig{Padding: 1}, nn.On(r)), nn.ReLU{},
		nn.Flatten{}, nn.NewLinear(rng, 16*16*16, 7),
	}
	b := newBench(t, model, 4, 16, 16)
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	x, labels := data(rng, 16, 4*16*16, 7)
	step := 0
	run := func() {
		step++
		if _, _, err := b.Train(t.Context(), step, x, labels); err != nil {
			t.Fatal(err)
		}
		if err := nn.UpdatePlaced(t.Context(), model, coded.Update{Step: step, LR: 0.01, Momentum: 0.9, Scale: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // random survivors: until their weights are cached
		run()
	}
	if b := steady.Bytes(5, run); b >= 4*16*4*16*16 {
		t.Errorf("%d bytes allocated a step, want less than the first layer's X", b)
	}
}
