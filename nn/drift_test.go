package nn_test

import (
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// A copy that has drifted is found; above the limit the layer is put right, with its
// momentum, and trains on as one that never drifted. The others are left alone.
func TestDriftIsCorrected(t *testing.T) {
	const steps, batch = 12, 8
	type made struct {
		*trainer
		executor *shard.Local
	}
	train := func(spoil float32, limit float64) (m made, drifts []nn.Drift) {
		m.executor = shard.NewLocal(shard.LocalConfig{})
		m.trainer = newTrainer(t, newPlaced(t, 3, sizes, &nn.Resident{Executor: m.executor, Code: trigonometric(6, 4), Chunks: 2}, 0, 1))
		for step := 1; step <= steps; step++ {
			m.step(t, step, batch, 1)
			if step != steps/2 {
				continue
			}
			w := m.executor.Shard(name(1), 2).State()[0].Data // lent
			w[0] += spoil
			var err error
			if drifts, err = nn.MeasureDrift(t.Context(), m.model, limit); err != nil {
				t.Fatal(err)
			}
		}
		return m, drifts
	}
	calm, none := train(0, 1e-4)
	for i, d := range none {
		if d.Layer != name(i) || !slices.Equal(d.Slots, []int{0, 1, 2, 3, 4, 5}) || !(d.Weights > 0 && d.Weights < 2e-6 && d.Momenta < 1e-4) || d.Corrected {
			t.Errorf("measured %+v of layer %s, want some rounding", d, name(i))
		}
	}
	spoiled, found := train(3e-3, 1e-4)
	if len(found) != 2 || found[0].Corrected || !found[1].Corrected || found[1].Weights < 1e-4 {
		t.Fatalf("measured %+v, want layer %s corrected", found, name(1))
	}
	momenta, want := spoiled.sync(t), calm.sync(t)
	for i := range 2 {
		weight := name(i) + ".weight"
		// The spoiled entry's part in its block, and what came of it.
		if d := apart(t, spoiled.param(t, weight).Value.Data, calm.param(t, weight).Value.Data); !(d <= 1e-2) {
			t.Errorf("%s differs by %.1e from that of the run that did not drift", weight, d)
		}
		if d := apart(t, momenta[weight], want[weight]); !(d <= 5e-2) {
			t.Errorf("momentum of %s differs by %.1e", weight, d)
		}
	}
	again, err := nn.MeasureDrift(t.Context(), spoiled.model, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	if d := again[1]; !(d.Weights < 2e-6) || d.Corrected {
		t.Errorf("after the correction %+v, want rounding", d)
	}
	unlimited, left := train(3e-3, math.Inf(1))
	if left[1].Corrected || left[1].Weights != found[1].Weights {
		t.Errorf("without a limit %+v, want it measured as %+v and not corrected", left[1], found[1])
	}
	if still, err := nn.MeasureDrift(t.Context(), unlimited.model, math.Inf(1)); err != nil || !(still[1].Weights > 1e-4) {
		t.Errorf("not corrected, and later %+v, %v", still, err)
	}
}

// To be placed anew without a reason changes no more than rounding: momenta are kept.
func TestPlacedAnewTrainsOn(t *testing.T) {
	var weights [2][]float32
	for i, limit := range []float64{math.Inf(1), math.SmallestNonzeroFloat64} {
		r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 1}
		tr := newTrainer(t, newPlaced(t, 3, sizes, r, 0, 1))
		for step := 1; step <= 10; step++ {
			tr.step(t, step, 8, 1)
			drifts, err := nn.MeasureDrift(t.Context(), tr.model, limit)
			if err != nil {
				t.Fatal(err)
			}
			if d := drifts[0]; d.Corrected != (i == 1) {
				t.Fatalf("step %d, limit %g: %+v", step, limit, d)
			}
		}
		tr.sync(t)
		weights[i] = tr.param(t, name(1)+".weight").Value.Data
	}
	if d := apart(t, weights[1], weights[0]); !(d <= 1e-5) {
		t.Errorf("the weights differ by %.1e", d)
	}
}

func TestMeasureDriftRefuses(t *testing.T) {
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 1}
	model := mlp(1, sizes, map[int]nn.Placement{1: r})
	_, err := nn.MeasureDrift(t.Context(), model, 1)
	wantError(t, err, "drift of layer "+name(1), "not been placed")
	spoiled := newPlaced(t, 1, sizes, r, 1)
	r.Executor.(*shard.Local).Shard(name(1), 3).State()[0].Data[0] = float32(math.Inf(-1))
	_, err = nn.MeasureDrift(t.Context(), spoiled.model, 1)
	wantError(t, err, "drift of layer "+name(1), "not finite")
	local, err := nn.MeasureDrift(t.Context(), mlp(1, sizes, nil), 1)
	if err != nil || len(local) != 0 {
		t.Errorf("a local model: %v, %v, want nothing", local, err)
	}
}
