package nn_test

import (
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// normModel has a convolution with a batch normalisation behind it, which an
// evaluation folds into one where nothing is placed.
func normModel(on nn.Placement) nn.Sequential {
	rng := rand.New(rand.NewPCG(3, 0))
	return nn.Sequential{
		nn.NewConv2d(rng, 2, 8, 3, nn.Conv2dConfig{Padding: 1}, nn.On(on)), nn.NewBatchNorm(8, nn.BatchNormConfig{}), nn.ReLU{},
		nn.NewConv2d(rng, 8, 8, 3, nn.Conv2dConfig{Stride: 2}, nn.On(on)), nn.ReLU{},
		nn.Flatten{}, nn.NewLinear(rng, 8*3*3, 7, nn.On(on)),
	}
}

// With Config.Placed an evaluation computes on the workers what it else computes
// here, with the same results; it only multiplies, and keeps nothing there for an
// update.
func TestEvaluationOnAPlacement(t *testing.T) {
	for _, c := range []struct {
		frozen, byBatch bool
		batch           int
	}{{false, false, 4}, {true, false, 4}, {true, true, 4}, {true, true, 1}} { // the last has fewer samples than chunks
		s := &spy{Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(1)})}
		model := normModel(&nn.Resident{Executor: s, Code: trigonometric(6, 4), Chunks: 2, ByBatch: c.byBatch})
		params, err := nn.Params(model)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range params {
			p.Frozen = c.frozen
		}
		if err := nn.Place(t.Context(), model, nil); err != nil {
			t.Fatal(err)
		}
		x, _ := data(rand.New(rand.NewPCG(1, 1)), c.batch, 2*8*8, 7)
		predict := func(placed bool) []float32 {
			n, err := nn.NewNetwork(model, []int{2, 8, 8}, nn.Config{Threads: 1, Placed: placed})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			y, err := n.Predict(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			return y
		}
		local := predict(false)
		if len(s.rounds) != 0 {
			t.Errorf("an evaluation with local weights started %v", s.rounds)
		}
		if d := apart(t, predict(true), local); !(d <= 1e-5) {
			t.Errorf("outputs differ by %.2g of the largest", d)
		}
		least := 1
		if c.byBatch {
			least = 2
		}
		if len(s.rounds) != 3 {
			t.Errorf("%d rounds, want one for each placed layer", len(s.rounds))
		}
		for _, r := range s.rounds {
			if r.Product != coded.Forward || r.Keep || r.Discard || r.Operand.Shape[0] != max(c.batch, least) {
				t.Errorf("round %+v, want a forward product that keeps nothing", r)
			}
		}
	}
}

// Weights that are not trained have no copy for the gradient of the input.
func TestPlacedForInferenceHoldsOneCopy(t *testing.T) {
	local := shard.NewLocal(shard.LocalConfig{})
	model := normModel(&nn.Resident{Executor: local, Code: trigonometric(6, 4), Chunks: 2})
	params, err := nn.Params(model)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range params {
		p.Frozen = true
	}
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	for _, layer := range []string{"0", "3", "6"} {
		if n := len(local.Shard(layer, 0).State()); n != 2 {
			t.Errorf("layer %s: a shard of %d tensors, want the weights and their momenta", layer, n)
		}
	}
}
