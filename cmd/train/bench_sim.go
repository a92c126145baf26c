package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/coda-ml/coda/dist/sim"
)

// simFlags are the flags of the sim benchmark alone.
type simFlags struct {
	Straggler []string `sep:"none" placeholder:"SPEC" help:"Who is slow when, repeatable, each a table of its own: ${stragglers}, or trace=FILE[,run=N], and in the round benchmark freeze: in turn, for 5 ideal rounds out of 20 (default: none; shifted-exp=1,1; slow:1@x=5; some:2@x=2; pareto=1,2; in round freeze, too)." group:"Rounds"`
	Strategy  []string `placeholder:"NAME" help:"Strategies to compare (default: all: local, uncoded, ignore (the slowest quarter), replicated, speculative, mds, adaptive, partial, hierarchical, rateless)." group:"Rounds"`
	Rounds    int      `placeholder:"N" help:"Rounds of a strategy (default: 10000 in sim, 20 in round)." group:"Rounds"`
	Chunks    []int    `placeholder:"N" help:"Chunks of a round of the adaptive strategy (default: 24 and 48 in sim, 48 in round)." group:"Rounds"`
	Seed      uint64   `default:"1" placeholder:"N" help:"Seed of all draws (default ${default})." group:"Rounds"`
}

// simRow is a strategy under a model of stragglers. A worker that nothing slows
// down does a shard in a second. Times are of the rounds that ended, 0 if none did.
type simRow struct {
	System     string  `json:"system"`
	Bench      string  `json:"bench"`
	Strategy   string  `json:"strategy"`
	Straggler  string  `json:"straggler"`
	N          int     `json:"n"`
	K          int     `json:"k"`
	Chunks     int     `json:"chunks"`
	StepMSMean float64 `json:"step_ms_mean"`
	StepMSP99  float64 `json:"step_ms_p99"`
	IdealMS    float64 `json:"ideal_ms"`
	Ratio      float64 `json:"ratio"`
	WastedWork float64 `json:"wasted_work"`
	Failed     int     `json:"failed"` // rounds that never ended
	Seed       uint64  `json:"seed"`
}

// defaultStragglers are an even cluster, random workers and unlucky ones.
var defaultStragglers = []string{"none", "shifted-exp=1,1", "slow:1@x=5", "some:2@x=2", "pareto=1,2"}

func benchSim(ctx context.Context, b *benchCmd, out rows) error {
	specs := b.Straggler
	if len(specs) == 0 {
		specs = defaultStragglers
	}
	models := make([]sim.Model, len(specs))
	for i, spec := range specs {
		var err error
		if models[i], err = parseStraggler(spec, b.Workers); err != nil {
			return usageError{fmt.Errorf("--straggler %q: %w", spec, err)}
		}
	}
	strategies, err := b.chosen()
	if err != nil {
		return usageError{err}
	}
	for i, m := range models {
		for _, s := range strategies {
			row, err := b.simulate(ctx, m, s)
			if err != nil {
				return err
			}
			row.Straggler = specs[i]
			if err := out(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// chosen are the strategies asked for, all if none is named.
func (b *benchCmd) chosen() ([]sim.Strategy, error) { return b.chosenOf(b.strategies(b.simChunks())) }

// simChunks are the numbers of chunks that are simulated.
func (b *benchCmd) simChunks() []int {
	if len(b.Chunks) == 0 {
		return []int{24, 48}
	}
	return b.Chunks
}

// chosenOf are the ones asked for of all strategies.
func (b *benchCmd) chosenOf(all []sim.Strategy) ([]sim.Strategy, error) {
	if len(b.Strategy) == 0 {
		return all, nil
	}
	var chosen []sim.Strategy
	for _, name := range b.Strategy {
		n := len(chosen)
		for _, s := range all {
			if s.Name() == name {
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("--strategy %q: there is none of that name for %d workers", name, b.Workers)
		}
	}
	return chosen, nil
}

// partialChunks are the results of a worker whose unfinished work counts: derivatives
// at one angle are nearly dependent when there are many.
const partialChunks = 2

// strategies are those that the job allows, with the number of chunks in a
// worker's share.
func (b *benchCmd) strategies(chunks []int) []sim.Strategy {
	s := []sim.Strategy{sim.Local{}, sim.Uncoded{}, sim.Ignore{Drop: b.Workers / 4}}
	if b.Workers%2 == 0 {
		s = append(s, sim.Replicated{Copies: 2})
	}
	s = append(s, sim.Speculative{}, sim.MDS{K: b.K})
	for _, c := range chunks {
		s = append(s, sim.Adaptive{K: b.K, Chunks: c})
	}
	s = append(s, sim.Partial{K: b.K, Chunks: partialChunks})
	if b.Workers <= maxJoint {
		s = append(s, sim.Hierarchical{K: b.K, Layers: max(2, 2*min(2, b.Workers-b.K, b.K-1)+1)})
	}
	return append(s, sim.Rateless{Overhead: 0.03, Storage: 2, Symbols: 100 * b.Workers})
}

func (b *benchCmd) simulate(ctx context.Context, m sim.Model, s sim.Strategy) (simRow, error) {
	const ms = 1000 // a shard takes a second
	rounds := cmp.Or(b.Rounds, 10000)
	r, err := sim.Run(ctx, sim.Config{
		Job: sim.KOfN(b.Workers, b.K), Strategy: s, Model: m, Seed: b.Seed, Rounds: rounds, Threads: b.Threads,
	})
	if err != nil {
		return simRow{}, err
	}
	row := simRow{
		System: "coda", Bench: "sim", Strategy: s.Name(), N: b.Workers, K: b.K, Chunks: 1,
		WastedWork: r.Wasted, Failed: r.Failed, Seed: b.Seed,
	}
	if a, ok := s.(sim.Adaptive); ok {
		row.Chunks = a.Chunks
	}
	if r.Failed < rounds {
		row.StepMSMean, row.StepMSP99, row.IdealMS, row.Ratio = ms*r.Mean, ms*r.P99, ms*r.Ideal, r.Ratio
	}
	return row, nil
}

// parseStraggler reads a model of n workers, or a trace's file.
func parseStraggler(spec string, n int) (sim.Model, error) {
	path, ok := strings.CutPrefix(spec, "trace=")
	if !ok {
		return sim.ParseModel(spec, n)
	}
	path, number, _ := strings.Cut(path, ",run=")
	run := 0
	if number != "" {
		var err error
		if run, err = strconv.Atoi(number); err != nil || run < 1 {
			return nil, fmt.Errorf("run %q: want a whole number from 1", number)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return sim.ReadTrace(f, path, run)
}
