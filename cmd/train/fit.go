package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

// runEvents gives the events of the training loop and of the cluster, which
// come from different goroutines, to the sinks one after another. The start
// event comes first; what the cluster tells before waits for it, or for an error.
type runEvents struct {
	to sinks

	mu      sync.Mutex
	early   []any
	started bool
}

func (e *runEvents) emit(event any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, early := event.(workerEvent); early && !e.started {
		e.early = append(e.early, event)
		return nil
	}
	err := error(nil)
	if _, start := event.(startEvent); start {
		e.started = true
		err = e.to.emit(event)
		event = nil
	}
	for _, waited := range e.early {
		err = errors.Join(err, e.to.emit(waited))
	}
	e.early = nil
	if event == nil {
		return err
	}
	return errors.Join(err, e.to.emit(event))
}

// fit trains, evaluates and writes checkpoints.
func (r *run) fit(ctx context.Context) error {
	var err error
	if r.network, err = nn.NewNetwork(r.model, r.train.Shape, nn.Config{Threads: r.Threads}); err != nil {
		return err
	}
	start, momenta, err := r.restore()
	if err != nil {
		return err
	}
	// The workers' own waits have deadlines; an interrupt ends the run between steps.
	if err := nn.Place(ctx, r.model, momenta); err != nil {
		return err
	}
	r.trainer, err = train.New(train.Config{
		Model: r.model, Network: r.network, Optimizer: r.optimizer, Train: r.loader, Test: r.test,
		Epochs: r.Epochs, Steps: r.Steps, Accumulate: r.Accumulate, Start: start,
		Hooks: []train.Hooks{{BeforeStep: r.beforeStep, OnStep: r.onStep, OnEpoch: r.onEpoch}},
	})
	if err != nil {
		return err
	}
	if err := r.events.emit(startEvent{"start", r.runFlags, r.workerNames(), r.layers}); err != nil {
		return err
	}
	result, err := r.trainer.Run(ctx)
	if err != nil {
		return err
	}
	if result.Interrupted {
		if err := r.checkpoint(context.WithoutCancel(ctx), "interrupted"); err != nil {
			return err
		}
		return errInterrupted
	}
	return r.finish(result)
}

// restore loads the newest checkpoint of --resume into model and optimiser.
func (r *run) restore() (train.Position, nn.Momenta, error) {
	if r.Resume == "" {
		return train.Position{}, nil, nil
	}
	state, err := train.LoadNewest(r.folder.join("checkpoints"), r.model, r.optimizer)
	if err != nil {
		return train.Position{}, nil, fmt.Errorf("--resume %s: %w", r.Resume, err)
	}
	if state.Seed != r.Seed || state.BatchSize != r.Batch {
		return train.Position{}, nil, usageError{fmt.Errorf("--resume %s: the checkpoint is of seed %d and batch %d, not of seed %d and batch %d",
			r.Resume, state.Seed, state.BatchSize, r.Seed, r.Batch)}
	}
	return state.Position, state.Momenta, nil
}

func (r *run) workerNames() []string {
	if r.cluster == nil {
		return []string{}
	}
	return r.cluster.coordinator.Workers()
}

func (r *run) beforeStep(ctx context.Context, step int) error {
	if r.cluster == nil {
		return nil
	}
	return r.cluster.beforeStep(step)
}

func (r *run) onStep(ctx context.Context, s train.StepInfo) error {
	e := stepEvent{Event: "step", Step: s.Step, Loss: s.Loss, StepMS: float64(s.Time) / float64(time.Millisecond), Answered: []int{}}
	if r.cluster != nil {
		e.Answered, e.Needed = append(e.Answered, r.cluster.answered()...), r.K
	}
	if err := r.events.emit(e); err != nil {
		return err
	}
	if r.cluster != nil && r.cluster.low.Swap(false) {
		return r.checkpoint(ctx, "no spare worker is left")
	}
	if r.CheckpointEvery > 0 && s.Step%r.CheckpointEvery == 0 {
		return r.checkpoint(ctx, "every "+fmt.Sprint(r.CheckpointEvery))
	}
	return nil
}

func (r *run) onEpoch(ctx context.Context, e train.EpochInfo) error {
	err := r.events.emit(epochEvent{Event: "epoch", Epoch: e.Epoch + 1, Step: e.Step, Loss: e.Loss,
		TestLoss: e.TestLoss, TestAccuracy: e.TestAccuracy, ImagesPerS: e.ImagesPerS})
	if err != nil {
		return err
	}
	return r.checkpoint(ctx, fmt.Sprintf("end of epoch %d", e.Epoch+1))
}

// checkpoint writes the state of the run as it is between two steps.
func (r *run) checkpoint(ctx context.Context, why string) error {
	path, err := r.trainer.WriteCheckpoint(ctx, r.folder.join("checkpoints"), train.Origin{Seed: r.Seed, BatchSize: r.Batch})
	if err != nil {
		if errors.Is(err, coded.ErrTooFewResults) {
			return err
		}
		return fmt.Errorf("checkpoint: %w", err)
	}
	return r.events.emit(checkpointEvent{"checkpoint", path, r.trainer.Position().Step, why})
}

func (r *run) finish(result train.Result) error {
	e := doneEvent{Event: "done", TestAccuracy: result.TestAccuracy, Steps: result.Steps,
		Seconds: time.Since(r.began).Seconds(), ImagesPerS: result.ImagesPerS}
	if r.cluster != nil {
		s := r.cluster.coordinator.Stats()
		e.BytesOut, e.BytesIn, e.WastedWork = s.BytesOut, s.BytesIn, s.WastedFraction()
	}
	return r.events.emit(e)
}
