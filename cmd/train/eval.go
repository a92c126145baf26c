package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

// evalCmd evaluates a checkpoint on the test part of a data set.
type evalCmd struct {
	Path    string   `arg:"" name:"path" help:"A run folder, of which the newest whole checkpoint is taken, or a checkpoint in one."`
	Dataset string   `placeholder:"NAME" help:"Data set: ${datasets} (default: that of the run)."`
	DataDir string   `placeholder:"DIR" help:"Folder that holds the data set's files (default: as in the run)."`
	Offline bool     `help:"Never touch the network for data."`
	Mirror  []string `sep:"none" placeholder:"URL" help:"Folder to download the data set's files from; repeatable."`
	Batch   int      `placeholder:"N" help:"Images a batch (default: as in the run)."`
	Threads int      `placeholder:"N" help:"Goroutines that compute (default: as in the run)."`
	inferFlags
	JSON string `name:"json" placeholder:"PATH" help:"Write the report as one JSON object ('-': to standard output, and nothing else there)."`
}

// Run evaluates.
func (e *evalCmd) Run(ctx context.Context, t terminal) error {
	var p problems
	if e.Batch < 0 || e.Threads < 0 {
		p.bad("--batch %d, --threads %d: want at least 1, or 0 for those of the run", e.Batch, e.Threads)
	}
	e.inferFlags.validate(&p)
	if err := p.usage(); err != nil {
		return err
	}
	flags, checkpoints, err := e.settings()
	if err != nil {
		return err
	}
	set, model, c, err := loadEvaluation(ctx, flags, checkpoints)
	if err != nil {
		return err
	}
	var on *placed
	if e.Placement != plan.Local {
		if on, err = e.place(ctx, t, *flags, model); err != nil {
			return err
		}
	}
	report, times, err := e.evaluate(ctx, flags, set, model)
	if err := errors.Join(err, on.close()); err != nil {
		return err
	}
	r := newEvalReport(flags, set, c, report)
	r.Placement, r.Latency = e.Placement, times
	if on != nil {
		r.Code, r.N, r.K = on.run.Code, on.run.N, on.run.K
	}
	return writeReport(t, e.JSON, r)
}

// settings returns the settings of the run as far as an evaluation has them,
// changed by the flags, and where its checkpoints are.
func (e *evalCmd) settings() (flags *runFlags, checkpoints string, err error) {
	folder, checkpoints := e.Path, filepath.Join(e.Path, checkpointsName)
	if !exists(filepath.Join(folder, configName)) {
		folder, checkpoints = filepath.Join(e.Path, "..", ".."), e.Path
	}
	saved, err := readConfig(filepath.Join(folder, configName))
	if _, missing := os.Stat(e.Path); missing != nil {
		return nil, "", usageError{fmt.Errorf("run folder or checkpoint: %w", missing)}
	}
	if err != nil {
		return nil, "", usageError{fmt.Errorf("%s is neither a run folder nor a checkpoint in one: %w", e.Path, err)}
	}
	flags = &saved.Flags
	if e.Dataset != "" && e.Dataset != flags.Dataset {
		flags.Dataset, flags.DataDir = e.Dataset, ""
	}
	if e.DataDir != "" || len(e.Mirror) > 0 {
		flags.DataDir, flags.Mirror = e.DataDir, e.Mirror
	}
	if e.Offline {
		flags.Offline, flags.Mirror = true, e.Mirror
	}
	flags.Batch, flags.Threads = cmp.Or(e.Batch, flags.Batch), cmp.Or(e.Threads, flags.Threads)
	var p problems
	flags.validateSource(&p)
	return flags, checkpoints, p.usage()
}

// readConfig reads the settings of a run.
func readConfig(path string) (*fileSettings, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	s, _, err := parseSettings(f)
	return s, err
}

// loadEvaluation loads the test images and the model of the checkpoint.
func loadEvaluation(ctx context.Context, f *runFlags, checkpoints string) (*datasets.Set, nn.Module, train.Checkpoint, error) {
	_, set, err := datasets.Load(ctx, f.Dataset, f.dataOptions())
	if errors.Is(err, datasets.ErrUnknown) {
		err = usageError{fmt.Errorf("--dataset: %w", err)}
	}
	if err != nil {
		return nil, nil, train.Checkpoint{}, err
	}
	model, err := models.New(f.Model, set.Classes, set.Shape, newRand(f.Seed))
	if err != nil {
		return nil, nil, train.Checkpoint{}, fmt.Errorf("model %s on %s: %w", f.Model, f.Dataset, err)
	}
	c, err := train.LoadModel(checkpoints, model)
	return set, model, c, err
}
