package main

import (
	"context"
	"errors"

	"github.com/coda-ml/coda/nn"
)

// measureDrift compares the coded copies of the resident layers after a step of
// --drift-every, tells what it finds, and has those above --drift-limit encoded anew.
func (r *run) measureDrift(ctx context.Context, step int) error {
	if r.cluster == nil || r.DriftEvery == 0 || step%r.DriftEvery != 0 {
		return nil
	}
	r.cluster.coordinator.Resume(0) // what the workers kept for a checkpoint is older
	found, err := nn.MeasureDrift(ctx, r.model, r.DriftLimit)
	problems := []error{err}
	for _, d := range found {
		r.metrics.drifted(d)
		problems = append(problems, r.tell(ctx, driftEvent{
			Event: "drift", Step: step, Layer: d.Layer, Shards: len(d.Slots), Weights: d.Weights, Momenta: d.Momenta, Corrected: d.Corrected,
		}))
	}
	return errors.Join(problems...)
}
