package plan_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/dist/sim"
)

// machinesOf draws a cluster.
func machinesOf(t *rapid.T) plan.Machines {
	from := func(name string, of ...float64) float64 { return rapid.SampledFrom(of).Draw(t, name) }
	n := rapid.IntRange(2, 7).Draw(t, "workers")
	speeds := make([]float64, n)
	for w := range speeds {
		speeds[w] = from("speed", 1e9, 5e9, 20e9)
	}
	m := plan.LAN(from("local", 5e9, 100e9), speeds...)
	m.Bandwidth, m.Latency, m.Message = from("bandwidth", 1e7, 1e9), from("latency", 0, 1e-4, 1e-2), from("message", 0, 3e-5, 1e-3)
	for w := range n {
		if rapid.Bool().Draw(t, "beside") {
			m.Beside = append(m.Beside, w)
		}
	}
	return m
}

// question places two layers in one way.
func question(t *rapid.T, m plan.Machines) plan.Question {
	fc, head := wide, wide
	fc.In, fc.X, fc.Weights, fc.Flops, fc.First = 784, 784, 784*4096, 2*784*4096, true
	head.Name, head.Out, head.Y, head.Weights, head.Flops = "head", 100, 100, 4096*100, 2*4096*100
	placement := rapid.SampledFrom(plan.Placements()).Draw(t, "placement")
	codes := []string{"uncoded", "trigonometric"}
	if placement == plan.Shipped {
		codes = []string{"ortho-polynomial"}
	}
	return plan.Question{
		Machines: m, Products: []plan.Product{fc, head}, Batch: 64, Rest: 1e-3, Seed: 1,
		Limits: only(placement, rapid.SampledFrom(codes).Draw(t, "code"), (len(m.Speeds)+1)/2),
	}
}

func step(t *rapid.T, q plan.Question) *plan.Answer {
	a, err := plan.Make(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A cluster that is worse in one way never makes a placed step much faster. It may a
// little: pulling is greedy, and of two orders of chunks the one that begins worse may
// end better (R. L. Graham, Bounds on multiprocessing timing anomalies, 1969), by no more
// than a chunk of each round.
func TestWorseMachinesAreNotFaster(t *testing.T) {
	worse := map[string]func(*plan.Machines){
		"slower workers": func(m *plan.Machines) {
			m.Speeds = slices.Clone(m.Speeds)
			for w := range m.Speeds {
				m.Speeds[w] /= 2
			}
		},
		"more latency":                 func(m *plan.Machines) { m.Latency += 5e-3 },
		"dearer messages":              func(m *plan.Machines) { m.Message += 1e-4 },
		"less bandwidth":               func(m *plan.Machines) { m.Bandwidth /= 3 },
		"slower memory of the workers": func(m *plan.Machines) { m.Memory /= 10 },
		"slower combinations":          func(m *plan.Machines) { m.Combine /= 10 },
		"all workers beside": func(m *plan.Machines) {
			m.Beside = nil
			for w := range m.Speeds {
				m.Beside = append(m.Beside, w)
			}
		},
	}
	names := slices.Sorted(maps.Keys(worse))
	rapid.Check(t, func(t *rapid.T) {
		q := question(t, machinesOf(t))
		good := step(t, q)
		name := rapid.SampledFrom(names).Draw(t, "worse")
		worse[name](&q.Machines)
		if bad := step(t, q); bad.StepMS < 0.9*good.StepMS {
			t.Errorf("%s: %v ms, before it %v", name, bad.StepMS, good.StepMS)
		}
	})
}

// What a step waits for is never less than nothing, and adds up to the step; with every layer
// local it is the coordinator's own work to the bit.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machinesOf(t)
		m.Straggler = rapid.SampledFrom([]sim.Model{nil, sim.Slow{By: sim.ShiftedExp{A: 1, Mean: 1}}}).Draw(t, "straggler")
		q := question(t, m)
		q.Steps = 5
		a := step(t, q)
		check := func(what string, p plan.Parts, want float64) {
			if math.Abs(p.Sum()-want) > 1e-9*want || min(p.Messages, p.Stragglers, p.Updates, p.Coding, p.Products, p.Local) < 0 {
				t.Errorf("%s: %+v, want %v in all", what, p, want)
			}
			if m.Straggler == nil && p.Stragglers != 0 {
				t.Errorf("%s: %+v without stragglers", what, p)
			}
		}
		check("step", a.Parts, a.StepMS)
		here := true
		for _, l := range a.Layers {
			here = here && l.Chosen.Placement == plan.Local
			if l.Chosen.Parts != nil {
				check(l.Layer, *l.Chosen.Parts, l.Chosen.StepMS)
			}
		}
		if p := a.Parts; here && p.Sum() != p.Local {
			t.Errorf("%+v of layers that are all local", p)
		}
	})
}

// Each part is what was put into it.
func TestPartsOnPaper(t *testing.T) {
	const flops, speed, x = 64 * 2 << 24, 20e9, 4 * 64 * 4096
	m := free(speed, workers(8, speed)...)
	m.Latency, m.Combine, m.Memory = 1e-3, 1e9, 1e9
	q := plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: 1, Rest: 3e-3, Limits: only(plan.Resident, "uncoded", 8)}
	p := ask(t, q).Parts
	near(t, "own work", p.Local, 1000*q.Rest, 1e-9)
	near(t, "products", p.Products, 1000*2*flops/speed/8, 1e-9)
	near(t, "coding", p.Coding, 1000*2*4*x/m.Combine, 1e-6) // two operands copied, two results decoded
	// Each way of the first, and of the second; updates hide nothing but a part of the rest.
	if p.Messages < 1000*3*m.Latency || p.Messages > 1000*5*m.Latency {
		t.Errorf("messages take %v ms, want that of four or so", p.Messages)
	}
	near(t, "updates", p.Updates, 1000*(2*flops/speed/8+2*20*(1<<24)/8/m.Memory), 0.1)
}

// A coordinator that is busy with every message bounds a round, however fast the workers:
// it gives out n operands and takes k chunks of answers each.
func TestMessagesBoundARound(t *testing.T) {
	for _, n := range []int{1, 4, 16} {
		m := free(1e15, workers(n, 1e15)...)
		m.Message = 1e-4
		first := wide
		first.First = true
		a := ask(t, plan.Question{Machines: m, Products: []plan.Product{first}, Batch: 64, Chunks: 3, Limits: only(plan.Resident, "uncoded", n)})
		// X, its answers, dY, and the update, which all leave before the next X does.
		near(t, fmt.Sprintf("%d workers", n), a.StepMS, 1000*m.Message*float64(n+3*n+2*n), 0.002)
		near(t, fmt.Sprintf("%d workers: messages", n), a.Parts.Messages, a.StepMS, 0.01)
	}
}

// Workers beside the coordinator have no more of its machine than there is: no placement
// pays then, at no speed of theirs.
func TestWorkersBesideTheCoordinatorBringNothing(t *testing.T) {
	const speed = 20e9
	m := free(speed, workers(8, speed)...)
	q := plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: 8}
	if c := ask(t, q).Layers[0].Chosen; c.Placement != plan.Resident {
		t.Fatalf("machines of their own: %+v", c)
	}
	q.Machines.Beside = []int{0, 1, 2, 3, 4, 5, 6, 7}
	a := ask(t, q)
	if c := a.Layers[0].Chosen; c.Placement != plan.Local {
		t.Errorf("on one machine: %+v", c)
	}
	for _, c := range a.Layers[0].Candidates {
		if c.Placement != plan.Local && c.BreakEvenSpeed != 0 {
			t.Errorf("workers of %v of the coordinator's speed pay: %+v", c.BreakEvenSpeed, c)
		}
	}
	// Those that take little of it are as fast as they are alone, and slow the coordinator
	// by what they take: it has 0.9 left while they are at their updates.
	rest := 0.1
	slow := free(speed, workers(8, speed/80)...)
	q = plan.Question{Machines: slow, Products: []plan.Product{wide}, Batch: 64, Rest: rest, Limits: only(plan.Resident, "uncoded", 8)}
	apart := ask(t, q)
	q.Machines.Beside = []int{0, 1, 2, 3, 4, 5, 6, 7}
	near(t, "own work beside slow workers", ask(t, q).StepMS-apart.StepMS, 0, 0.1*1000*rest)
}

// Stragglers cost uncoded more than a code with redundancy, the more so the slower they are.
func TestStragglersNeverHelpUncodedMore(t *testing.T) {
	cost := func(code string, k int, by sim.Model) float64 {
		m := alone(1e9, workers(8, 10e9)...)
		m.Straggler = by
		return ask(t, plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: 12, Steps: 50, Seed: 2, Limits: only(plan.Resident, code, k)}).StepMS
	}
	calm := cost("trigonometric", 6, nil) - cost("uncoded", 8, nil)
	if calm < 0 {
		t.Errorf("without stragglers redundancy gains %v ms", -calm)
	}
	before := -calm
	for _, mean := range []float64{0.5, 1, 2, 4} {
		by := sim.Slow{By: sim.ShiftedExp{A: 1, Mean: mean}}
		gain := cost("uncoded", 8, by) - cost("trigonometric", 6, by)
		if gain < before {
			t.Errorf("stragglers of a mean of %v: a code gains %v ms, %v with fewer", mean, gain, before)
		}
		before = gain
	}
	if before <= 0 {
		t.Error("a code never gains anything")
	}
}

// Where one worker is just slower than the break-even, the code is faster than uncoded, and
// slower where it is not.
func TestBreakEvenAgainstUncoded(t *testing.T) {
	q := plan.Question{Machines: alone(1e9, workers(8, 10e9)...), Products: []plan.Product{wide}, Batch: 64, Chunks: 12}
	step := func(code string, k int, times float64) plan.Candidate {
		by := q
		by.Limits = only(plan.Resident, code, k)
		by.Machines.Speeds = workers(8, 10e9)
		by.Machines.Speeds[0] /= times
		return ask(t, by).Layers[0].Chosen
	}
	for _, k := range []int{4, 6, 7} {
		times := step("trigonometric", k, 1).BreakEvenStraggler
		if times <= 1 || times > 10 {
			t.Errorf("any %d of 8 pay from a worker of 1/%v of the speed on", k, times)
		}
		for by, faster := range map[float64]bool{0.97: false, 1.03: true} {
			with, without := step("trigonometric", k, max(1, by*times)), step("uncoded", 8, max(1, by*times))
			if (with.StepMS < without.StepMS) != faster {
				t.Errorf("any %d of 8, a worker %v times slower: %v ms, uncoded %v", k, by*times, with.StepMS, without.StepMS)
			}
		}
	}
	if c := step("uncoded", 8, 1); c.BreakEvenStraggler != 0 {
		t.Errorf("uncoded beats itself: %+v", c)
	}
}

// A batch whose gradients are made here, in no time, is two rounds: the prediction is what
// dist/sim says of them by itself, under other draws of the same stragglers.
func TestAgreesWithSim(t *testing.T) {
	const flops, speed, n, chunks = 64 * 2 << 24, 20e9, 8, 8
	for _, c := range []struct {
		code             string
		k                int
		straggler        string
		latency, message float64
	}{
		{"uncoded", 8, "none", 0, 0},
		{"uncoded", 8, "slow:*@shifted-exp=1,1", 1e-3, 0},
		{"trigonometric", 6, "none", 1e-3, 1e-4},
		{"trigonometric", 6, "slow:*@shifted-exp=1,1", 0, 1e-4},
		{"trigonometric", 4, "slow:*@pareto=1,2", 1e-3, 1e-4},
		{"trigonometric", 5, "slow:1+3@x=5", 1e-3, 1e-4},
	} {
		model, err := sim.ParseModel(c.straggler, n)
		if err != nil {
			t.Fatal(err)
		}
		m := free(1e15, workers(n, speed)...)
		m.Latency, m.Message, m.Straggler = c.latency, c.message, model
		q := plan.Question{Machines: m, Products: []plan.Product{wide}, Batch: 64, Chunks: chunks, Steps: 400, Seed: 3, Limits: only(plan.Batch, c.code, c.k)}
		candidates := ask(t, q).Layers[0].Candidates
		i := slices.IndexFunc(candidates, func(x plan.Candidate) bool { return x.Placement == plan.Batch && x.Gradient == 0 })
		unit := math.Ceil(64/float64(c.k)) / 64 * flops / speed // of time: a shard's
		s, err := sim.Run(t.Context(), sim.Config{
			Job: sim.KOfN(n, c.k), Strategy: sim.Adaptive{K: c.k, Chunks: chunks}, Model: model, Seed: 77, Rounds: 800, Queue: 2,
			Link: sim.Link{Latency: c.latency / unit, Message: c.message / unit},
		})
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("%+v", c), candidates[i].StepMS, 1000*2*s.Mean*unit, 0.04)
	}
}
