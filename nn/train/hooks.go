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
	LR     float64
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
	for _, h := range t.config.Hooks {
		if h.BeforeStep != nil {
			if err := h.BeforeStep(ctx, step); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Trainer) onStep(ctx context.Context, s StepInfo) error {
	for _, h := range t.config.Hooks {
		if h.OnStep != nil {
			if err := h.OnStep(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Trainer) onEpoch(ctx context.Context, e EpochInfo) error {
	for _, h := range t.config.Hooks {
		if h.OnEpoch != nil {
			if err := h.OnEpoch(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}
