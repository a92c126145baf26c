package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

type runCmd struct {
	runFlags   `embed:""`
	Placements []placementRule `kong:"-" json:"placements,omitempty"`
}

// Run trains a model. Everything that can be wrong with the settings is found
// before a file is written or a process started.
func (r *runCmd) Run(ctx context.Context, t terminal) error {
	if err := r.validate(runtime.GOMAXPROCS(0)); err != nil {
		return usageError{err}
	}
	run := &run{runFlags: &r.runFlags, rules: r.Placements, began: time.Now()}
	err := run.do(ctx, t)
	err = errors.Join(err, run.close())
	if err != nil && run.events != nil && !errors.Is(err, errInterrupted) {
		err = errors.Join(err, run.events.emit(errorEvent{"error", oneLine(err)}))
	}
	return errors.Join(err, run.closeOutput())
}

// run is one training run and what it owns.
type run struct {
	*runFlags
	rules []placementRule
	began time.Time

	train, test *datasets.Set
	loader      *datasets.Loader
	model       nn.Module
	network     *nn.Network
	optimizer   optim.Optimizer
	layers      []layerInfo
	residents   []*nn.Resident // one for each placed layer; they get their executor when the cluster is up
	trainer     *train.Trainer

	cluster *cluster // nil when nothing is placed
	folder  *runFolder
	events  *runEvents
	files   []io.Closer // of the events
}

func (r *run) do(ctx context.Context, t terminal) error {
	if err := r.loadData(ctx); err != nil {
		return err
	}
	if err := r.buildModel(); err != nil {
		return err
	}
	if err := r.buildOptimizer(); err != nil {
		return err
	}
	if r.N == 0 && r.Placement != plan.Local {
		if err := r.countWorkers(ctx); err != nil {
			return err
		}
	}
	placed, err := r.place()
	if err != nil {
		return err
	}
	if err := r.checkOptimizer(); err != nil {
		return err
	}
	if placed && r.cluster == nil {
		if err := r.joinCluster(ctx); err != nil {
			return err
		}
	}
	if err := r.openOutput(t); err != nil {
		return err
	}
	if placed {
		if err := r.startCluster(ctx); err != nil {
			return err
		}
	}
	return r.fit(ctx)
}

// joinCluster starts the gossip of this process.
func (r *run) joinCluster(ctx context.Context) error {
	faults, err := parseFaults(r.Inject, r.Workers)
	if err != nil {
		return usageError{err}
	}
	r.cluster, err = joinCluster(ctx, clusterOptions{
		bind: r.Bind, advertise: r.Advertise, join: r.Join, keyFile: r.Key,
		workers: r.Workers, pace: r.Pace, seed: r.Seed, faults: faults, record: r.Record, replay: r.Replay,
	})
	return err
}

// countWorkers makes the number of workers that have joined the size of the code.
func (r *run) countWorkers(ctx context.Context) error {
	if err := r.joinCluster(ctx); err != nil {
		return err
	}
	n, err := r.cluster.awaitMembers(ctx, r.MinWork)
	if err != nil {
		return err
	}
	r.N = n
	var problem error
	r.setK(func(format string, args ...any) { problem = usageError{fmt.Errorf(format, args...)} })
	return problem
}

// startCluster starts the workers and gives the placed layers their executor.
func (r *run) startCluster(ctx context.Context) error {
	r.cluster.emit = r.events.emit
	r.cluster.config = dist.CoordinatorConfig{Slots: r.N, Wait: r.Wait}
	if r.Survivors == "random" {
		r.cluster.config.Select = dist.RandomSurvivors(r.Seed)
	}
	if err := r.cluster.start(ctx, r.folder.join("logs"), r.MinWork); err != nil {
		return fmt.Errorf("--min-workers %d: %w", r.MinWork, err)
	}
	for _, p := range r.residents {
		p.Executor = r.cluster.coordinator
	}
	return nil
}

// loadData finds the data and checks the batch size against it.
func (r *run) loadData(ctx context.Context) error {
	var err error
	r.train, r.test, err = datasets.Load(ctx, r.Dataset, datasets.Options{Dir: r.DataDir, Synthetic: datasets.Synthetic{Seed: r.Seed}})
	if errors.Is(err, datasets.ErrUnknown) {
		return usageError{fmt.Errorf("--dataset: %w", err)}
	}
	if err != nil {
		return err
	}
	r.loader, err = datasets.NewLoader(r.train, datasets.LoaderConfig{Batch: r.Batch, Shuffle: true, Seed: r.Seed})
	if err != nil {
		return fmt.Errorf("--batch: %w", err)
	}
	return nil
}

// buildModel makes the model from the seed.
func (r *run) buildModel() error {
	if !slices.Contains(models.Names(), r.Model) {
		_, err := models.New(r.Model, r.train.Classes, r.train.Shape, newRand(r.Seed))
		return usageError{fmt.Errorf("--model: %w", err)}
	}
	var err error
	if r.model, err = models.New(r.Model, r.train.Classes, r.train.Shape, newRand(r.Seed)); err != nil {
		return fmt.Errorf("--model %s on %s: %w", r.Model, r.Dataset, err)
	}
	return nil
}

// newRand returns the generator of the initial weights.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x636f6461)) }

func (r *run) buildOptimizer() error {
	steps := r.totalSteps()
	if r.LR == 0 {
		r.LR = map[string]float64{"sgd": 0.01, "adam": 0.001}[r.Optimizer]
	}
	lr, err := schedule(r.Schedule, r.LR, steps)
	if err != nil {
		return usageError{fmt.Errorf("--schedule: %w", err)}
	}
	switch r.Optimizer {
	case "sgd":
		r.optimizer, err = optim.NewSGD(optim.SGDConfig{LR: lr, Momentum: r.Momentum, Decay: r.WeightDecay, Nesterov: r.Nesterov})
	case "adam":
		r.optimizer, err = optim.NewAdam(optim.AdamConfig{LR: lr, Decay: r.WeightDecay})
	default:
		err = fmt.Errorf("--optimizer %q: choose sgd or adam", r.Optimizer)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// totalSteps is the number of steps of the whole run.
func (r *run) totalSteps() int {
	steps := r.Epochs * train.StepsPerEpoch(r.loader.Steps(), r.Accumulate)
	if r.Steps > 0 {
		steps = min(steps, r.Steps)
	}
	return steps
}

// schedule returns the learning rate over the steps of a run by name. A step
// schedule divides it by ten after each third of the run.
func schedule(name string, lr float64, steps int) (optim.Schedule, error) {
	switch name {
	case "constant":
		return optim.Constant(lr), nil
	case "step":
		return optim.Step(lr, max(1, (steps+2)/3), 0.1)
	case "cosine":
		return optim.Cosine(lr, 0, steps)
	}
	return nil, fmt.Errorf("%q: choose constant, step or cosine", name)
}

// place decides where each layer computes. It tells whether any is placed.
func (r *run) place() (bool, error) {
	linear := map[string]*nn.Linear{}
	var described []plan.Layer
	layers, err := nn.Modules(r.model)
	if err != nil {
		return false, err
	}
	for _, l := range layers {
		d := plan.Layer{Name: l.Name}
		switch m := l.Module.(type) {
		case *nn.Linear:
			shape := m.Weight.Value.Shape
			d.Kind, d.Out, d.In, d.Weights = plan.Linear, shape[0], shape[1], m.Weight.Size()
			linear[l.Name] = m
		case *nn.Conv2d:
			shape := m.Weight.Value.Shape
			d.Kind, d.Out, d.In, d.Weights = plan.Conv2d, shape[0], shape[1], m.Weight.Size()
		default:
			continue
		}
		described = append(described, d)
	}
	return r.applyRules(described, linear)
}

func (r *run) applyRules(layers []plan.Layer, linear map[string]*nn.Linear) (placed bool, err error) {
	for _, l := range layers {
		rule, err := r.ruleFor(l.Name)
		if err != nil {
			return false, usageError{err}
		}
		choice, err := choose(l, rule, plan.Cluster{Workers: r.N, K: rule.K})
		if err != nil {
			return false, usageError{err}
		}
		info := layerInfo{Layer: l.Name, Placement: choice.Placement, Reason: choice.Reason}
		if choice.Placement == plan.Resident {
			spec := coded.Spec{Name: rule.Code, N: r.N, K: rule.K}
			if _, err := coded.New(spec); err != nil {
				return false, usageError{fmt.Errorf("layer %s: %w", l.Name, err)}
			}
			info.Code, info.N, info.K = spec.Name, spec.N, spec.K
			resident := &nn.Resident{Code: spec, Chunks: chunksPerRound}
			linear[l.Name].Place(resident)
			r.residents = append(r.residents, resident)
			placed = true
		}
		r.layers = append(r.layers, info)
	}
	return placed, nil
}

// chunksPerRound is the number of pieces into which every worker's product is
// cut: enough that the finished work of a slow worker counts, few enough that
// a piece is worth a message.
const chunksPerRound = 4

// ruleFor returns the first rule whose glob matches the layer, or what the
// flags say for all layers.
func (r *run) ruleFor(layer string) (placementRule, error) {
	all := placementRule{Layer: "*", Placement: r.Placement, Code: r.Code, K: r.K}
	for i, rule := range r.rules {
		match, err := path.Match(rule.Layer, layer)
		if err != nil {
			return all, fmt.Errorf("placements, entry %d: layer %q: %w", i+1, rule.Layer, err)
		}
		if !match {
			continue
		}
		if rule.Code == "" {
			rule.Code = all.Code
		}
		if rule.K == 0 {
			rule.K = all.K
		}
		return rule, nil
	}
	return all, nil
}

// choose applies a rule to a layer. A layer that a rule of its own wants
// resident and that cannot be is an error; for --placement resident it stays local.
func choose(l plan.Layer, rule placementRule, c plan.Cluster) (plan.Choice, error) {
	one := []plan.Layer{l}
	switch rule.Placement {
	case "local":
		return plan.Choice{Layer: l.Name, Placement: plan.Local, Reason: "as asked"}, nil
	case "auto":
		return plan.Choose(one, c)[0], nil
	case "resident":
		if why := plan.CannotPlace(l, c); why != "" && rule.Layer == l.Name {
			return plan.Choice{}, fmt.Errorf("layer %s: %s", l.Name, why)
		}
		return plan.All(one, c)[0], nil
	}
	return plan.Choice{}, fmt.Errorf("layer %s: placement %q: choose auto, resident or local", l.Name, rule.Placement)
}

// checkOptimizer finds out before anything is started whether the optimiser
// can train the placed layers.
func (r *run) checkOptimizer() error {
	var problems []error
	for _, l := range r.layers {
		if l.Placement == plan.Resident {
			_, err := r.optimizer.Linear(l.Layer)
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return usageError{err}
	}
	return nil
}

// close ends what the run has started, in the reverse order.
func (r *run) close() error {
	var problems []error
	problems = append(problems, r.cluster.close())
	if r.network != nil {
		problems = append(problems, r.network.Close())
	}
	return errors.Join(problems...)
}

func (r *run) closeOutput() error {
	var problems []error
	for _, f := range r.files {
		problems = append(problems, f.Close())
	}
	return errors.Join(problems...)
}

// openOutput makes the run folder and opens everything that events go to.
func (r *run) openOutput(t terminal) error {
	var err error
	if r.folder, err = openRunFolder(r.Out, string(r.Resume), r.Model, r.Dataset, r.began); err != nil {
		return err
	}
	r.Out = r.folder.path
	if err := r.folder.writeConfig(r.runFlags, r.rules); err != nil {
		return err
	}
	metrics, err := os.OpenFile(r.folder.join("metrics.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("run folder: %w", err)
	}
	r.files = append(r.files, metrics)
	all := sinks{jsonSink{metrics}}
	human := t.stdout
	switch r.JSON {
	case "":
	case "-":
		all = append(all, jsonSink{t.stdout})
		human = t.stderr
	default:
		f, err := os.Create(r.JSON)
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		r.files = append(r.files, f)
		all = append(all, jsonSink{f})
	}
	r.events = &runEvents{to: append(all, newConsole(human, t.tty, r.totalSteps()))}
	return nil
}
