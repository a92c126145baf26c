package nn

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// Drift is how far the coded copies of a resident layer have drifted apart, see
// shard.Drift.
type Drift struct {
	Layer string
	Slots []int // whose shards were compared
	// Weights and Momenta are the largest differences between a coded copy and a new
	// encoding, over the largest entry.
	Weights, Momenta float64
	Corrected        bool // the layer was placed anew
}

// MeasureDrift compares the shards of every resident layer with a new encoding of
// what they decode to, after the last update. A layer whose weights have drifted by
// more than the limit (+Inf: none) is placed anew with that encoding, momenta
// included. It is called between two steps. Every shard travels, which takes about
// as long as a checkpoint.
//
// A layer with numbers that are not finite is an error: no encoding mends it.
func MeasureDrift(ctx context.Context, model Module, limit float64) ([]Drift, error) {
	layers, err := placements(model)
	if err != nil {
		return nil, err
	}
	pool := kernel.NewPool(runtime.GOMAXPROCS(0))
	defer pool.Close()
	var found []Drift
	for _, p := range layers {
		r, ok := p.(*resident)
		if !ok {
			continue
		}
		l := r.resident.layers[r.Weight.Param]
		if l == nil {
			return found, fmt.Errorf("nn: drift of layer %s: %w", p.name(), errNotPlaced)
		}
		d, err := l.measureDrift(ctx, pool, limit)
		if err != nil {
			return found, fmt.Errorf("nn: drift of layer %s: %w", p.name(), err)
		}
		found = append(found, d)
	}
	return found, nil
}

func (l *placedLayer) measureDrift(ctx context.Context, pool *kernel.Pool, limit float64) (Drift, error) {
	d := Drift{Layer: l.Name}
	states, err := l.executor.FetchAll(ctx, l.Name)
	if err != nil {
		return d, err
	}
	for _, s := range states {
		d.Slots = append(d.Slots, s.Slot)
	}
	m, err := shard.MeasureDrift(l.config, states, l.decoder, pool)
	if err != nil {
		return d, err
	}
	d.Weights, d.Momenta = m.Weights, m.Momenta
	if sum := m.Weights + m.Momenta; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return d, fmt.Errorf("shards of slots %v: numbers that are not finite", d.Slots)
	}
	if m.Weights <= limit {
		return d, nil
	}
	if err := l.put(ctx, pool, m.Weight, m.Momentum); err != nil {
		return d, err
	}
	d.Corrected = true
	return d, nil
}

// put places the layer with a weight and a momentum. The slots are encoded one by one, as
// the executor sends them.
func (l *placedLayer) put(ctx context.Context, pool *kernel.Pool, weight, momentum []float32) error {
	e, err := shard.NewStateEncoder(l.config, weight, momentum, l.decoder.Code(), pool)
	if err != nil {
		return err
	}
	return l.executor.Place(ctx, l.Layer, e.Encode)
}
