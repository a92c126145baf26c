package plan

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/sim"
)

// placed is a layer on the workers, with what its rounds need.
type placed struct {
	name     string
	code     *coded.Code
	chunks   int
	costs    costs
	strategy sim.Strategy
	work     float64 // of the whole product, in shards
}

// action is one thing that the coordinator does in a step: something of its own, or
// a product of a placed layer for which it waits, or an operand that it hands over.
type action struct {
	seconds float64
	layer   *placed // nil: none
	round   int     // of costs.rounds
	keep    bool    // dY is handed over, no result is wanted
	gather  bool    // the workers have both operands from then on
}

// cluster is the state of a simulated step: when the coordinator and the workers
// are free, and what the workers have still to do for their shards.
type cluster struct {
	Machines
	seed  uint64
	round uint64
	now   float64
	free  []float64
	owed  [][]chore // by worker, oldest first
}

// chore is an operation of a worker's shard, which nobody waits for but the next
// product of the layer.
type chore struct {
	layer   *placed
	arrives float64
	seconds float64
}

func newCluster(m Machines, seed uint64) *cluster {
	return &cluster{Machines: m.withDefaults(), seed: seed, free: make([]float64, len(m.Speeds)), owed: make([][]chore, len(m.Speeds))}
}

// step makes a step: its actions in order, and then the update of all layers.
func (c *cluster) step(ctx context.Context, actions []action) (seconds float64, err error) {
	began := c.now
	var layers []*placed
	for _, a := range actions {
		if a.layer == nil {
			c.now += a.seconds
			continue
		}
		if a.keep {
			c.handOver(a.layer.costs.keep)
		} else if err := c.product(ctx, a.layer, a.layer.costs.rounds[a.round]); err != nil {
			return 0, fmt.Errorf("plan: layer %s: %w", a.layer.name, err)
		}
		if a.gather {
			layers = append(layers, a.layer)
			c.owe(a.layer, a.layer.costs.gather, 0)
		}
	}
	for _, l := range layers {
		c.owe(l, 0, l.costs.apply)
	}
	return c.now - began, nil
}

// handOver sends an operand to all workers. They get it while the coordinator goes
// on, which has only made it a message.
func (c *cluster) handOver(bytes float64) { c.now += bytes / c.Combine }

// owe gives every worker a chore: flops and bytes of its optimiser.
func (c *cluster) owe(l *placed, flops, bytes float64) {
	for w, speed := range c.Speeds {
		seconds := c.Task + flops/speed + bytes/c.Memory
		c.owed[w] = append(c.owed[w], chore{l, c.now + c.Latency, seconds})
	}
}

// ready returns when a worker can begin with a product of a layer whose operand
// arrives at a time: it ends what it is at, and then does what the layer's shard
// lacks.
func (c *cluster) ready(w int, l *placed, arrives float64) float64 {
	for len(c.owed[w]) > 0 {
		first := c.owed[w][0]
		start := max(c.free[w], first.arrives)
		if start >= arrives {
			break
		}
		c.free[w] = start + first.seconds
		c.owed[w] = c.owed[w][1:]
	}
	at := max(c.free[w], arrives)
	c.owed[w] = slices.DeleteFunc(c.owed[w], func(o chore) bool {
		if o.layer == l {
			at = max(at, o.arrives) + o.seconds
		}
		return o.layer == l
	})
	return at
}

// product makes a round and waits for it.
func (c *cluster) product(ctx context.Context, l *placed, r round) error {
	n := l.code.N()
	sent := c.now + r.encode/c.Combine
	shard := func(w int) float64 { return r.flops/c.Speeds[w] + float64(l.chunks)*c.Task }
	unit := shard(0) // of time: that of a shard of the first worker
	model := sim.Together{c.Straggler}
	starts := make([]float64, n)
	for w := range n {
		starts[w] = c.ready(w, l, sent+c.Latency+float64(w+1)*r.send/c.Bandwidth)
		one := []int{w}
		model = append(model, sim.Slow{Workers: one, By: sim.Constant{X: shard(w) / unit}},
			sim.Delay{Workers: one, By: sim.Constant{X: (starts[w] - sent) / unit}})
	}
	c.round++
	s, err := sim.Run(ctx, sim.Config{
		Job: sim.Job{Workers: n, Work: l.work}, Strategy: l.strategyFor(r), Model: model, Seed: c.seed + c.round, Rounds: 1, Queue: c.Queue,
		Link: sim.Link{Latency: c.Latency / unit, Result: r.back * float64(n) / c.Bandwidth / unit},
	})
	if err != nil {
		return err
	}
	took := s.Rounds[0].Time * unit
	if math.IsInf(took, 1) {
		return fmt.Errorf("too few workers are left in the model %v: the product never ends", c.Straggler)
	}
	c.now = sent + took
	for w := range n {
		c.free[w] = max(starts[w], c.now)
	}
	c.now += r.decode / c.Combine
	return nil
}

// strategyFor is the pull of chunks until the code decodes, or until so many answers
// are there as the round needs.
func (l *placed) strategyFor(r round) sim.Strategy {
	if r.needed > 0 {
		return scaled{sim.Adaptive{K: r.needed, Chunks: l.chunks}, float64(r.needed) / l.work}
	}
	return sim.Coded{Code: l.code, Chunks: l.chunks}
}

// scaled is a strategy for more work than the job has.
type scaled struct {
	sim.Strategy
	times float64
}

func (s scaled) Plan(j sim.Job) (*sim.Plan, error) {
	j.Work *= s.times
	return s.Strategy.Plan(j)
}

// timing is how long steps take.
type timing struct{ mean, p99 float64 }

// predict makes steps, the first two of which find an unusual cluster and do not
// count. Without stragglers one is like the other.
func predict(ctx context.Context, m Machines, actions []action, steps int, seed uint64) (timing, error) {
	const warmUp = 2
	if _, calm := m.withDefaults().Straggler.(sim.None); calm {
		steps = 1
	}
	c := newCluster(m, seed)
	var times []float64
	var sum float64
	for i := range warmUp + steps {
		t, err := c.step(ctx, actions)
		if err != nil {
			return timing{}, err
		}
		if i >= warmUp {
			times = append(times, t)
			sum += t
		}
	}
	slices.Sort(times)
	return timing{sum / float64(steps), sim.Percentile(times, 0.99)}, nil
}
