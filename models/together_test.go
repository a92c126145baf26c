package models_test

import (
	"context"
	"flag"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

// together is how many steps of MNIST the coded copies of resident layers are
// trained for; 0 stands for a few steps of synthetic images:
//
//	go test ./models -run CodedCopiesStayTogether -v -together 5000 -timeout 2h
var together = flag.Int("together", 0, "steps of MNIST in TestCodedCopiesStayTogether")

// TestCodedCopiesStayTogether trains resident layers, every product of which is
// decoded from a random set of answers, and never synchronises their copies: all of
// them stay one codeword, so that a checkpoint may come from any set of workers; and
// so they do when shards are lost and repaired from others all the time, which were
// repaired themselves.
func TestCodedCopiesStayTogether(t *testing.T) {
	steps, repairs, names := *together, 200, []string{"mlp", "lenet"}
	if steps == 0 {
		steps, repairs, names = 24, 12, []string{"lenet"}
	}
	for _, name := range names {
		for _, lost := range []int{0, repairs} {
			t.Run(name+map[bool]string{true: " with repairs"}[lost > 0], func(t *testing.T) {
				t.Parallel()
				c := newCopies(t, name, trigonometric(6, 4))
				c.train(t, steps, lost)
				c.compareCheckpoints(t)
			})
		}
	}
}

// copies is a model with resident layers in this process.
type copies struct {
	model nn.Module
	local *shard.Local
	code  *coded.Code
	set   []int // whose answers and states are taken; nil: random ones
}

func newCopies(t *testing.T, name string, spec coded.Spec) *copies {
	t.Helper()
	c := &copies{model: newModelFor(t, name, []int{1, 28, 28})}
	var err error
	if c.code, err = coded.New(spec); err != nil {
		t.Fatal(err)
	}
	random := shard.RandomSurvivors(5)
	c.local = shard.NewLocal(shard.LocalConfig{Survivors: func(code *coded.Code, r coded.Round, chunk int) []int {
		if c.set != nil {
			return c.set
		}
		return random(code, r, chunk)
	}})
	placeAll(t, c.model, &nn.Resident{Executor: c.local, Code: spec, Chunks: 2}, spec.K)
	if err := nn.Place(t.Context(), c.model, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// train makes steps, and so many repairs between them.
func (c *copies) train(t *testing.T, steps, repairs int) {
	t.Helper()
	name, options := "mnist", datasets.Options{Offline: true}
	if *together == 0 {
		name, options.Synthetic = "synthetic", datasets.Synthetic{Train: 512, Test: 64}
	}
	images, test, err := datasets.Load(t.Context(), name, options)
	if err != nil {
		t.Fatal(err)
	}
	const batch = 64
	loader, err := datasets.NewLoader(images, datasets.LoaderConfig{Batch: batch, Shuffle: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.02), Momentum: 0.9, Decay: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	layers, err := nn.PlacedLayers(c.model)
	if err != nil {
		t.Fatal(err)
	}
	r, made := rng(9), 0
	onStep := func(_ context.Context, s train.StepInfo) error {
		for ; made*steps < s.Step*repairs; made++ {
			order := r.Perm(c.code.N())
			c.repair(t, layers, order[0], order[1:])
		}
		if s.Step%(steps/4) == 0 {
			t.Logf("step %d", s.Step)
			c.compareCopies(t)
		}
		return nil
	}
	trainer, err := train.New(train.Config{
		Model: c.model, Network: networkFor(t, c.model, images.Shape, nn.Config{Threads: 1}), Optimizer: sgd, Train: loader, Test: test,
		Epochs: steps*batch/images.N + 1, Steps: steps, Hooks: []train.Hooks{{OnStep: onStep}},
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := trainer.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.Steps != steps || made != repairs {
		t.Fatalf("%d steps and %d repairs, want %d and %d", result.Steps, made, steps, repairs)
	}
	t.Logf("%d steps of %v, %d repairs: test accuracy %.2f %%", steps, images, made, 100*result.TestAccuracy)
}

// repair makes the shards of a slot anew from others, as a cluster does.
func (c *copies) repair(t *testing.T, layers []string, lost int, fresh []int) {
	t.Helper()
	donors, weights, _, err := c.code.Repair(lost, fresh)
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		var state []coded.Tensor
		for q, like := range c.local.Shard(layer, lost).State() {
			sum := make([]float64, len(like.Data))
			for i, d := range donors {
				for j, v := range c.local.Shard(layer, d).State()[q].Data {
					sum[j] += weights[i] * float64(v)
				}
			}
			x := coded.NewTensor(like.Shape...)
			for j, v := range sum {
				x.Data[j] = float32(v)
			}
			state = append(state, x)
		}
		if err := c.local.Shard(layer, lost).SetState(state); err != nil {
			t.Fatal(err)
		}
	}
}

// copiesAgree is how well copies and checkpoints agree, in parts of the largest
// weight. Momenta are made of the last gradients, whose entries are sums that nearly
// cancel: their rounding is larger beside them, and does not stay.
const (
	copiesAgree  = 2e-5
	momentaAgree = 1e-3
)

// compareCopies compares the shards of all slots with one encoding.
func (c *copies) compareCopies(t *testing.T) {
	t.Helper()
	drifts, err := nn.MeasureDrift(t.Context(), c.model, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drifts {
		t.Logf("layer %s: copies differ by %.1e of the largest weight, those of momenta by %.1e", d.Layer, d.Weights, d.Momenta)
		if len(d.Slots) != c.code.N() || !(d.Weights <= copiesAgree && d.Momenta <= momentaAgree) {
			t.Errorf("drift %+v, want at most %g and %g over all slots", d, copiesAgree, momentaAgree)
		}
	}
}

// compareCheckpoints decodes the weights from every set of workers.
func (c *copies) compareCheckpoints(t *testing.T) {
	t.Helper()
	layers, err := nn.Placeables(c.model)
	if err != nil {
		t.Fatal(err)
	}
	first, worst := map[string][]float32{}, map[string]float64{}
	for c.set = range decoding(c.code) {
		momenta, err := nn.Sync(t.Context(), c.model)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			v := momenta[l.Weight.Name]
			if v == nil {
				continue // a local layer
			}
			w, of := l.Weight.Value.Data, l.Name+", momentum"
			if first[l.Name] == nil {
				first[l.Name], first[of] = slices.Clone(w), v
				continue
			}
			worst[l.Name], worst[of] = max(worst[l.Name], apart(w, first[l.Name])), max(worst[of], apart(v, first[of]))
			if !(worst[l.Name] <= copiesAgree && worst[of] <= momentaAgree) {
				t.Fatalf("layer %s from slots %v: differs by %.1e, its momentum by %.1e, from another set's", l.Name, c.set, worst[l.Name], worst[of])
			}
		}
	}
	c.set = nil
	for _, of := range slices.Sorted(maps.Keys(worst)) {
		t.Logf("checkpoints of all sets: layer %s differs by at most %.1e", of, worst[of])
	}
}

// decoding yields every set of as many slots as are needed.
func decoding(code *coded.Code) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		next := shard.EverySet()
		first := slices.Clone(next(code, coded.Round{}, 0))
		for set := first; yield(set); {
			if set = slices.Clone(next(code, coded.Round{}, 0)); slices.Equal(set, first) {
				return
			}
		}
	}
}
