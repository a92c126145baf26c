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
	here     float64 // flop/s of the coordinator on this layer
}

// action is one thing that the coordinator does in a step: something of its own, or one
// for a placed layer.
type action struct {
	seconds float64
	layer   *placed // nil: something of its own
	do      deed
	round   int  // of costs.rounds
	gather  bool // the workers have both operands from then on
}

// deed is what the coordinator does for a placed layer.
type deed uint8

const (
	start deed = iota // encode the operands of a round and send them
	await             // wait for a round's results and decode
	keep              // hand dY over, of which no result is wanted
	ship              // hand the new weights over
)

// cluster is the state of a simulated step: when the coordinator and the workers
// are free, and what the workers have still to do for their shards.
type cluster struct {
	Machines
	seed  uint64
	round uint64
	now   float64
	link  float64 // when the coordinator's link is free: what is sent leaves one after another
	free  []float64
	owed  [][]chore            // by worker, oldest first
	open  map[inFlight]float64 // when the rounds that were started end
}

// inFlight names a round of a layer.
type inFlight struct {
	layer *placed
	round int
}

// chore is an operation of a worker's shard, which nobody waits for but the next
// product of the layer.
type chore struct {
	layer   *placed
	arrives float64
	seconds float64
}

func newCluster(m Machines, seed uint64) *cluster {
	return &cluster{Machines: m.withDefaults().shared(), seed: seed, free: make([]float64, len(m.Speeds)), owed: make([][]chore, len(m.Speeds)), open: map[inFlight]float64{}}
}

// step makes a step: its actions in order, and then the update of all layers.
func (c *cluster) step(ctx context.Context, actions []action) (seconds float64, err error) {
	began := c.now
	var layers []*placed
	for _, a := range actions {
		if a.layer == nil {
			c.spend(a.seconds)
			continue
		}
		if err := c.act(ctx, a); err != nil {
			return 0, fmt.Errorf("plan: layer %s: %w", a.layer.name, err)
		}
		if a.gather {
			layers = append(layers, a.layer)
			c.owe(a.layer, a.layer.costs.gather, 0)
		}
	}
	if len(layers) > 0 {
		c.send(0) // one message to each worker has the updates of all
	}
	for _, l := range layers {
		c.owe(l, 0, l.costs.apply)
	}
	return c.now - began, nil
}

// act does something for a placed layer.
func (c *cluster) act(ctx context.Context, a action) error {
	switch a.do {
	case start:
		return c.start(ctx, a.layer, a.round)
	case await:
		c.now = max(c.now, c.open[inFlight{a.layer, a.round}])
		c.spend(a.layer.costs.rounds[a.round].decode / c.Combine)
	case keep:
		c.handOver(a.layer.costs.keep)
	case ship:
		c.handOver(a.layer.costs.ship)
	}
	return nil
}

// handOver sends an operand to all workers. They get it while the coordinator goes
// on, which has only made a copy of it; what is sent next has to wait for it.
func (c *cluster) handOver(bytes float64) {
	c.spend(copied(bytes) / c.Combine)
	c.send(bytes)
}

// send puts so many bytes for each worker on the link, and returns when the first one's
// begin to leave.
func (c *cluster) send(bytes float64) (begins float64) {
	begins = max(c.now, c.link)
	c.link = begins + float64(len(c.Speeds))*c.passes(bytes)
	return begins
}

// passes is the time in which a message of so many bytes leaves.
func (c *cluster) passes(bytes float64) float64 { return c.Message + bytes/c.Bandwidth }

// owe gives every worker a chore: flops and bytes of its optimiser.
func (c *cluster) owe(l *placed, flops, bytes float64) {
	if c.fixed {
		return
	}
	for w, speed := range c.Speeds {
		seconds := c.Task + flops/speed + bytes/c.Memory
		c.owed[w] = append(c.owed[w], chore{l, max(c.now, c.link) + c.Latency, seconds})
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

// start sends the operands of a round. The coordinator goes on while they travel.
func (c *cluster) start(ctx context.Context, l *placed, number int) error {
	n, r := l.code.N(), l.costs.rounds[number]
	c.spend(r.encode / c.Combine)
	sent := c.send(r.sent(n, l.code.Threshold()) / float64(n))
	shard := func(w int) float64 { return r.flops/c.Speeds[w] + float64(l.chunks)*c.Task }
	unit := shard(0) // of time: that of a shard of the first worker
	model := sim.Together{c.Straggler}
	starts := make([]float64, n)
	for w := range n {
		starts[w] = c.ready(w, l, sent+c.Latency+float64(w+1)*c.passes(r.first()))
		one := []int{w}
		model = append(model, sim.Slow{Workers: one, By: sim.Constant{X: shard(w) / unit}},
			sim.Delay{Workers: one, By: sim.Constant{X: (starts[w] - sent) / unit}})
	}
	c.round++
	s, err := sim.Run(ctx, sim.Config{
		Job: sim.Job{Workers: n, Work: l.work}, Strategy: l.strategyFor(r), Model: model, Seed: c.seed + c.round, Rounds: 1, Queue: c.Queue,
		Link: sim.Link{Latency: c.Latency / unit, Result: r.back * float64(n) / c.Bandwidth / unit, Message: c.Message / unit},
	})
	if err != nil {
		return err
	}
	took := s.Rounds[0].Time * unit
	if math.IsInf(took, 1) {
		return fmt.Errorf("too few workers are left in the model %v: the product never ends", c.Straggler)
	}
	ends := sent + took
	for w := range n {
		c.free[w] = max(starts[w], ends-c.Latency) // its last result was on its way
	}
	c.open[inFlight{l, number}] = ends
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
