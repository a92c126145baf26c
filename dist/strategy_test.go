package dist

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
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
	{Speculative, sim.Speculative{}, coded.Spec{Name: "replication", N: 8, K: 1}, 8},
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
			var took []float64
			var stats Stats
			slow := func(c *WorkerConfig) {
				c.Slow = func(i ProductInfo) float64 { return sim.Paces(model, 8, 1, i.Step)[i.Slot].Slowness }
			}
			synctest.Test(t, func(t *testing.T) { took, stats = p.run(t, rounds, slow, nil) })
			if math.Abs(mean(took)-simulated.Mean) > 0.05*simulated.Mean {
				t.Errorf("%s, %s: a round takes %.4f, simulated %.4f, ideally %.4f", spec, p.sim.Name(), mean(took), simulated.Mean, simulated.Ideal)
			}
			// Which copies are of use may be chance if they come at the same instant.
			if wasted := stats.WastedFraction(); p.strategy != InOrder && math.Abs(wasted-simulated.Wasted) > 0.02 {
				t.Errorf("%s, %s: %.4f of the work is wasted, simulated %.4f", spec, p.sim.Name(), wasted, simulated.Wasted)
			}
		}
	}
}

// run returns the times of rounds, in units of a full member's share, and what became
// of the work. meanwhile, if not nil, runs beside them.
func (p paced) run(t *testing.T, rounds int, change func(*WorkerConfig), meanwhile func(*cluster)) (took []float64, stats Stats) {
	const batch, in, out = 16, 24, 48
	cl := newCluster(t, CoordinatorConfig{
		Slots: 8, Strategies: map[string]Strategy{"toy": p.strategy}, FirstDeadline: time.Hour, MinDeadline: time.Hour, MaxDeadline: time.Hour,
	})
	cl.start(0, 8, func(w *WorkerConfig) { w.Pace = 2 * batch * in * out / 6 / 1e9 }, change) // a sixth in a second
	l := toyLayer("toy", p.code, p.chunks, in, out)
	l.ByBatch = true
	m := newToyModel(l, 1)
	m.batch = batch
	cl.place(m)
	var side sync.WaitGroup
	if meanwhile != nil {
		side.Go(func() { meanwhile(cl) })
	}
	for step := 1; step <= rounds; step++ {
		began := time.Now()
		if _, _, err := cl.product(m, coded.Forward, step, false); err != nil { // it checks the product
			t.Fatal(err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	side.Wait()
	synctest.Wait() // who has been called off tells what it had done
	stats = cl.c.Stats()
	cl.close()
	return took, stats
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// busyShard is a toyShard whose products keep the processor busy for a time, of
// which it can give up the rest.
type busyShard struct {
	*toyShard
	takes time.Duration
}

func (s busyShard) MultiplyUntil(stop <-chan struct{}, p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	const strips = 16
	for i := range strips {
		select {
		case <-stop:
			return coded.Tensor{}, &coded.StoppedError{Done: float64(i) / strips}
		default:
			time.Sleep(s.takes / strips)
		}
	}
	return s.Multiply(p, x, chunk)
}

// busy makes the workers' shards busy for so much of a full member's share.
func busy(part float64) func(*WorkerConfig) {
	return func(w *WorkerConfig) {
		w.Handlers = map[string]coded.Factory{toyKind: func(l coded.Layer, slot int) (coded.Shard, error) {
			s, err := newToyShard(l, slot)
			if err != nil {
				return nil, err
			}
			return busyShard{s.(*toyShard), time.Duration(part * float64(time.Second))}, nil
		}}
	}
}

// given are the paces of each round.
type given [][]sim.Pace

func (g given) Apply(paces []sim.Pace, _ uint64, round int) { copy(paces, g[round-1]) }
func (given) String() string                                { return "given" }

// Backup tasks repeat whole shares, which are arithmetic for a while. Nobody begins
// one for a worker that is late by chance; those that are called off, since nobody is
// really late, do not hold the next round up.
func TestBackupsThatAreCalledOff(t *testing.T) {
	const rounds = 6
	speculative := pacedStrategies[2]
	for step, backups := range map[float64]bool{0.02: false, 0.04: true} { // a share is late at 1.05
		paces := make(given, rounds)
		slow := func(slot int) float64 { return 1 + step*float64(max(0, slot-5)) }
		for r := range paces {
			for slot := range 8 {
				paces[r] = append(paces[r], sim.Pace{Slowness: slow(slot)})
			}
		}
		var took []float64
		var stats Stats
		synctest.Test(t, func(t *testing.T) {
			took, stats = speculative.run(t, rounds, func(w *WorkerConfig) {
				busy(0.2)(w)
				w.Slow = func(i ProductInfo) float64 { return slow(i.Slot) }
			}, nil)
		})
		speculative.compare(t, paces, took)
		if wasted := stats.WastedFraction(); (wasted > 0) != backups || wasted > 0.01 {
			t.Errorf("the slowest is %v late: %v of the work is wasted; there are to be backups: %v", 2*step, wasted, backups)
		}
	}
}

// A worker is frozen for some rounds, in which others do its share as well.
func TestBackupsOfAFrozenWorker(t *testing.T) {
	const (
		rounds = 6
		from   = 1.0
		to     = 4.0
	)
	speculative := pacedStrategies[2]
	var took []float64
	synctest.Test(t, func(t *testing.T) {
		took, _ = speculative.run(t, rounds, busy(0.2), func(cl *cluster) {
			seconds := func(s float64) { time.Sleep(time.Duration(s * float64(time.Second))) }
			seconds(from)
			cl.freeze("worker-3")
			seconds(to - from)
			cl.thaw("worker-3")
		})
	})
	paces, began := make(given, rounds), 0.0
	for r := range paces {
		paces[r] = slices.Repeat([]sim.Pace{{Slowness: 1}}, 8)
		frozen := &paces[r][2]
		switch {
		case began >= to:
		case began >= from:
			*frozen = sim.Pace{Slowness: math.Inf(1), Changes: []sim.Change{{At: to - began, Slowness: 1}}}
		default:
			frozen.Changes = []sim.Change{{At: from - began, Slowness: math.Inf(1)}, {At: to - began, Slowness: 1}}
		}
		began += took[r]
	}
	speculative.compare(t, paces, took)
}

// compare holds the times of rounds against those that the simulator gives.
func (p paced) compare(t *testing.T, paces given, took []float64) {
	t.Helper()
	simulated, err := sim.Run(t.Context(), sim.Config{Job: sim.KOfN(8, 6), Strategy: p.sim, Model: paces, Rounds: len(took), Queue: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range simulated.Rounds {
		if math.Abs(took[i]-r.Time) > 0.05*r.Time {
			t.Errorf("%s: round %d takes %.4f, simulated %.4f, ideally %.4f", p.sim.Name(), i+1, took[i], r.Time, r.Ideal)
		}
	}
}

// timedShard takes some time for every chunk, and tells its slot and chunk.
type timedShard struct {
	coded.Shard
	slot   int
	chunks float64
	chunk  time.Duration // at a pace of 1 GFLOP/s
}

func (s timedShard) Flops(coded.Product, []int) float64 { return s.chunks * float64(s.chunk) }

func (s timedShard) Multiply(_ coded.Product, _ coded.Tensor, chunk int) (coded.Tensor, error) {
	return coded.Tensor{Shape: []int{1, 2}, Data: []float32{float32(s.slot), float32(chunk)}}, nil
}

// Where all results decode together, or some workers are ignored, a round takes as
// long as simulated too, and ends with answers that suffice.
func TestOtherReadinessTakesAsLongAsSimulated(t *testing.T) {
	const rounds = 6
	code := func(s coded.Spec) *coded.Code { return codeOf(t, s) }
	partial := coded.Spec{Name: "universally-decodable", N: 8, K: 12, Load: 2}
	rateless := coded.Spec{Name: "lt", N: 8, K: 32, Load: 8, Seed: 1}
	layered := coded.Spec{Name: "hierarchical", N: 8, K: 6, Groups: 5}
	for _, spec := range []string{"none", "shifted-exp=1,1", "some:2@x=2"} {
		model, err := sim.ParseModel(spec, 8)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []paced{
			{Ignoring, sim.Ignore{Drop: 2}, coded.Spec{Name: "uncoded", N: 8, K: 8}, 16},
			{Joint, sim.Partial{K: 6, Chunks: 2}, partial, 2},
			{Joint, sim.Coded{Code: code(rateless)}, rateless, 8},
			{Joint, sim.Coded{Code: code(layered)}, layered, 5},
		} {
			simulated, err := sim.Run(t.Context(), sim.Config{Job: sim.KOfN(8, 6), Strategy: p.sim, Model: model, Seed: 1, Rounds: rounds, Queue: 2})
			if err != nil {
				t.Fatal(err)
			}
			var took float64
			synctest.Test(t, func(t *testing.T) { took = mean(p.runTimed(t, model, rounds)) })
			if math.Abs(took-simulated.Mean) > 0.05*simulated.Mean {
				t.Errorf("%s, %s: a round takes %.4f, simulated %.4f, ideally %.4f", spec, p.code, took, simulated.Mean, simulated.Ideal)
			}
		}
	}
}

// runTimed is run with shards that compute nothing.
func (p paced) runTimed(t *testing.T, model sim.Model, rounds int) (took []float64) {
	code := codeOf(t, p.code)
	work := 6 * code.TaskLoads(0).Compute // in sixths of the product, of a slot
	chunk := time.Duration(work / float64(p.chunks) * float64(time.Second))
	cl := newCluster(t, CoordinatorConfig{
		Slots: 8, Strategies: map[string]Strategy{"timed": p.strategy}, FirstDeadline: time.Hour, MinDeadline: time.Hour, MaxDeadline: time.Hour,
	})
	cl.start(0, 8, func(w *WorkerConfig) {
		w.Pace = 1
		w.Slow = func(i ProductInfo) float64 { return sim.Paces(model, 8, 1, i.Step)[i.Slot].Slowness }
		w.Handlers = map[string]coded.Factory{"timed": func(_ coded.Layer, slot int) (coded.Shard, error) {
			toy, err := newToyShard(toyLayer("timed", coded.Spec{Name: "replication", N: 8, K: 1}, 1, 1, 1), slot)
			return timedShard{toy, slot, float64(p.chunks), chunk}, err
		}}
	})
	layer := coded.Layer{Name: "timed", Kind: "timed", Code: p.code, Chunks: p.chunks}
	state := func(int) ([]coded.Tensor, error) {
		return []coded.Tensor{coded.NewTensor(1, 1), coded.NewTensor(1, 1)}, nil
	}
	if err := cl.c.Place(cl.ctx(), layer, state); err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= rounds; step++ {
		began := time.Now()
		r := coded.Round{Layer: "timed", Product: coded.Forward, Step: step, Operand: coded.NewTensor(1, 1)}
		pending, err := cl.c.Start(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := pending.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began).Seconds())
		p.suffice(t, code, answers)
		pending.Release()
	}
	cl.close()
	return took
}

// suffice checks the answers of a round.
func (p paced) suffice(t *testing.T, code *coded.Code, answers [][]coded.Answer) {
	t.Helper()
	single, err := code.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	together := coded.NewRankTracker(single)
	for chunk, list := range answers {
		if p.strategy == Ignoring && len(list) != 6 {
			t.Errorf("chunk %d has %d answers, want 6", chunk, len(list))
		}
		for _, a := range list {
			if want := []float32{float32(a.Slot), float32(chunk)}; !slices.Equal(a.Result.Data, want) {
				t.Errorf("answer of slot %d for chunk %d is %v", a.Slot, chunk, a.Result.Data)
			}
			if p.strategy == Joint {
				together.Add(code.Chunk(a.Slot, chunk))
			}
		}
	}
	if p.strategy == Joint && !together.Ready() {
		t.Errorf("%d answers do not decode", together.Count())
	}
}

// A strategy is refused for a layer that it does not fit.
func TestJointLayersAreChecked(t *testing.T) {
	cl := newCluster(t, CoordinatorConfig{Slots: 4, Strategies: map[string]Strategy{"a": Joint}})
	spec := coded.Spec{Name: "universally-decodable", N: 4, K: 4, Load: 2}
	none := func(int) ([]coded.Tensor, error) { return nil, nil }
	for want, l := range map[string]coded.Layer{
		"has 2 results":          {Name: "a", Code: spec, Chunks: 3},
		"cannot be cut by batch": {Name: "a", Code: spec, Chunks: 2, ByBatch: true},
	} {
		if err := cl.c.Place(cl.ctx(), l, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", l, err, want)
		}
	}
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
