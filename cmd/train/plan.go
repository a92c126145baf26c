package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/nn"
)

// planCmd predicts what placing the layers of a model would bring.
type planCmd struct {
	Path      string `arg:"" optional:"" name:"path" help:"A run folder or a YAML file, whose settings are taken; flags win."`
	Model     string `placeholder:"NAME" help:"Model: ${models} (default convnet)." group:"Model"`
	Dataset   string `placeholder:"NAME" help:"Data set: ${datasets} (default mnist). It is read only for --check." group:"Model"`
	DataDir   string `placeholder:"DIR" help:"Folder that holds the data set's files." group:"Model"`
	Batch     string `placeholder:"N" help:"Images a step." group:"Model"`
	Placement string `default:"auto" enum:"auto,resident,batch,shipped,local" placeholder:"NAME" help:"auto: each layer where the model is fastest; resident, batch, shipped: every layer that can be; local (default ${default})." group:"Model"`
	Code      string `placeholder:"NAME" help:"The only code to consider: ${codes}; of shipped layers ${twosided} (default: uncoded and trigonometric; ortho-polynomial, ortho-matdot and rotation)." group:"Model"`
	K         int    `name:"k" placeholder:"N" help:"The only number of answers to consider (default: all from half of the workers)." group:"Model"`
	Spare     int    `placeholder:"N" help:"Workers whose loss every placed layer must bear." group:"Model"`

	Workers   int           `default:"6" placeholder:"N" help:"Workers (default ${default})." group:"Cluster"`
	Pace      float64       `placeholder:"GFLOPS" help:"Speed of every worker." group:"Cluster"`
	Speeds    []float64     `placeholder:"GFLOPS" help:"Speed of each worker, in place of --workers and --pace." group:"Cluster"`
	Local     float64       `placeholder:"GFLOPS" help:"Speed of the coordinator (default: that of this machine, measured)." group:"Cluster"`
	Bandwidth float64       `default:"1" placeholder:"GBIT" help:"Gbit/s of the coordinator's link (default ${default})." group:"Cluster"`
	Latency   time.Duration `default:"200us" placeholder:"DURATION" help:"Time of a message, one way (default ${default})." group:"Cluster"`
	Message   time.Duration `default:"20us" placeholder:"DURATION" help:"Time of the coordinator for each message of a round beside its bytes (default ${default})." group:"Cluster"`
	Straggler string        `default:"none" placeholder:"SPEC" help:"Who is slow when: ${stragglers}, or trace=FILE (default ${default})." group:"Cluster"`
	Measure   bool          `help:"Start --workers processes of --pace here, or wait for those of --join, and measure speeds, bandwidth, messages and this machine's own steps, in place of what the flags say." group:"Cluster"`
	Join      []string      `placeholder:"HOST:PORT" help:"Members of a cluster to join and measure, separated by commas." group:"Cluster"`
	Key       string        `placeholder:"FILE" help:"Cluster key." group:"Cluster"`
	Bind      string        `default:"127.0.0.1:0" placeholder:"ADDR" help:"Address of this process in the cluster (default ${default})." group:"Cluster"`

	Explain bool   `help:"Show of every placed layer what its step waits for: the coordinator's own work, coding, products, updates, messages, stragglers." group:"Output"`
	Check   bool   `help:"Measure, then train so for --steps steps over processes here and compare." group:"Output"`
	Steps   int    `default:"30" placeholder:"N" help:"Steps of --check (default ${default})." group:"Output"`
	Threads int    `placeholder:"N" help:"Goroutines that compute in this process (default: the processor's cores)." group:"Output"`
	Seed    uint64 `default:"1" placeholder:"N" help:"Seed of all draws (default ${default})." group:"Output"`
	JSON    string `name:"json" placeholder:"PATH" help:"Write the plan as one JSON object ('-': to standard output, and nothing else there)." group:"Output"`
}

// Run prints the plan, and with --check what it was worth.
func (p *planCmd) Run(ctx context.Context, t terminal) error {
	if err := p.validate(); err != nil {
		return err
	}
	r, err := p.model(ctx)
	if err != nil {
		return err
	}
	q, err := p.question(ctx, r)
	if err != nil {
		return err
	}
	answer, err := plan.Make(ctx, q)
	if err != nil {
		return err
	}
	report := newPlanReport(p, r, q, answer)
	if p.Check {
		if report.Check, err = p.check(ctx, r, answer); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	return writeReport(t, p.JSON, report)
}

func (p *planCmd) validate() error {
	var wrong problems
	p.Measure = p.Measure || p.Check || len(p.Join) > 0
	p.validateSpeeds(&wrong)
	if p.Workers < 0 || p.Workers > maxLocalWorkers {
		wrong.bad("--workers %d: want 0 to %d", p.Workers, maxLocalWorkers)
	}
	known := len(p.Join) == 0 // how many workers there are
	wrong.atLeast("k", p.K, 0)
	if known && p.K > p.Workers {
		wrong.bad("--k %d: want at most %d, the workers", p.K, p.Workers)
	}
	wrong.atLeast("spare", p.Spare, 0)
	if known && p.Spare > 0 && p.Spare >= p.Workers {
		wrong.bad("--spare %d: want less than %d, the workers", p.Spare, p.Workers)
	}
	wrong.positive("bandwidth", p.Bandwidth)
	wrong.duration("latency", p.Latency)
	wrong.duration("message", p.Message)
	wrong.atLeast("steps", p.Steps, 1)
	wrong.atLeast("threads", p.Threads, 0)
	p.validateCode(&wrong)
	if p.Check && len(p.Join) > 0 {
		wrong.bad("--check trains over processes that it starts here, not over those of --join")
	}
	if _, err := sim.ParseDistribution(p.Straggler); p.Check && p.Straggler != "none" && err != nil {
		wrong.bad("--check slows processes by a distribution alone: --straggler: %w", err)
	}
	return wrong.usage()
}

// validateSpeeds looks at what is said of the speeds, and gives every worker its own.
func (p *planCmd) validateSpeeds(wrong *problems) {
	switch {
	case len(p.Speeds) > 0 && p.Measure:
		wrong.bad("--speeds: workers that are measured have one --pace")
	case len(p.Speeds) > 0 && p.Pace != 0:
		wrong.bad("--speeds and --pace: want one of them")
	case len(p.Speeds) == 0 && p.Pace == 0 && !p.Measure && p.Workers > 0:
		wrong.bad("--pace, --speeds or --measure: want one of them, to know how fast the workers are")
	}
	if p.Pace != 0 {
		wrong.positive("pace", p.Pace)
	}
	if p.Local != 0 {
		wrong.positive("local", p.Local)
	}
	for _, s := range p.Speeds {
		wrong.positive("speeds", s)
	}
	if len(p.Speeds) > 0 {
		p.Workers = len(p.Speeds)
	} else if p.Pace > 0 {
		p.Speeds = slices.Repeat([]float64{p.Pace}, max(0, min(p.Workers, maxLocalWorkers)))
	}
}

// validateCode looks at whether there is such a code, and the placement can use it.
func (p *planCmd) validateCode(wrong *problems) {
	one, two := slices.Contains(placementCodes(), p.Code), slices.Contains(shippedCodes(), p.Code)
	switch {
	case p.Code == "":
	case !one && !two:
		wrong.bad("--code %q: want %s; for shipped layers %s", p.Code, strings.Join(placementCodes(), ", "), strings.Join(shippedCodes(), ", "))
	case p.Placement == plan.Shipped && !two:
		wrong.bad("--code %s is of one factor, --placement shipped wants one of two: %s", p.Code, strings.Join(shippedCodes(), ", "))
	case (p.Placement == plan.Resident || p.Placement == plan.Batch) && !one:
		wrong.bad("--code %s is of two factors, --placement %s wants one of one: %s", p.Code, p.Placement, strings.Join(placementCodes(), ", "))
	}
}

// model builds the model as train run would with the same settings.
func (p *planCmd) model(ctx context.Context) (*run, error) {
	s := summaryCmd{Path: p.Path, Model: p.Model, Dataset: p.Dataset, DataDir: p.DataDir, Batch: p.Batch, Placement: plan.Local, Workers: strconv.Itoa(max(1, p.Workers))}
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	r := &run{runFlags: &settings.runFlags, lists: settings.lists}
	if p.Threads > 0 {
		r.Threads = p.Threads
	}
	shape, classes, err := datasets.Describe(ctx, r.Dataset, r.dataOptions())
	if err != nil {
		return nil, usageError{fmt.Errorf("--dataset: %w", err)}
	}
	r.train = &datasets.Set{Shape: shape, Classes: classes}
	return r, errors.Join(r.buildModel(), r.setParams())
}

// question is what the planner is asked: the model's layers and the cluster.
func (p *planCmd) question(ctx context.Context, r *run) (plan.Question, error) {
	products, err := describeProducts(r.model, r.train.Shape)
	if err != nil {
		return plan.Question{}, err
	}
	q := plan.Question{Products: products, Batch: r.Batch, Limits: plan.Limits{K: p.K, Spare: p.Spare}, Chunks: chunksPerRound, Seed: p.Seed}
	if p.Code != "" {
		q.Codes = []string{p.Code}
	}
	switch p.Placement {
	case plan.Local:
		q.Placements = []string{}
	case autoPlacement:
		q.Placements = plan.Placements()
	default:
		q.Placements, q.Must = []string{p.Placement}, true
	}
	if q.Machines, err = p.told(); err != nil {
		return q, err
	}
	if p.Measure {
		if err := p.measure(ctx, r, &q); err != nil {
			return q, fmt.Errorf("measure: %w", err)
		}
	}
	if q.Machines.Local == 0 {
		q.Machines.Local, err = measureLocal(ctx, r.Threads)
	}
	return q, err
}

// told are the machines as the flags say.
func (p *planCmd) told() (plan.Machines, error) {
	speeds := slices.Clone(p.Speeds)
	for i := range speeds {
		speeds[i] *= 1e9
	}
	m := plan.LAN(p.Local*1e9, speeds...)
	m.Bandwidth, m.Latency, m.Message = p.Bandwidth*1e9/8, p.Latency.Seconds(), p.Message.Seconds()
	var err error
	if m.Straggler, err = parseStraggler(p.Straggler, max(1, p.Workers)); err != nil {
		return m, usageError{fmt.Errorf("--straggler %q: %w", p.Straggler, err)}
	}
	return m, nil
}

// describeProducts describes the layers of a model whose products can be placed.
func describeProducts(model nn.Module, shape []int) ([]plan.Product, error) {
	layers, err := nn.Describe(model, shape)
	if err != nil {
		return nil, err
	}
	placeables, err := nn.Placeables(model)
	if err != nil {
		return nil, err
	}
	var products []plan.Product
	for _, l := range placeables {
		i := slices.IndexFunc(layers, func(info nn.LayerInfo) bool { return info.Name == l.Name })
		if i < 0 {
			return nil, fmt.Errorf("layer %s is not used", l.Name)
		}
		in, out, groups := l.Shape()
		p := plan.Product{
			Name: l.Name, Kind: plan.Linear, In: in / groups, Out: out / groups, Weights: l.Weight.Size(),
			Groups: groups, X: sizeOf(layers[i].Input), Y: sizeOf(layers[i].Output), Flops: float64(layers[i].Flops), First: l.First,
		}
		if _, ok := l.Layer.(*nn.Conv2d); ok {
			p.Kind = plan.Conv2d
		}
		if l.Weight.Frozen {
			p.Fixed = "it is frozen"
		}
		products = append(products, p)
	}
	return products, nil
}

func sizeOf(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// finite turns an infinite number, which JSON has not, into 0.
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return 0
	}
	return v
}
