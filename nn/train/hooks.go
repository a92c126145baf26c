package train

import (
	"context"
	"time"
)

// StepInfo describes a step that has been made.
type StepInfo struct {
	Step   int     // from 1
	Epoch  int     // from 0
	Loss   float64 // mean over the step's images
	Images int
	Time   time.Duration
}

// EpochInfo describes an epoch that has ended and been evaluated.
type EpochInfo struct {
	Epoch        int     // from 0
	Step         int     // last step
	Loss         float64 // mean over the epoch's images
	TestLoss     float64
	TestAccuracy float64 // from 0 to 1
	ImagesPerS   float64 // of the training steps, the evaluation apart
}

// Hooks are called by the training loop, in the order in which they were
// given. Nil functions are left out. An error ends the run with that error.
type Hooks struct {
	BeforeStep func(ctx context.Context, step int) error
	OnStep     func(ctx context.Context, s StepInfo) error
	OnEpoch    func(ctx context.Context, e EpochInfo) error
}

func (t *Trainer) beforeStep(ctx context.Context, step int) error {
	return call(ctx, t.config.Hooks, func(h Hooks) func(context.Context, int) error { return h.BeforeStep }, step)
}

func (t *Trainer) onStep(ctx context.Context, s StepInfo) error {
	return call(ctx, t.config.Hooks, func(h Hooks) func(context.Context, StepInfo) error { return h.OnStep }, s)
}

func (t *Trainer) onEpoch(ctx context.Context, e EpochInfo) error {
	return call(ctx, t.config.Hooks, func(h Hooks) func(context.Context, EpochInfo) error { return h.OnEpoch }, e)
}

// call calls one of the functions of each hook, until the first error.
func call[T any](ctx context.Context, hooks []Hooks, which func(Hooks) func(context.Context, T) error, info T) error {
	for _, h := range hooks {
		if f := which(h); f != nil {
			if err := f(ctx, info); err != nil {
				return err
			}
		}
	}
	return nil
}
