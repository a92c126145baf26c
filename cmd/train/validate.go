package main

import (
	"net/url"
	"slices"
	"strings"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
)

// validate checks what can be known before anything is loaded or started, and
// fills the defaults that depend on other settings. It reports every problem.
func (f *runFlags) validate(cores int, l lists) error {
	f.fillDefaults(cores)
	var p problems
	f.validateSource(&p)
	f.validateTraining(&p)
	f.validateOptimizer(&p)
	f.validatePlacement(l.Placements, &p)
	f.validateParameters(l.Groups, &p)
	f.validateWorkers(&p)
	if f.wantsCluster(l.Placements) {
		f.validateCluster(&p)
	}
	f.validateAnswers(&p)
	p.atLeast("trace-steps", f.TraceSteps, 1)
	p.atLeast("checkpoint-every", f.CheckpointEvery, 0)
	p.add(f.Observe.check())
	return p.err()
}

// fillDefaults sets what follows from the machine or from other settings.
func (f *runFlags) fillDefaults(cores int) {
	if f.Threads == 0 {
		f.Threads = cores
	}
	if f.Momentum == nil {
		f.Momentum = new(float64)
		if f.Optimizer == "sgd" {
			*f.Momentum = 0.9
		}
	}
}

// validateTraining checks the flags of the training loop.
func (f *runFlags) validateTraining(p *problems) {
	p.atLeast("epochs", f.Epochs, 1)
	p.atLeast("steps", f.Steps, 0)
	p.atLeast("batch", f.Batch, 1)
	p.atLeast("accumulate", f.Accumulate, 1)
	p.atLeast("threads", f.Threads, 0)
	p.fraction("label-smoothing", f.Smoothing)
	if _, err := f.augmentation(); err != nil {
		p.bad("--augment: %w", err)
	}
}

// validateOptimizer checks the flags of the optimiser.
func (f *runFlags) validateOptimizer(p *problems) {
	p.fromZero("lr", f.LR)
	p.fraction("momentum", *f.Momentum)
	p.fromZero("weight-decay", f.WeightDecay)
	p.fromZero("clip", f.Clip)
	p.fraction("ema", f.EMA)
	p.atLeast("warm-up", f.WarmUp, 0)
	if m := f.CycleMomentum; !(m >= 0 && m <= *f.Momentum) || m > 0 && f.Schedule != "one-cycle" {
		p.bad("--cycle-momentum %g: want from 0 to --momentum %g, and --schedule one-cycle", m, *f.Momentum)
	}
}

// validateWorkers checks the flags about workers that mean the same whatever is placed.
func (f *runFlags) validateWorkers(p *problems) {
	p.atLeast("workers", f.Workers, 0)
	if f.Workers > maxLocalWorkers {
		p.bad("--workers %d: want at most %d on one machine", f.Workers, maxLocalWorkers)
	}
	p.add(checkSeats(f.Seats))
	p.atLeast("losses", f.Losses, 0)
	p.atLeast("min-workers", f.MinWork, 0)
	p.atLeast("drift-every", f.DriftEvery, 0)
	if !(f.DriftLimit > 0) {
		p.bad("--drift-limit %g: want a number above 0", f.DriftLimit)
	}
	p.fromZero("pace", f.Pace)
	p.duration("wait", f.Wait)
	_, err := parseFaults(f.Inject, f.Workers)
	p.add(err)
}

// validateAnswers checks the flags that say which answers are used.
func (f *runFlags) validateAnswers(p *problems) {
	if f.MaxCond != 0 && !(f.MaxCond >= 1) {
		p.bad("--max-condition %g: want at least 1, or 0 for no limit", f.MaxCond)
	}
	random := f.Survivors == "random"
	p.exclusive("record", f.Record != "", "replay", f.Replay != "")
	p.exclusive("max-condition", f.MaxCond != 0, "survivors random", random)
	p.exclusive("survivors random", random, "replay", f.Replay != "")
}

// validateSource checks where the data may come from.
func (f *runFlags) validateSource(p *problems) {
	for _, m := range f.Mirror {
		if u, err := url.Parse(m); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			p.bad("--mirror %q: want the address of a folder, http:// or https://", m)
		}
	}
	p.exclusive("mirror", len(f.Mirror) > 0, "offline", f.Offline)
	if len(f.Mirror) > 0 && f.DataDir != "" {
		p.bad("--mirror and --data-dir: choose one, nothing is downloaded for a folder")
	}
}

// validatePlacement checks the names of placements, of the flags and of the rules.
func (f *runFlags) validatePlacement(rules []placementRule, p *problems) {
	checkPlacement(p, "--placement", f.Placement)
	for i, rule := range rules {
		rule.validate(entryAt("placements", i, rule.at), p)
	}
}

// checkPlacement checks the name of a placement.
func checkPlacement(p *problems, where, placement string) {
	const choose = "choose auto, resident, batch, shipped or local"
	switch placement {
	case autoPlacement, plan.Resident, plan.Batch, plan.Shipped, plan.Local:
	case "gradient":
		p.bad("%s %s: not part of this version; %s", where, placement, choose)
	default:
		p.bad("%s %q: %s", where, placement, choose)
	}
}

// validate checks a rule by itself: what of it fits no layer of any model.
func (rule placementRule) validate(where string, p *problems) {
	p.glob(where+" layer", rule.Layer, "conv*")
	checkPlacement(p, where+" placement", rule.Placement)
	if rule.K < 0 {
		p.bad("%s k %d: want at least 1", where, rule.K)
	}
	if rule.M < 0 || rule.P < 0 || rule.Q < 0 || rule.Placement != plan.Shipped && rule.M+rule.P+rule.Q > 0 {
		p.bad("%s m %d, p %d, q %d: want numbers of blocks, with placement shipped", where, rule.M, rule.P, rule.Q)
	}
	if rule.Gradient == "" {
		return
	}
	if known := append(gradientCodes(), gradientWorkers); !slices.Contains(known, rule.Gradient) {
		p.bad("%s gradient %q: choose one of %s", where, rule.Gradient, strings.Join(known, ", "))
	}
	if rule.Placement != plan.Batch {
		p.bad("%s gradient %q: only placement batch has one", where, rule.Gradient)
	}
}

// maxLocalWorkers bounds the processes that one run starts.
const maxLocalWorkers = 64

// validateCluster checks the size of the cluster and of the code.
func (f *runFlags) validateCluster(p *problems) {
	if f.Workers == 0 && len(f.Join) == 0 {
		p.bad("--workers 0 without --join: there would be no workers; add --join HOST:PORT, or --placement local")
	}
	p.add(checkSeeds(f.Join))
	if f.N < 0 {
		p.bad("--n %d: want at least 1", f.N)
		return
	}
	if f.N == 0 {
		f.N = f.Workers
	}
	if len(f.Join) == 0 && f.Key == "" && f.MinWork > f.Workers {
		p.bad("--min-workers %d: --workers %d are started, and nobody else can join without --key or --join", f.MinWork, f.Workers)
	}
	if f.MinWork == 0 {
		f.MinWork = max(f.Workers, (f.K+f.Seats-1)/max(1, f.Seats), 1)
	}
	if room := f.Workers * f.Seats; room >= f.Workers && len(f.Join) == 0 && f.MinWork <= f.Workers && f.N > room {
		p.bad("--n %d: want at most %d, --workers %d times --seats %d, or --min-workers above %d if others join", f.N, room, f.Workers, f.Seats, f.Workers)
	}
	if f.N > 0 {
		f.setK(p)
	}
}

// checkSeeds checks the addresses of --join.
func checkSeeds(join []string) error {
	var p problems
	for _, addr := range join {
		if err := dist.CheckSeed(addr); err != nil {
			p.bad("--join: %w", err)
		}
	}
	return p.err()
}

// setK fills k from the number of slots and checks it.
func (f *runFlags) setK(p *problems) {
	if f.K == 0 {
		f.K = max(1, f.N*2/3)
		if f.Code == "uncoded" {
			f.K = f.N
		}
	}
	switch {
	case f.K < 1 || f.K > f.N:
		p.bad("--k %d: want 1 to %d, the number of shards", f.K, f.N)
	case f.Code == "uncoded" && f.K != f.N:
		p.bad("--k %d: --code uncoded needs all %d shards", f.K, f.N)
	}
}
