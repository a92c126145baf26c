package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

// loadData finds the data and checks the batch size against it.
func (r *run) loadData(ctx context.Context) error {
	var err error
	r.train, r.test, err = datasets.Load(ctx, r.Dataset, datasets.Options{Dir: r.DataDir, Synthetic: datasets.Synthetic{Seed: r.Seed}})
	if errors.Is(err, datasets.ErrUnknown) {
		return usageError{fmt.Errorf("--dataset: %w", err)}
	}
	if err != nil {
		return err
	}
	r.loader, err = datasets.NewLoader(r.train, datasets.LoaderConfig{Batch: r.Batch, Shuffle: true, Seed: r.Seed})
	if err != nil {
		return fmt.Errorf("--batch: %w", err)
	}
	return nil
}

// buildModel makes the model from the seed.
func (r *run) buildModel() (err error) {
	r.model, err = models.New(r.Model, r.train.Classes, r.train.Shape, newRand(r.Seed))
	switch {
	case !slices.Contains(models.Names(), r.Model):
		return usageError{fmt.Errorf("--model: %w", err)}
	case err != nil:
		return fmt.Errorf("--model %s on %s: %w", r.Model, r.Dataset, err)
	}
	return nil
}

// newRand returns the generator of the initial weights.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x636f6461)) }

func (r *run) buildOptimizer() error {
	steps := r.totalSteps()
	if r.LR == 0 {
		r.LR = map[string]float64{"sgd": 0.01, "adam": 0.001}[r.Optimizer]
	}
	lr, err := schedule(r.Schedule, r.LR, steps)
	if err != nil {
		return usageError{fmt.Errorf("--schedule: %w", err)}
	}
	switch r.Optimizer {
	case "sgd":
		r.optimizer, err = optim.NewSGD(optim.SGDConfig{LR: lr, Momentum: r.Momentum, Decay: r.WeightDecay, Nesterov: r.Nesterov})
	case "adam":
		r.optimizer, err = optim.NewAdam(optim.AdamConfig{LR: lr, Decay: r.WeightDecay})
	default:
		err = fmt.Errorf("--optimizer %q: choose sgd or adam", r.Optimizer)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// totalSteps is the number of steps of the whole run.
func (r *run) totalSteps() int {
	steps := r.Epochs * train.StepsPerEpoch(r.loader.Steps(), r.Accumulate)
	if r.Steps > 0 {
		steps = min(steps, r.Steps)
	}
	return steps
}

// schedule returns the learning rate over the steps of a run by name. A step
// schedule divides it by ten after each third of the run.
func schedule(name string, lr float64, steps int) (optim.Schedule, error) {
	switch name {
	case "constant":
		return optim.Constant(lr), nil
	case "step":
		return optim.Step(lr, max(1, (steps+2)/3), 0.1)
	case "cosine":
		return optim.Cosine(lr, 0, steps)
	}
	return nil, fmt.Errorf("%q: choose constant, step or cosine", name)
}

// loadCheckpoint loads the newest checkpoint of --resume into model and optimiser.
func (r *run) loadCheckpoint() error {
	if r.Resume == "" {
		return nil
	}
	dir := filepath.Join(string(r.Resume), checkpointsName)
	c, err := train.LoadNewest(dir, r.model, r.optimizer)
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	if c.Seed != r.Seed || c.BatchSize != r.Batch {
		return usageError{fmt.Errorf("--resume %s: the checkpoint is of seed %d and batch %d, not of seed %d and batch %d",
			r.Resume, c.Seed, c.BatchSize, r.Seed, r.Batch)}
	}
	r.resumed = c
	return nil
}
