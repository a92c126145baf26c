package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/dist/sim"
)

// serveFlags are the flags of the serve benchmark alone.
type serveFlags struct {
	Rate        float64  `default:"50" placeholder:"N" help:"Requests a second, in the mean (default ${default})." group:"Serving"`
	Utilisation float64  `default:"0.3" placeholder:"X" help:"Part of the time that an uncoded cluster which serves one request after another is at work: with the rate it says how fast the workers are (default ${default})." group:"Serving"`
	Requests    int      `default:"10000" placeholder:"N" help:"Requests in virtual time; over processes --seconds says how many (default ${default})." group:"Serving"`
	Together    int      `placeholder:"N" help:"Requests that are worked on at a time (default: all that are there)." group:"Serving"`
	Pieces      int      `default:"3" placeholder:"N" help:"Chunks of a round of the adaptive strategy over processes, in place of --chunks (default ${default})." group:"Serving"`
	Queue       int      `default:"1" placeholder:"N" help:"Tasks that a worker process has at a time: one more hides the network, and cannot be given to who is free first (default ${default})." group:"Serving"`
	Here        bool     `help:"The workers live in this process, with a connection over loopback and a clock each, in place of a process each." group:"Serving"`
	Clock       []string `default:"virtual,real" enum:"virtual,real" placeholder:"NAME" help:"virtual: in virtual time; real: over worker processes (default ${default})." group:"Serving"`
}

// serveRow is how long requests take that come by a Poisson process. Times are
// from the arrival until the result is decoded.
type serveRow struct {
	System      string  `json:"system"`
	Bench       string  `json:"bench"`
	Clock       string  `json:"clock"` // virtual or real
	Strategy    string  `json:"strategy"`
	Straggler   string  `json:"straggler"`
	N           int     `json:"n"`
	K           int     `json:"k"`
	Chunks      int     `json:"chunks"`
	Rate        float64 `json:"rate"` // requests a second
	Utilisation float64 `json:"uncoded_utilisation"`
	Together    int     `json:"together"`  // 0: all that are there
	Queue       int     `json:"queue"`     // tasks that a worker has at a time; 0 in virtual time, where none waits at a worker
	Processes   int     `json:"processes"` // of the workers; 0 in virtual time, and where they live in that of the command
	Requests    int     `json:"requests"`  // answered
	Failed      int     `json:"failed"`
	MeanMS      float64 `json:"mean_ms"`
	P50MS       float64 `json:"p50_ms"`
	P99MS       float64 `json:"p99_ms"`
	P999MS      float64 `json:"p999_ms"`
	Busy        float64 `json:"busy"`            // of the workers' time; 0 over processes
	OfUncoded   float64 `json:"p999_of_uncoded"` // P999MS over that of the uncoded row before; 0 without one
	Seed        uint64  `json:"seed"`
}

// serveBench is a service under measurement.
type serveBench struct {
	b         *benchCmd
	straggler string
	service   sim.Service // but for its strategy
	shard     float64     // seconds in which an undisturbed worker does a shard
	uncoded   float64     // ms, at 99.9 %
}

func benchServe(ctx context.Context, b *benchCmd, out rows) error {
	specs := b.Straggler
	if len(specs) == 0 {
		specs = []string{"shifted-exp=1,1"}
	}
	strategies, err := b.served()
	if err != nil {
		return usageError{err}
	}
	for _, spec := range specs {
		s, err := newServeBench(ctx, b, spec)
		if err != nil {
			return err
		}
		for _, clock := range b.Clock {
			run := s.simulate
			if clock == "real" {
				run = s.overProcesses
			}
			emit := func(row serveRow) error { return out(s.complete(row, clock)) }
			if err := run(ctx, strategies, emit); err != nil {
				return fmt.Errorf("%s, --straggler %s: %w", clock, spec, err)
			}
		}
	}
	return nil
}

// served are the strategies asked for: uncoded, mds and adaptive if none is named.
func (b *benchCmd) served() ([]sim.Strategy, error) {
	if len(b.Strategy) > 0 {
		return b.chosen()
	}
	all := []sim.Strategy{sim.Uncoded{}, sim.MDS{K: b.K}}
	for _, c := range b.simChunks() {
		all = append(all, sim.Adaptive{K: b.K, Chunks: c})
	}
	return all, nil
}

// newServeBench works out how fast workers are for which the rate of requests
// means the utilisation asked for.
func newServeBench(ctx context.Context, b *benchCmd, spec string) (*serveBench, error) {
	m, err := parseStraggler(spec, b.Workers)
	if err != nil {
		return nil, usageError{fmt.Errorf("--straggler %q: %w", spec, err)}
	}
	if !(b.Rate > 0 && b.Rate <= 1e6) || b.Together < 0 || b.Pieces < 1 || b.Queue < 1 {
		return nil, usageError{fmt.Errorf("--rate %g, --together %d, --pieces %d, --queue %d: want a positive rate up to 1e6, no negative number, a piece and a task", b.Rate, b.Together, b.Pieces, b.Queue)}
	}
	s := &serveBench{b: b, straggler: spec, service: sim.Service{
		Job: sim.KOfN(b.Workers, b.K), Model: m, Seed: b.Seed, Requests: b.Requests, Together: b.Together,
	}}
	if s.service.Rate, err = sim.RateOf(ctx, s.service, b.Utilisation); err != nil {
		return nil, usageError{err}
	}
	s.shard = s.service.Rate / b.Rate
	return s, nil
}

// simulate serves in virtual time.
func (s *serveBench) simulate(ctx context.Context, strategies []sim.Strategy, emit func(serveRow) error) error {
	for _, strategy := range strategies {
		s.service.Strategy = strategy
		served, err := sim.Serve(ctx, s.service)
		if err != nil {
			return err
		}
		times := make([]float64, 0, len(served.Times))
		for _, t := range served.Times {
			if !math.IsInf(t, 1) {
				times = append(times, t*s.shard)
			}
		}
		row := serveRow{Strategy: strategy.Name(), Chunks: chunksOf(strategy), Failed: served.Failed, Busy: served.Busy}
		row.fill(times)
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

// chunksOf is the number of chunks in a worker's share.
func chunksOf(s sim.Strategy) int {
	if a, ok := s.(sim.Adaptive); ok {
		return a.Chunks
	}
	return 1
}

// fill sums times up, in seconds, which it sorts.
func (r *serveRow) fill(times []float64) {
	r.Requests = len(times)
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	var sum float64
	for _, t := range times {
		sum += t
	}
	const ms = 1000
	r.MeanMS = ms * sum / float64(len(times))
	r.P50MS, r.P99MS, r.P999MS = ms*sim.Percentile(times, 0.5), ms*sim.Percentile(times, 0.99), ms*sim.Percentile(times, 0.999)
}

// complete adds what is common to the rows.
func (s *serveBench) complete(row serveRow, clock string) serveRow {
	row.System, row.Bench, row.Clock, row.Straggler = "coda", "serve", clock, s.straggler
	row.N, row.K, row.Rate, row.Utilisation = s.b.Workers, s.b.K, s.b.Rate, s.b.Utilisation
	row.Together, row.Seed = s.b.Together, s.b.Seed
	if row.Strategy == (sim.Uncoded{}).Name() {
		s.uncoded = row.P999MS
	}
	if s.uncoded > 0 {
		row.OfUncoded = row.P999MS / s.uncoded
	}
	return row
}
