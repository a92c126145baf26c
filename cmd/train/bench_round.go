package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// roundFlags are the flags of the round benchmark alone.
type roundFlags struct {
	Trace string `placeholder:"FILE" help:"Write how fast the workers were in every round, a run for each row, as --straggler trace=FILE,run=N reads it." group:"Rounds"`
}

// roundRow is a strategy under stragglers, over worker processes. A round lasts
// from the operand to the decoded result.
type roundRow struct {
	System      string  `json:"system"`
	Bench       string  `json:"bench"`
	Strategy    string  `json:"strategy"`
	Straggler   string  `json:"straggler"`
	N           int     `json:"n"`
	K           int     `json:"k"`
	Chunks      int     `json:"chunks"`
	Rounds      int     `json:"rounds"`
	StepMSMean  float64 `json:"step_ms_mean"`
	StepMSP99   float64 `json:"step_ms_p99"`
	IdealMS     float64 `json:"ideal_ms"`
	Ratio       float64 `json:"ratio"`
	RatioMedian float64 `json:"ratio_median"` // over the rounds
	WastedWork  float64 `json:"wasted_work"`
	Error       float64 `json:"error"`     // squared, over the product's square
	SimRatio    float64 `json:"sim_ratio"` // of the same rounds in virtual time, without encoding, transport and decoding
	SimWasted   float64 `json:"sim_wasted"`
	Seed        uint64  `json:"seed"`
}

// What is computed in a round if no flag says otherwise: 2048 x 2048 weights and
// 256 rows, by workers of 2 GFLOP/s.
const (
	roundFeatures = 2048
	roundBatch    = 256
	roundPace     = 2
	roundRounds   = 20
	roundChunks   = 48
)

// roundBench is a cluster that holds the product once for each strategy.
type roundBench struct {
	b        *benchCmd
	rounds   int
	cases    []roundCase
	cluster  *cluster
	unit     time.Duration // for the share of a full member, at the workers' pace
	config   shard.LinearConfig
	x, y     coded.Tensor
	want     []float32 // the product
	traces   *sim.TraceWriter
	runs     int // in traces
	products []*roundProduct
}

// roundProduct is the product as a strategy computes it.
type roundProduct struct {
	placedLinear
	socketed
	sim     sim.Strategy
	forward productDecoder
	rounds  int
	errors  float64 // summed
}

func benchRound(ctx context.Context, b *benchCmd, out rows) (err error) {
	r := &roundBench{b: b, rounds: cmp.Or(b.Rounds, roundRounds), config: shard.LinearConfig{In: cmp.Or(b.In, roundFeatures), Out: cmp.Or(b.Outputs, roundFeatures)}}
	if err := r.prepare(); err != nil {
		return usageError{err}
	}
	dir, err := os.MkdirTemp("", "coda-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cluster.close(), os.RemoveAll(dir)) }()
	done, err := r.openTrace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := r.start(ctx, dir); err != nil {
		return err
	}
	for _, p := range r.products {
		if err := r.place(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.sim.Name(), err)
		}
	}
	for i := range r.cases {
		for _, p := range r.products {
			row, err := r.measure(ctx, i, p)
			if err != nil {
				return fmt.Errorf("--straggler %s, %s: %w", r.cases[i].spec, p.sim.Name(), err)
			}
			if err := out(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare reads the flags and makes the operands.
func (r *roundBench) prepare() error {
	specs := r.b.Straggler
	if len(specs) == 0 {
		specs = append(slices.Clone(defaultStragglers), defaultFreeze)
	}
	for _, spec := range specs {
		c, err := newRoundCase(spec, r.b.Workers)
		if err != nil {
			return fmt.Errorf("--straggler %q: %w", spec, err)
		}
		r.cases = append(r.cases, c)
	}
	chunks := r.b.Chunks
	if len(chunks) == 0 {
		chunks = []int{roundChunks}
	}
	strategies, err := r.b.chosenOf(slices.DeleteFunc(r.b.strategies(chunks), func(s sim.Strategy) bool {
		_, known := overSockets(s, r.b.Workers, r.b.K, chunks[0])
		return !known
	}))
	if err != nil {
		return err
	}
	for i, s := range strategies {
		p, err := r.product(fmt.Sprintf("round-%d", i), s, chunks[0])
		if err != nil {
			return err
		}
		r.products = append(r.products, p)
	}
	batch := cmp.Or(r.b.Batch, roundBatch)
	rng := rand.New(rand.NewPCG(1, 3))
	r.x = matrix(batch, r.config.In, randomSlice(rng, batch*r.config.In))
	r.y = coded.NewTensor(batch, r.config.Out)
	r.want = make([]float32, len(r.y.Data))
	flops := 2 * float64(batch) * float64(r.config.In) * float64(r.config.Out) / float64(r.b.K)
	r.unit = time.Duration(flops / r.pace())
	return nil
}

func (r *roundBench) pace() float64 {
	if r.b.Pace == nil || *r.b.Pace == 0 {
		return roundPace
	}
	return *r.b.Pace
}

// product describes the layer of a strategy.
func (r *roundBench) product(name string, s sim.Strategy, chunks int) (_ *roundProduct, err error) {
	p := &roundProduct{sim: s, rounds: r.rounds}
	if s == (sim.Local{}) {
		p.rounds = (r.rounds + 3) / 4 // each takes as long as all others together
	}
	p.socketed, _ = overSockets(s, r.b.Workers, r.b.K, chunks)
	if p.placedLinear, err = newPlacedLinear(name, r.config, p.spec, p.chunks); err != nil {
		return nil, err
	}
	p.layer.ByBatch = p.scheduling != dist.Joint
	p.forward, err = p.forwardBy(p.scheduling)
	return p, err
}

// start starts the workers. How slow each is in which round they read from a
// trace: the rounds of one case after those of another.
func (r *roundBench) start(ctx context.Context, dir string) (err error) {
	path := filepath.Join(dir, "slow.csv")
	if err := r.writeSlowness(path); err != nil {
		return err
	}
	o := clusterOptions{bind: "127.0.0.1:0", patience: joinTime, workers: r.b.Workers, pace: r.pace(), seed: 1}
	for w := 1; w <= r.b.Workers; w++ {
		o.faults = append(o.faults, fault{what: "slow", workers: []int{w}, slow: fmt.Sprintf("trace=%s,worker=%d", path, w)})
	}
	if r.cluster, err = joinCluster(ctx, o); err != nil {
		return err
	}
	// A frozen worker may hold a round up as long as it likes.
	const patience = 10 * time.Minute
	r.cluster.config = dist.CoordinatorConfig{
		Slots: r.b.Workers, Strategies: map[string]dist.Strategy{}, FirstDeadline: patience, MinDeadline: patience, MaxDeadline: patience,
	}
	for _, p := range r.products {
		r.cluster.config.Strategies[p.layer.Name] = p.scheduling
	}
	return r.cluster.start(ctx, dir, r.b.Workers)
}

// place puts the product's weights on the workers.
func (r *roundBench) place(ctx context.Context, p *roundProduct) error {
	in, outputs := r.config.In, r.config.Out
	weight := randomSlice(rand.New(rand.NewPCG(1, 4)), in*outputs)
	batch := r.x.Shape[0]
	kernel.Gemm(nil, false, true, batch, outputs, in, 1, r.x.Data, in, weight, in, 0, r.want, outputs)
	return p.place(ctx, r.cluster.coordinator, weight)
}

// settle gives workers time to hear what has been called off, and to tell how much
// of it they had done.
func (r *roundBench) settle(ctx context.Context) bool {
	return sleepUntil(ctx, time.Now().Add(100*time.Millisecond))
}

// measure runs the rounds of a strategy, after one to warm up.
func (r *roundBench) measure(ctx context.Context, number int, p *roundProduct) (roundRow, error) {
	c := r.cases[number]
	if _, err := r.round(ctx, p, 0); err != nil {
		return roundRow{}, err
	}
	if !r.settle(ctx) {
		return roundRow{}, context.Cause(ctx)
	}
	before := r.cluster.coordinator.Stats()
	p.errors = 0
	freezer := c.freeze(ctx, r)
	var took []float64
	paces := make([][]sim.Pace, p.rounds)
	for i := range p.rounds {
		began := r.b.now()
		t, err := r.round(ctx, p, number*r.rounds+i+1)
		if err != nil {
			return roundRow{}, errors.Join(err, freezer.stop())
		}
		took = append(took, t.Seconds())
		paces[i] = c.paces(r, i+1, freezer, began)
	}
	if err := freezer.stop(); err != nil {
		return roundRow{}, err
	}
	if !r.settle(ctx) {
		return roundRow{}, context.Cause(ctx)
	}
	after := r.cluster.coordinator.Stats()
	row := roundRow{
		System: "coda", Bench: "round", Strategy: p.sim.Name(), Straggler: c.spec, N: r.b.Workers, K: r.b.K,
		Chunks: p.layer.Chunks, Rounds: p.rounds, Seed: r.b.Seed, Error: p.errors / float64(p.rounds),
	}
	if work := after.Work - before.Work; work > 0 {
		row.WastedWork = (after.Wasted - before.Wasted) / work
	}
	return row, r.sum(ctx, &row, p, took, paces)
}

// round computes the product once and checks it. It returns how long that took.
func (r *roundBench) round(ctx context.Context, p *roundProduct, step int) (time.Duration, error) {
	clear(r.y.Data)
	began := r.b.now()
	var took time.Duration
	round := coded.Round{Layer: p.layer.Name, Product: coded.Forward, Step: step, Operand: r.x}
	err := answered(ctx, r.cluster.coordinator, round, func(answers [][]coded.Answer) error {
		err := p.forward.Decode(r.y, r.x.Shape, answers)
		took = r.b.now().Sub(began)
		return err
	})
	if err != nil {
		return 0, err
	}
	p.errors += r.off()
	if p.rough {
		return took, nil
	}
	return took, r.check()
}

// off is the squared error of what was decoded, over the product's square.
func (r *roundBench) off() float64 {
	var off, size float64
	for i, v := range r.want {
		d := float64(r.y.Data[i] - v)
		off += d * d
		size += float64(v) * float64(v)
	}
	return off / size
}

// check compares the decoded product with the direct one.
func (r *roundBench) check() error {
	var worst, size float64
	for i, v := range r.want {
		worst = max(worst, math.Abs(float64(r.y.Data[i]-v)))
		size = max(size, math.Abs(float64(v)))
	}
	if !(worst <= 1e-4*size) {
		return fmt.Errorf("the product is wrong by %g, its largest value is %g", worst, size)
	}
	return nil
}

// sum fills in what the rounds amount to.
func (r *roundBench) sum(ctx context.Context, row *roundRow, p *roundProduct, took []float64, paces [][]sim.Pace) error {
	const ms = 1000
	var ratios []float64
	job := sim.KOfN(r.b.Workers, r.b.K)
	for i, t := range took {
		ideal := sim.Ideal(paces[i], job.Held, job.Work) * r.unit.Seconds()
		row.StepMSMean += ms * t / float64(len(took))
		row.IdealMS += ms * ideal / float64(len(took))
		ratios = append(ratios, t/ideal)
	}
	row.Ratio, row.RatioMedian = row.StepMSMean/row.IdealMS, median(ratios)
	slices.Sort(took)
	row.StepMSP99 = ms * sim.Percentile(took, 0.99)
	trace, err := r.record(paces)
	if err != nil {
		return err
	}
	s, err := sim.Run(ctx, sim.Config{Job: job, Strategy: p.twin, Model: trace, Rounds: len(took), Queue: workerQueue})
	if err != nil {
		return err
	}
	row.SimRatio, row.SimWasted = s.Ratio, s.Wasted
	return nil
}

// workerQueue is how many tasks the coordinator gives a worker at a time.
const workerQueue = 2

// record writes how fast the workers were, for the user if wanted, and returns it
// as a model.
func (r *roundBench) record(paces [][]sim.Pace) (*sim.Trace, error) {
	var text strings.Builder
	own, err := sim.NewTraceWriter(&text)
	if err != nil {
		return nil, err
	}
	r.runs++
	if err := own.WritePaces(1, paces); err != nil {
		return nil, err
	}
	if r.traces != nil {
		if err := r.traces.WritePaces(r.runs, paces); err != nil {
			return nil, err
		}
	}
	if err := own.Flush(); err != nil {
		return nil, err
	}
	return sim.ReadTrace(strings.NewReader(text.String()), "rounds", 0)
}

// openTrace begins the file of --trace, if wanted.
func (r *roundBench) openTrace() (done func() error, err error) {
	if r.b.Trace == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(r.b.Trace)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	if r.traces, err = sim.NewTraceWriter(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(r.traces.Flush(), f.Close()) }, nil
}

// writeSlowness writes the trace that the workers follow.
func (r *roundBench) writeSlowness(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	t, err := sim.NewTraceWriter(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	var paces [][]sim.Pace
	for _, c := range r.cases {
		for round := range r.rounds {
			paces = append(paces, c.drawn(r.b.Workers, r.b.Seed, round+1))
		}
	}
	return errors.Join(t.WritePaces(1, paces), t.Flush(), f.Close())
}
