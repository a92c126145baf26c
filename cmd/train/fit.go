package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

// fit trains, evaluates and writes checkpoints.
func (r *run) fit(ctx context.Context) error {
	var err error
	config := nn.Config{Threads: r.Threads, Seed: r.Seed, Loss: nn.CrossEntropy{Smoothing: r.Smoothing}, RemoteNorms: r.Clip > 0}
	if r.network, err = nn.NewNetwork(r.model, r.train.Shape, config); err != nil {
		return err
	}
	// The workers' own waits have deadlines; an interrupt ends the run between steps.
	r.doing = "placing the layers"
	if err := nn.Place(ctx, r.model, r.resumed.Momenta); err != nil {
		return err
	}
	if r.cluster == nil {
		r.monitor.watchReadiness(func() error { return nil })
	}
	r.watch = newWatch()
	if err := r.newTrainer(); err != nil {
		return err
	}
	if err := r.events.emit(r.startEvent()); err != nil {
		return err
	}
	if err := r.firstCheckpoint(ctx); err != nil {
		return err
	}
	result, err := r.trainer.Run(ctx)
	for retry := (retries{}); err != nil; result, err = r.trainer.Run(ctx) {
		if err := r.restore(ctx, err, &retry); err != nil {
			return err
		}
	}
	if result.Interrupted {
		if err := r.checkpoint(context.WithoutCancel(ctx), "interrupted"); err != nil {
			return err
		}
		return interruptedError{fmt.Sprintf("after step %d of %d; train run --resume %s goes on", result.Steps, r.totalSteps(), r.folder.path)}
	}
	return r.finish(result)
}

// newTrainer makes the loop that begins where the checkpoint, if any, ends.
func (r *run) newTrainer() (err error) {
	r.trainer, err = train.New(train.Config{
		Model: r.model, Network: r.network, Optimizer: r.optimizer, Train: r.loader, Test: r.test,
		Epochs: r.Epochs, Steps: r.Steps, Accumulate: r.Accumulate, Start: r.resumed.Position, Plateau: r.plateau, EMA: r.ema,
		Hooks: []train.Hooks{{BeforeStep: r.beforeStep, OnStep: r.onStep, OnEpoch: r.onEpoch}},
	})
	return err
}

func (r *run) startEvent() startEvent {
	e := startEvent{Event: "start", Config: r.runFlags, Workers: r.workerNames(), Layers: r.layers, Plan: r.prediction, Steps: r.totalSteps(), Resumed: r.resumed.Dir,
		Groups: r.Groups, Params: r.parameters, Trained: r.trained, Unused: r.unused()}
	if r.cluster != nil {
		e.Kept = r.cluster.coordinator.Stats().Resumed
	}
	for _, err := range r.resumed.Broken {
		e.Broken = append(e.Broken, oneLine(err))
	}
	return e
}

// unused lists the flags that say something about placed layers, where there are none.
func (r *run) unused() []string {
	if len(r.placed) > 0 {
		return nil
	}
	var names []string
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"seats", r.Seats > 1}, {"losses", r.Losses > 0}, {"join", len(r.Join) > 0}, {"verify", r.Verify}, {"max-condition", r.MaxCond > 0},
		{"drift-every", r.DriftEvery > 0}, {"pace", r.Pace > 0}, {"inject", len(r.Inject) > 0}, {"survivors", r.Survivors != "fastest"},
		{"record", r.Record != ""}, {"replay", r.Replay != ""},
	} {
		if flag.set {
			names = append(names, "--"+flag.name)
		}
	}
	return names
}

func (r *run) workerNames() []string {
	if r.cluster == nil {
		return []string{}
	}
	return r.cluster.coordinator.Workers()
}

func (r *run) beforeStep(ctx context.Context, step int) error {
	r.watch.stepBegins()
	if r.cluster == nil {
		return nil
	}
	return r.cluster.beforeStep(step)
}

func (r *run) onStep(ctx context.Context, s train.StepInfo) error {
	r.metrics.stepMade(s)
	if err := r.timeline.stepMade(s); err != nil {
		return err
	}
	e := stepEvent{Event: "step", Step: s.Step, Loss: s.Loss, StepMS: float64(s.Time) / float64(time.Millisecond), Answered: []int{},
		usage: r.watch.stepEnds()}
	if r.cluster != nil {
		e.Answered, e.Needed = append(e.Answered, r.cluster.answered()...), r.needed
	}
	if err := r.tell(ctx, e); err != nil {
		return err
	}
	if err := r.measureDrift(ctx, s.Step); err != nil {
		return err
	}
	if r.cluster != nil && r.cluster.low.Swap(false) {
		return r.checkpoint(ctx, "no spare worker is left")
	}
	if r.CheckpointEvery > 0 && s.Step%r.CheckpointEvery == 0 {
		return r.checkpoint(ctx, fmt.Sprintf("every %d steps", r.CheckpointEvery))
	}
	return nil
}

func (r *run) onEpoch(ctx context.Context, e train.EpochInfo) error {
	r.metrics.evaluated(e)
	err := r.tell(ctx, epochEvent{Event: "epoch", Epoch: e.Epoch + 1, Step: e.Step, Loss: e.Loss,
		TestLoss: e.TestLoss, TestAccuracy: e.TestAccuracy, ImagesPerS: e.ImagesPerS})
	if err != nil {
		return err
	}
	return r.checkpoint(ctx, fmt.Sprintf("end of epoch %d", e.Epoch+1))
}

// tell emits an event between two steps. When nobody can be told any more,
// because a terminal was closed say, the state is saved before the run ends.
func (r *run) tell(ctx context.Context, event any) error {
	err := r.events.emit(event)
	if err != nil {
		_, saved := r.writeCheckpoint(ctx)
		err = errors.Join(err, saved)
	}
	return err
}

func (r *run) writeCheckpoint(ctx context.Context) (path string, err error) {
	return r.trainer.WriteCheckpoint(ctx, r.folder.join(checkpointsName), train.Origin{Seed: r.Seed, BatchSize: r.Batch})
}

// checkpoint writes the state of the run as it is between two steps.
func (r *run) checkpoint(ctx context.Context, why string) error {
	path, err := r.writeCheckpoint(ctx)
	if err != nil {
		if errors.Is(err, coded.ErrTooFewResults) {
			return err
		}
		return fmt.Errorf("checkpoint: %w", err)
	}
	if r.cluster != nil {
		if err := r.cluster.keepCopies(path); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
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
