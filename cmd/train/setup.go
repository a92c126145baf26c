package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

// loadData finds the data and checks the batch size against it.
func (r *run) loadData(ctx context.Context) error {
	var err error
	r.train, r.test, err = datasets.Load(ctx, r.Dataset, r.dataOptions())
	if errors.Is(err, datasets.ErrUnknown) {
		return usageError{fmt.Errorf("--dataset: %w", err)}
	}
	if err != nil {
		return err
	}
	augment, err := r.augmentation()
	if err != nil {
		return usageError{fmt.Errorf("--augment: %w", err)}
	}
	r.loader, err = datasets.NewLoader(r.train, datasets.LoaderConfig{Batch: r.Batch, Shuffle: true, Seed: r.Seed, Augment: augment})
	if err != nil {
		return fmt.Errorf("--batch: %w", err)
	}
	return nil
}

// dataOptions say where the data may come from.
func (f *runFlags) dataOptions() datasets.Options {
	return datasets.Options{Dir: f.DataDir, Offline: f.Offline, Mirrors: f.Mirror, Synthetic: datasets.Synthetic{Seed: f.Seed}}
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

// buildOptimizer makes the optimiser and its schedule by name.
func (r *run) buildOptimizer() error {
	if r.LR == 0 {
		r.LR = optim.DefaultLR(r.Optimizer)
	}
	lr, plateau, err := optim.NewSchedule(r.Schedule, optim.ScheduleConfig{LR: r.LR, Steps: r.totalSteps(), WarmUp: r.WarmUp, Rise: r.Rise, Linear: r.Linear})
	if err != nil {
		return usageError{fmt.Errorf("--schedule: %w", err)}
	}
	r.plateau = plateau
	config := optim.Config{LR: lr, Decay: r.WeightDecay, Momentum: *r.Momentum, Nesterov: r.Nesterov, ClipNorm: r.Clip, Groups: r.optimGroups()}
	if r.CycleMomentum > 0 {
		cycle := optim.OneCycleConfig{Steps: r.totalSteps(), Rise: r.Rise, Linear: r.Linear}
		if config.Momenta, err = optim.CycleMomentum(cycle, *r.Momentum, r.CycleMomentum); err != nil {
			return usageError{fmt.Errorf("--cycle-momentum: %w", err)}
		}
		config.Momentum = 0
	}
	r.optimizer, err = optim.New(r.Optimizer, config)
	if err != nil {
		return usageError{fmt.Errorf("--optimizer: %w", err)}
	}
	if r.EMA > 0 {
		if r.ema, err = optim.NewEMA(optim.EMAConfig{Decay: r.EMA, WarmUp: true}); err != nil {
			return usageError{fmt.Errorf("--ema: %w", err)}
		}
	}
	return nil
}

// augmentation parses --augment.
func (f *runFlags) augmentation() (datasets.Augment, error) {
	list := f.Augment
	if list == "auto" {
		list = "none"
		if f.Dataset == "cifar10" || f.Dataset == "cifar100" {
			list = "crop,flip"
		}
	}
	var a datasets.Augment
	if list == "none" {
		return a, nil
	}
	for _, item := range strings.Split(list, ",") {
		name, value, sized := strings.Cut(item, "=")
		if sized {
			pad, err := strconv.Atoi(value)
			if name != "crop" || err != nil || pad < 0 {
				return a, fmt.Errorf("%q: only crop has a value, the pixels of its padding, as in crop=2", item)
			}
			a.Pad = pad
			continue
		}
		switch name {
		case "crop":
			a.Pad = 4
		case "reflect":
			a.Reflect = true
		case "flip":
			a.Flip = true
		case "alternate":
			a.Alternate = true
		case "cutout":
			a.Cutout = 16
		default:
			return a, fmt.Errorf("%q: choose among crop, crop=PIXELS, reflect, flip, alternate and cutout, or none, or auto", item)
		}
	}
	return a, nil
}

// totalSteps is the number of steps of the whole run.
func (r *run) totalSteps() int {
	steps := r.Epochs * train.StepsPerEpoch(r.loader.Steps(), r.Accumulate)
	if r.Steps > 0 {
		steps = min(steps, r.Steps)
	}
	return steps
}

// loadCheckpoint loads the newest checkpoint of --resume into model and optimiser.
func (r *run) loadCheckpoint() error {
	if r.Resume == "" {
		return nil
	}
	if err := r.loadNewest(filepath.Join(string(r.Resume), checkpointsName)); err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	if c := r.resumed; c.Seed != r.Seed || c.BatchSize != r.Batch {
		return usageError{fmt.Errorf("--resume %s: the checkpoint is of seed %d and batch %d, not of seed %d and batch %d",
			r.Resume, c.Seed, c.BatchSize, r.Seed, r.Batch)}
	}
	return nil
}

// loadNewest loads the newest checkpoint of a folder into the model, the
// optimiser and what else has a state.
func (r *run) loadNewest(dir string) error {
	c, err := train.LoadNewest(dir, r.model, r.optimizer)
	if err != nil {
		return err
	}
	r.resumed = c
	if r.plateau != nil && c.Plateau != nil {
		if err := r.plateau.LoadState(*c.Plateau); err != nil {
			return err
		}
	}
	if r.ema != nil && c.Averages != nil {
		return r.ema.LoadState(*c.Averages)
	}
	return nil
}
