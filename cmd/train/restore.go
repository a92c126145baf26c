package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
)

// With --wait a run survives the loss of more workers than its code allows. Those
// that were frozen or cut off come back with their shards, and the product under
// way goes on. If their processes died, nobody has enough shards any more: then
// the layers are placed anew, from the newest checkpoint, as soon as there are
// enough workers.

// maxRetries bounds how often a run goes back without having come further.
const maxRetries = 3

// retries counts how often the run has gone back, and where it was.
type retries struct{ step, times int }

// again tells whether a run that failed after a step may go back once more.
func (r *retries) again(step int) bool {
	if step > r.step {
		*r = retries{step: step}
	}
	r.times++
	return r.times <= maxRetries
}

// firstCheckpoint saves what a run with --wait begins with, to have something
// to go back to.
func (r *run) firstCheckpoint(ctx context.Context) error {
	if r.cluster == nil || r.Wait == 0 || r.resumed.Dir != "" {
		return nil
	}
	return r.checkpoint(ctx, "before the first step")
}

// restore makes the run go on from its newest checkpoint after too many workers
// were lost. It returns the cause if it does not.
func (r *run) restore(ctx context.Context, cause error, retry *retries) error {
	if r.cluster == nil || r.Wait == 0 || !errors.Is(cause, coded.ErrTooFewResults) || ctx.Err() != nil {
		return cause
	}
	if step := r.trainer.Position().Step; !retry.again(step) {
		return fmt.Errorf("%w (for the %dth time after step %d)", cause, retry.times, step)
	}
	wait, cancel := context.WithTimeoutCause(ctx, r.Wait, fmt.Errorf("not within %v", r.Wait))
	defer cancel()
	if err := r.cluster.coordinator.AwaitSeats(wait, r.needed); err != nil {
		return fmt.Errorf("%w; %w", cause, err)
	}
	if err := r.loadNewest(r.folder.join(checkpointsName)); err != nil {
		return fmt.Errorf("%w; go back to a checkpoint: %w", cause, err)
	}
	kept, err := readCopies(r.resumed.Dir)
	if err != nil {
		return err
	}
	r.cluster.coordinator.Resume(kept.Number)
	if err := nn.Place(ctx, r.model, r.resumed.Momenta); err != nil {
		return fmt.Errorf("%w; go back to %s: %w", cause, r.resumed.Dir, err)
	}
	if err := r.newTrainer(); err != nil {
		return err
	}
	return r.events.emit(restoredEvent{"restored", r.resumed.Dir, r.resumed.Step, oneLine(cause)})
}
