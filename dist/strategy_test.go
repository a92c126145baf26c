package dist

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/sim"
)

// paced is how the toy product of a strategy is computed by 8 workers, in units of
// a sixth of it.
type paced struct {
	strategy Strategy
	sim      sim.Strategy
	code     coded.Spec
	chunks   int
}

var pacedStrategies = []paced{
	{InOrder, sim.Uncoded{}, coded.Spec{Name: "uncoded", N: 8, K: 8}, 16},
	{InOrder, sim.Replicated{Copies: 2}, coded.Spec{Name: "replication", N: 8, K: 4}, 16},
	{Speculative, sim.Speculative{After: backupsAfter}, coded.Spec{Name: "replication", N: 8, K: 1}, 8},
	{InOrder, sim.MDS{K: 6}, coded.Spec{Name: "trigonometric", N: 8, K: 6}, 16},
	{Adaptive, sim.Adaptive{K: 6, Chunks: 16}, coded.Spec{Name: "trigonometric", N: 8, K: 6}, 16},
}

// The coordinator and its workers, in virtual time over a network in memory, take
// as long for a product as the simulator says, whatever the strategy and whoever
// is slow; and they give the right product. What happens at the same instant may
// be seen in either order, as it may by a real one.
func TestRoundsTakeAsLongAsSimulated(t *testing.T) {
	const rounds = 6
	for _, spec := range []string{"none", "shifted-exp=1,1", "slow:1@x=5", "some:2@x=2", "pareto=1,2"} {
		model, err := sim.ParseModel(spec, 8)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pacedStrategies {
			simulated, err := sim.Run(t.Context(), sim.Config{
				Job: sim.KOfN(8, 6), Strategy: p.sim, Model: model, Seed: 1, Rounds: rounds, Queue: 2,
			})
			if err != nil {
				t.Fatal(err)
			}
			var took float64
			synctest.Test(t, func(t *testing.T) { took = p.run(t, model, rounds) })
			if math.Abs(took-simulated.Mean) > 0.05*simulated.Mean {
				t.Errorf("%s, %s: a round takes %.4f, simulated %.4f, ideally %.4f", spec, p.sim.Name(), took, simulated.Mean, simulated.Ideal)
			}
		}
	}
}

// run returns the mean time of a round, in units of a full member's share.
func (p paced) run(t *testing.T, model sim.Model, rounds int) float64 {
	const batch, in, out = 16, 24, 48
	cl := newCluster(t, CoordinatorConfig{
		Slots: 8, Strategies: map[string]Strategy{"toy": p.strategy}, FirstDeadline: time.Hour, MinDeadline: time.Hour, MaxDeadline: time.Hour,
	})
	cl.start(0, 8, func(w *WorkerConfig) {
		w.Pace = 2 * batch * in * out / 6 / 1e9 // a sixth in a second
		w.Slow = func(i ProductInfo) float64 { return sim.Paces(model, 8, 1, i.Step)[i.Slot].Slowness }
	})
	l := toyLayer("toy", p.code, p.chunks, in, out)
	l.ByBatch = true
	m := newToyModel(l, 1)
	m.batch = batch
	cl.place(m)
	var took time.Duration
	for step := 1; step <= rounds; step++ {
		began := time.Now()
		if _, _, err := cl.product(m, coded.Forward, step, false); err != nil { // it checks the product
			t.Fatal(err)
		}
		took += time.Since(began)
	}
	cl.close()
	return took.Seconds() / float64(rounds)
}

// Layers that are cut by batch are trained like others: then the workers have the
// whole operand.
func TestTrainingByBatch(t *testing.T) {
	l := toyLayer("toy", trig64, 3, 12, 8)
	l.ByBatch = true
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newToyModel(l, 3)
	m.batch = 5 // chunks of 1, 2 and 2 rows
	cl.place(m)
	cl.train(m, 1, 4)
	if err := cl.fetched(m); err != nil {
		t.Error(err)
	}
	if _, _, err := cl.product(m, coded.Forward, 5, false); err != nil {
		t.Fatal(err)
	}
	m.batch = 2
	if _, _, err := cl.product(m, coded.Forward, 6, false); !errors.Is(err, coded.ErrTooFewRows) {
		t.Errorf("2 rows for 3 chunks: error %v, want %v", err, coded.ErrTooFewRows)
	}
}
