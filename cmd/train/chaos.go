package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coda-ml/coda/coded"
)

// chaosCmd tests a cluster of worker processes on this machine by breaking it.
type chaosCmd struct {
	Rounds   int           `placeholder:"N" help:"End after this many products (default 500, or with --duration no number)."`
	Duration time.Duration `placeholder:"D" help:"End after this time."`
	Seed     uint64        `default:"1" placeholder:"N" help:"Seed of everything drawn at random: the same seed gives the same faults in the same order (default ${default})."`
	Workers  int           `default:"8" placeholder:"N" help:"Slots of the code (default ${default})."`
	K        int           `name:"k" default:"5" placeholder:"N" help:"Answers that suffice: at most N-K workers are bad at a time (default ${default})."`
	Spares   int           `default:"1" placeholder:"N" help:"More workers, that take the slots of those that are gone (default ${default})."`
	Faults   []string      `default:"${chaosfaults}" placeholder:"NAME" help:"What may happen: kill, restart, leave (and join again), freeze, partition (the network is silent), slow, drop (answers are lost), corrupt (answers are wrong) (default: all of them)."`
	Verify   bool          `default:"true" negatable:"" help:"Test what workers answer before it is used (default; --no-verify: liars are believed)."`
	JSON     string        `name:"json" placeholder:"PATH" help:"Write JSON lines instead of a table ('-': to standard output)."`
}

// defaultChaosRounds end a run that neither rounds nor a duration are given for.
const defaultChaosRounds = 500

// Run breaks the cluster until the end; any violation of what is promised ends
// it at once.
func (c *chaosCmd) Run(ctx context.Context, t terminal) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coda-chaos-")
	if err != nil {
		return err
	}
	record, err := os.Create(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	out, closeOut, err := openRows(c.JSON, chaosTable{t.stdout}.add, t)
	if err != nil {
		return errors.Join(err, record.Close(), os.RemoveAll(dir))
	}
	r := &chaosRun{chaosCmd: c, dir: dir, report: newChaosReport(c, jsonSink{record}.emit, out)}
	if err = r.watched(ctx); err != nil {
		err = errors.Join(err, r.report.emit(errorEvent{"error", oneLine(err)}))
	}
	switch {
	case err == nil:
		err = os.RemoveAll(dir)
	case context.Cause(ctx) != nil:
		err = errors.Join(err, os.RemoveAll(dir))
	default:
		err = fmt.Errorf("chaos: seed %d: %w (events and logs are in %s)", c.Seed, err, dir)
	}
	return errors.Join(err, record.Close(), closeOut())
}

// validate fills what depends on other settings and reports every problem.
func (c *chaosCmd) validate() error {
	var p problems
	p.atLeast("rounds", c.Rounds, 0)
	p.duration("duration", c.Duration)
	if c.K < 1 || c.K >= c.Workers || c.Spares < 0 || c.Workers+c.Spares > maxLocalWorkers {
		p.bad("--workers %d, --k %d, --spares %d: want k from 1 to below the workers, and at most %d in all",
			c.Workers, c.K, c.Spares, maxLocalWorkers)
	}
	if len(c.Faults) == 0 {
		p.bad("--faults: want one at least")
	}
	for _, name := range c.Faults {
		if !slices.Contains(chaosFaultNames(), name) {
			p.bad("--faults %q: choose among %s", name, strings.Join(chaosFaultNames(), ", "))
		}
	}
	if c.Rounds == 0 && c.Duration == 0 {
		c.Rounds = defaultChaosRounds
	}
	return p.usage()
}

// layers returns the layers that are trained: of different shapes, so that
// blocks are padded and chunks differ.
func (c *chaosCmd) layers(r *chaosRun) ([]*truth, error) {
	spec := coded.Spec{Name: "trigonometric", N: c.Workers, K: c.K}
	var all []*truth
	for _, l := range []struct {
		name    string
		in, out int
	}{{"fc1", 16*c.K + 3, 12 * c.K}, {"fc2", 12 * c.K, 8*c.K + 1}} {
		t, err := newTruth(l.name, l.in, l.out, spec, r.rng)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// elder is the number of the worker that is never ended.
func (c *chaosCmd) elder() int { return c.Workers }
