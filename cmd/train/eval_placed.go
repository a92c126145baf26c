package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/internal/alarm"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

// inferFlags say where an evaluation computes, and which requests are made to it.
type inferFlags struct {
	Placement string   `default:"local" enum:"local,resident" placeholder:"NAME" help:"Where the layers' products are computed: local, with the decoded weights, or resident: every layer that can be, its weights encoded once and multiplied on the workers (default ${default})." group:"Placement"`
	Code      string   `default:"trigonometric" placeholder:"NAME" help:"Code of the placed layers: ${codes} (default ${default})." group:"Placement"`
	K         int      `name:"k" placeholder:"N" help:"Answers that suffice (default: two thirds of the workers)." group:"Placement"`
	Workers   int      `default:"6" placeholder:"N" help:"Worker processes to start on this machine; 0: none, use --join (default ${default})." group:"Placement"`
	Join      []string `placeholder:"HOST:PORT" help:"Members of a cluster to join, separated by commas." group:"Placement"`
	Key       string   `placeholder:"FILE" help:"Cluster key." group:"Placement"`
	Bind      string   `default:"127.0.0.1:0" placeholder:"ADDR" help:"Address of this process in the cluster (default ${default})." group:"Placement"`
	Pace      float64  `placeholder:"GFLOPS" help:"Local workers behave like devices of that speed." group:"Placement"`
	Inject    []string `sep:"none" placeholder:"SPEC" help:"Slow workers, as in train run: slow:*@shifted-exp=1,1; repeatable." group:"Placement"`

	Requests int     `placeholder:"N" help:"After the evaluation, make so many requests of a batch each and report how long they take." group:"Requests"`
	Rate     float64 `placeholder:"N" help:"Requests a second in the mean, by a Poisson process (default: one after another)." group:"Requests"`
	Together int     `default:"4" placeholder:"N" help:"Requests that are served at a time, with --rate (default ${default})." group:"Requests"`
}

// latencies are how long requests took from their arrival until their results.
type latencies struct {
	Requests int     `json:"requests"`
	Images   int     `json:"images"` // of a request
	Rate     float64 `json:"rate"`   // a second; 0: one after another
	MeanMS   float64 `json:"mean_ms"`
	P50MS    float64 `json:"p50_ms"`
	P99MS    float64 `json:"p99_ms"`
	P999MS   float64 `json:"p999_ms"`
}

func (f *inferFlags) validate(p *problems) {
	if f.Requests < 0 || !(f.Rate >= 0) || f.Together < 1 || f.Together > maxInFlight {
		p.bad("--requests %d, --rate %g, --together %d: want no negative values, and 1 to %d requests at a time", f.Requests, f.Rate, f.Together, maxInFlight)
	}
	if f.Placement == plan.Local {
		if len(f.Join) > 0 || len(f.Inject) > 0 || f.Pace > 0 {
			p.bad("--join, --inject, --pace: workers are for --placement resident")
		}
		return
	}
	p.fromZero("pace", f.Pace)
	faults, err := parseFaults(f.Inject, f.Workers)
	p.add(err)
	if slices.ContainsFunc(faults, func(f fault) bool { return f.what != "slow" }) {
		p.bad("--inject: an evaluation has no steps: slow is all that can be injected")
	}
}

// placed is the model of an evaluation on workers.
type placed struct {
	run  *run
	logs string
}

// place puts the layers of a model on workers, whose weights are encoded once. The
// model is frozen: the workers hold the copy for the forward product alone.
func (e *evalCmd) place(ctx context.Context, t terminal, flags runFlags, model nn.Module) (p *placed, err error) {
	f := &e.inferFlags
	flags.Placement, flags.Code, flags.K, flags.N, flags.Workers, flags.MinWork = f.Placement, f.Code, f.K, 0, f.Workers, 0
	flags.Pace, flags.Inject, flags.Join, flags.Key, flags.Bind, flags.Advertise = f.Pace, f.Inject, f.Join, f.Key, f.Bind, ""
	flags.JSON, flags.Losses = e.JSON, 0
	var wrong problems
	flags.validateCluster(&wrong)
	if err := wrong.usage(); err != nil {
		return nil, err
	}
	p = &placed{run: &run{runFlags: &flags, model: model, inference: true}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.logs, err = os.MkdirTemp("", "coda-eval-"); err != nil {
		return p, err
	}
	return p, p.start(ctx, t)
}

func (p *placed) start(ctx context.Context, t terminal) error {
	r := p.run
	if err := r.joinCluster(ctx, t); err != nil {
		return err
	}
	if r.N == 0 {
		if err := r.countWorkers(ctx); err != nil {
			return err
		}
	}
	if err := r.place(); err != nil {
		return err
	}
	if len(r.placed) == 0 {
		return usageError{fmt.Errorf("--placement resident: no layer can be: %s", r.layers[0].Reason)}
	}
	params, err := nn.Params(r.model)
	if err != nil {
		return err
	}
	for _, q := range params {
		q.Frozen = true
	}
	r.cluster.config = dist.CoordinatorConfig{Slots: r.N}
	if err := r.cluster.start(ctx, p.logs, r.MinWork); err != nil {
		return err
	}
	for _, use := range r.placed {
		use(r.cluster.coordinator)
	}
	return nn.Place(ctx, r.model, nil)
}

func (p *placed) close() error {
	if p == nil {
		return nil
	}
	err := p.run.close()
	if p.logs != "" {
		err = errors.Join(err, os.RemoveAll(p.logs))
	}
	return err
}

// evaluate classifies the test images and makes the requests.
func (e *evalCmd) evaluate(ctx context.Context, flags *runFlags, set *datasets.Set, model nn.Module) (*train.Report, *latencies, error) {
	config := nn.Config{Threads: flags.Threads, Placed: e.Placement != plan.Local}
	network, err := nn.NewNetwork(model, set.Shape, config)
	if err != nil {
		return nil, nil, err
	}
	report, err := train.Classify(ctx, network, set, flags.Batch)
	if err := errors.Join(err, network.Close()); err != nil || e.Requests == 0 {
		return report, nil, err
	}
	l, err := e.request(ctx, set, model, config, flags)
	return report, l, err
}

// request makes requests to copies of the network, which share the weights.
func (e *evalCmd) request(ctx context.Context, set *datasets.Set, model nn.Module, config nn.Config, flags *runFlags) (l *latencies, err error) {
	images, err := someBatches(ctx, set, flags.Batch)
	if err != nil {
		return nil, err
	}
	clock, err := alarm.New()
	if err != nil {
		return nil, err
	}
	made := requests[*nn.Network]{rate: e.Rate, n: e.Requests, seed: flags.Seed, clock: clock}
	defer func() {
		err = errors.Join(err, clock.Close())
		for _, n := range made.slots {
			err = errors.Join(err, n.Close())
		}
	}()
	together := e.Together
	if e.Rate == 0 {
		together = 1
	}
	config.Threads = max(1, config.Threads/together)
	for range together {
		n, err := nn.NewNetwork(model, set.Shape, config)
		if err != nil {
			return nil, err
		}
		made.slots = append(made.slots, n)
	}
	times, err := made.serve(ctx, func(ctx context.Context, n *nn.Network, i int) error {
		_, err := n.Predict(ctx, images[i%len(images)])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("--requests: %w", err)
	}
	return newLatencies(times, len(images[0])/sizeOf(set.Shape), e.Rate), nil
}

// newLatencies sums up how long requests took, in seconds, which it sorts.
func newLatencies(times []float64, images int, rate float64) *latencies {
	const ms = 1000
	slices.Sort(times)
	l := &latencies{
		Requests: len(times), Images: images, Rate: rate,
		P50MS: ms * sim.Percentile(times, 0.5), P99MS: ms * sim.Percentile(times, 0.99), P999MS: ms * sim.Percentile(times, 0.999),
	}
	for _, t := range times {
		l.MeanMS += ms * t / float64(len(times))
	}
	return l
}

// mostBatches is how many different batches requests are made of.
const mostBatches = 16

// someBatches returns the images of the first whole batches of a set.
func someBatches(ctx context.Context, set *datasets.Set, batch int) ([][]float32, error) {
	loader, err := datasets.NewLoader(set, datasets.LoaderConfig{Batch: min(batch, set.N)})
	if err != nil {
		return nil, err
	}
	var list [][]float32
	for b, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			return nil, err
		}
		if len(list) == mostBatches || len(list) > 0 && len(b.X) < len(list[0]) {
			break
		}
		list = append(list, slices.Clone(b.X))
	}
	return list, nil
}
