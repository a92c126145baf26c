package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

type runCmd struct {
	runFlags `embed:""`
	lists    `kong:"-"`
}

// Run trains a model. Everything that can be wrong with the settings is found
// before a file is written or a process started.
func (r *runCmd) Run(ctx context.Context, t terminal) error {
	if err := r.validate(runtime.GOMAXPROCS(0), r.lists); err != nil {
		return usageError{err}
	}
	run := &run{runFlags: &r.runFlags, lists: r.lists, began: time.Now()}
	failed, closed := run.do(ctx, t), run.close()
	if isInterrupt(ctx, failed) {
		failed = run.interrupted(failed)
	} else if err := errors.Join(failed, closed); err != nil {
		run.reportFailure(t, err)
	}
	return errors.Join(failed, closed, run.closeOutput())
}

// interrupted says where an interrupt met the run. One that had not got to its first step
// leaves no folder.
func (r *run) interrupted(err error) error {
	if r.trainer != nil {
		return err
	}
	err = interruptedError{"while " + r.doing + ", before the first step"}
	if r.folder != nil {
		err = errors.Join(err, r.folder.discard())
	}
	return err
}

// run is one training run and what it owns.
type run struct {
	*runFlags
	lists
	began time.Time
	doing string // before the first step

	train, test *datasets.Set
	loader      *datasets.Loader
	model       nn.Module
	inference   bool // the model is not trained
	parameters  int  // of the model, in numbers
	trained     int  // of these
	network     *nn.Network
	optimizer   optim.Optimizer
	plateau     *optim.Plateau          // nil unless --schedule plateau
	ema         *optim.EMA              // nil unless --ema
	exempt      map[string]bool         // parameters that --no-decay names
	planned     map[string]plannedLayer // for auto; nil if the planner was not asked
	prediction  *prediction             // of the planner
	layers      []layerInfo
	needed      int                    // answers that suffice for every product of the placed layers
	placed      []func(coded.Executor) // gives a placed layer its executor when the cluster is up
	resumed     train.Checkpoint
	trainer     *train.Trainer
	watch       *watch

	cluster  *cluster // nil when nothing is placed
	replay   *dist.Replay
	recorder *dist.Recorder
	folder   *runFolder
	events   *runEvents
	files    []io.Closer // of events and record
	monitor  *monitor    // nil unless --metrics
	metrics  *runMetrics // of it
	timeline *timeline   // nil unless --trace
}

// do goes through the stages of a run.
func (r *run) do(ctx context.Context, t terminal) error {
	for _, stage := range []struct {
		doing string
		do    func() error
	}{
		{"opening the monitor", func() error { return r.openMonitor(ctx) }},
		{"loading the data", func() error { return r.loadData(ctx) }},
		{"building the model", r.buildModel},
		{"reading --init", r.loadInit},
		{"building the model", r.setParams},
		{"building the optimiser", r.buildOptimizer},
		{"reading the checkpoint", r.loadCheckpoint},
		{"reading --replay", r.readReplay},
		{"deciding on placements", func() error { return r.placeLayers(ctx, t) }},
		{"opening the run folder", func() error { return r.openOutput(t) }},
		{"opening the monitor", func() error { return r.tellMonitor(t) }},
		{"starting the workers", func() error { return r.startCluster(ctx) }},
	} {
		r.doing = stage.doing
		if err := stage.do(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return r.fit(ctx)
}

// placeLayers decides where the layers compute. Gossip starts here if layers
// are placed; before that if the number of workers decides.
func (r *run) placeLayers(ctx context.Context, t terminal) error {
	if r.N == 0 && r.wantsCluster(r.Placements) {
		if err := r.joinCluster(ctx, t); err != nil {
			return err
		}
		if err := r.countWorkers(ctx); err != nil {
			return err
		}
		if err := r.askPlanner(ctx); err != nil {
			return err
		}
	}
	if err := r.place(); err != nil {
		return err
	}
	if err := r.checkPlaced(); err != nil {
		return err
	}
	switch {
	case len(r.placed) > 0 && r.cluster == nil:
		return r.joinCluster(ctx, t)
	case len(r.placed) == 0 && r.cluster != nil: // its workers were counted, and nothing is for them
		err := r.cluster.close()
		r.cluster = nil
		return err
	}
	return nil
}

// joinCluster starts the gossip of this process.
func (r *run) joinCluster(ctx context.Context, t terminal) error {
	faults, err := parseFaults(r.Inject, r.Workers)
	if err != nil {
		return usageError{err}
	}
	r.cluster, err = joinCluster(ctx, clusterOptions{
		bind: r.Bind, advertise: r.Advertise, join: r.Join, keyFile: r.Key, patience: max(joinTime, r.Wait),
		workers: r.Workers, pace: r.Pace, seats: r.Seats, seed: r.Seed, faults: faults,
	})
	if err != nil || r.Workers >= r.MinWork {
		return err
	}
	_, err = fmt.Fprintf(r.human(t), "waiting for workers, at least %d; gossip at %s\n", r.MinWork, r.cluster.members.Self().GossipAddr)
	return err
}

// countWorkers makes the number of workers that have joined the size of the code.
func (r *run) countWorkers(ctx context.Context) error {
	n, err := r.cluster.awaitMembers(ctx, r.MinWork)
	if err != nil {
		return err
	}
	r.N = n
	var p problems
	r.setK(&p)
	return p.usage()
}

// startCluster starts the workers and gives the placed layers, if any, their executor.
func (r *run) startCluster(ctx context.Context) error {
	if len(r.placed) == 0 {
		return nil
	}
	r.cluster.emit = r.events.emit
	kept, err := readCopies(r.resumed.Dir)
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	r.cluster.config = dist.CoordinatorConfig{
		Slots: r.N, Run: kept.Run, Resume: kept.Number, Wait: r.Wait, Losses: r.Losses, Record: r.recorder, Replay: r.replay, MaxCondition: r.MaxCond,
	}
	if r.Verify {
		r.cluster.config.Verify = &dist.Verification{Followers: shard.Followers()}
	}
	if r.Survivors == "random" {
		r.cluster.config.Select = dist.RandomSurvivors(r.Seed)
	}
	r.observeCluster()
	logs := r.folder.join("logs")
	if err := r.cluster.start(ctx, logs, r.MinWork); err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, logs)
	}
	executor := r.executor()
	for _, use := range r.placed {
		use(executor)
	}
	return nil
}

// wantsCluster tells whether layers may be placed on workers.
func (f *runFlags) wantsCluster(rules []placementRule) bool {
	for _, rule := range rules {
		if rule.Placement != plan.Local {
			return true
		}
	}
	return f.Placement != plan.Local
}

// close ends what the run has started, in the reverse order.
func (r *run) close() error {
	err := r.cluster.close()
	if r.network != nil {
		err = errors.Join(err, r.network.Close())
	}
	return errors.Join(err, r.monitor.close(), r.timeline.close())
}
