package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/coda-ml/coda/dist/sim"
)

// roundCase is who is slow when.
type roundCase struct {
	spec  string
	model sim.Model // nil: workers are frozen in turn
}

// Workers are frozen in turn: each for so many ideal rounds, out of so many.
const (
	defaultFreeze = "freeze"
	freezeRounds  = 5
	freezePeriod  = 20
)

func newRoundCase(spec string, workers int) (roundCase, error) {
	if spec == defaultFreeze {
		return roundCase{spec: spec}, nil
	}
	m, err := parseStraggler(spec, workers)
	if err != nil {
		return roundCase{}, err
	}
	for _, p := range sim.Paces(m, workers, 1, 1) {
		if len(p.Changes) > 0 || math.IsInf(p.Slowness, 1) {
			return roundCase{}, fmt.Errorf("worker processes have one speed for a round, want a factor for each")
		}
	}
	return roundCase{spec: spec, model: m}, nil
}

// drawn are the speeds of a round, but for freezes.
func (c roundCase) drawn(workers int, seed uint64, round int) []sim.Pace {
	if c.model == nil {
		return sim.Paces(sim.None{}, workers, seed, round)
	}
	return sim.Paces(c.model, workers, seed, round)
}

// paces are the speeds that the workers had in a round that began at a time.
func (c roundCase) paces(r *roundBench, round int, f *freezer, began time.Time) []sim.Pace {
	p := c.drawn(r.b.Workers, r.b.Seed, round)
	if f.frozen != nil {
		for w := range p {
			p[w] = f.pace(w, began, r.unit)
		}
	}
	return p
}

// freezer stops the workers one after the other for a time.
type freezer struct {
	began   time.Time
	ideal   time.Duration // of a round
	workers int
	frozen  func(worker int, stop bool) error // nil: nobody is frozen
	cancel  context.CancelFunc
	done    sync.WaitGroup
	err     error // valid when done
}

// freeze begins to freeze workers, if the case wants it.
func (c roundCase) freeze(ctx context.Context, r *roundBench) *freezer {
	if c.model != nil {
		return &freezer{}
	}
	f := &freezer{began: r.b.now(), ideal: r.unit * time.Duration(r.b.K) / time.Duration(r.b.Workers), workers: r.b.Workers}
	f.frozen = func(worker int, stop bool) error {
		if stop {
			return r.cluster.workers.signal(worker+1, stopSignal)
		}
		return r.cluster.workers.signal(worker+1, continueSignal)
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.done.Go(func() { f.err = f.run(ctx) })
	return f
}

func (f *freezer) run(ctx context.Context) error {
	for i := 0; ; i++ {
		worker := i % f.workers
		from, to := f.span(i)
		if !sleepUntil(ctx, from) {
			return nil
		}
		if err := f.frozen(worker, true); err != nil {
			return err
		}
		more := sleepUntil(ctx, to)
		if err := f.frozen(worker, false); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

// span is the time of the i-th freeze. The first one begins after half of the
// time that passes between two.
func (f *freezer) span(i int) (from, to time.Time) {
	from = f.began.Add(f.ideal * (freezePeriod*time.Duration(i) + (freezePeriod-freezeRounds)/2))
	return from, from.Add(freezeRounds * f.ideal)
}

// pace is that of a worker in a round, in units of its time for a full share.
func (f *freezer) pace(worker int, round time.Time, unit time.Duration) sim.Pace {
	p := sim.Pace{Slowness: 1}
	first := max(0, int(round.Sub(f.began)/(freezePeriod*f.ideal))-1)
	for i := first; i < first+3*f.workers; i++ {
		from, to := f.span(i)
		if i%f.workers != worker || !to.After(round) {
			continue
		}
		end := sim.Change{At: float64(to.Sub(round)) / float64(unit), Slowness: 1}
		if !from.After(round) {
			p = sim.Pace{Slowness: math.Inf(1), Changes: []sim.Change{end}}
			continue
		}
		p.Changes = append(p.Changes, sim.Change{At: float64(from.Sub(round)) / float64(unit), Slowness: math.Inf(1)}, end)
	}
	return p
}

// stop ends the freezing; nobody is frozen then.
func (f *freezer) stop() error {
	if f.frozen == nil {
		return nil
	}
	f.cancel()
	f.done.Wait()
	return f.err
}

// sleepUntil waits for a time. It tells whether that came before the context ended.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
