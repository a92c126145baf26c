package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Config says what to simulate. Job, Strategy and Rounds are required.
type Config struct {
	Job      Job
	Strategy Strategy
	Model    Model // nil: None
	Seed     uint64
	Rounds   int // numbered from 1

	Link    Link
	Queue   int // tasks that a worker is given ahead; 0: one
	Threads int // goroutines; 0: one. The results do not depend on it
}

// Summary sums rounds up. Means and percentiles are over the rounds that ended.
type Summary struct {
	Rounds []Round
	Failed int     // rounds that never ended: too few workers were left
	Mean   float64 // time of a round
	P99    float64
	Ideal  float64 // mean
	Ratio  float64 // Mean over Ideal
	Wasted float64 // fraction of the work whose results no decoding used
}

// MaxWorkers is the largest number of workers of a job.
const MaxWorkers = 1 << 20

const maxRounds = 1 << 24

func (c *Config) check() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf("sim: "+format, args...)) }
	if c.Strategy == nil {
		bad("no strategy")
	}
	if c.Job.Workers < 1 || c.Job.Workers > MaxWorkers {
		bad("%d workers, want 1 to %d", c.Job.Workers, MaxWorkers)
	}
	if c.Rounds < 1 || c.Rounds > maxRounds {
		bad("%d rounds, want 1 to %d", c.Rounds, maxRounds)
	}
	if !(c.Job.Work > 0) || !(c.Job.Work <= maxParameter) || !(c.Job.Held >= 0) {
		bad("work %v, of which a worker holds %v, want a positive amount up to 1e6 and 0 or more", c.Job.Work, c.Job.Held)
	}
	if !(c.Link.Latency >= 0) || !(c.Link.Operand >= 0) || !(c.Link.Result >= 0) || !(c.Link.Message >= 0) {
		bad("link %+v, want times from 0", c.Link)
	}
	if c.Queue < 0 || c.Threads < 0 {
		bad("queue %d, threads %d, want 0 or more", c.Queue, c.Threads)
	}
	if t, ok := tooSmall(c.Model, c.Job.Workers); ok {
		bad("%v has %d workers, want %d", t, t.workers, c.Job.Workers)
	}
	return errors.Join(problems...)
}

// Run simulates the rounds, each of which begins with all workers free. It ends
// early only when the context does.
func Run(ctx context.Context, c Config) (*Summary, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Model == nil {
		c.Model = None{}
	}
	if c.Job.Held == 0 {
		c.Job.Held = 1
	}
	plan, err := c.Strategy.Plan(c.Job)
	if err != nil {
		return nil, err
	}
	s := &Summary{Rounds: make([]Round, c.Rounds)}
	var next atomic.Int64
	var group sync.WaitGroup
	for range max(1, c.Threads) {
		group.Go(func() {
			e := newEngine(plan, c.Link, max(1, c.Queue))
			for i := next.Add(1); i <= int64(c.Rounds) && ctx.Err() == nil; i = next.Add(1) {
				s.Rounds[i-1] = c.round(ctx, e, int(i))
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("sim: %s: %w", c.Strategy.Name(), err)
	}
	s.sum()
	return s, nil
}

// round simulates one round.
func (c *Config) round(ctx context.Context, e *engine, number int) Round {
	draw(e.paces, c.Model, c.Seed, number)
	r := e.run(ctx)
	r.Ideal = Ideal(e.paces, c.Job.Held, c.Job.Work)
	return r
}

// sum adds the rounds up in their order.
func (s *Summary) sum() {
	var times []float64
	var time, ideal, spent, used float64
	for _, r := range s.Rounds {
		spent += r.Spent
		if math.IsInf(r.Time, 1) {
			s.Failed++
			continue
		}
		used += r.Used
		time += r.Time
		ideal += r.Ideal
		times = append(times, r.Time)
	}
	if spent > 0 {
		s.Wasted = 1 - used/spent
	}
	if len(times) == 0 {
		s.Mean, s.P99, s.Ideal, s.Ratio = math.Inf(1), math.Inf(1), math.Inf(1), 1
		return
	}
	n := float64(len(times))
	slices.Sort(times)
	s.Mean, s.Ideal, s.Ratio = time/n, ideal/n, time/ideal
	s.P99 = times[int(math.Ceil(0.99*n))-1]
}
