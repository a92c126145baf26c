package sim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/dist/internal/schedule"
)

// learning is Adaptive with workers whose habits are known from earlier rounds, as
// the coordinator knows them.
type learning struct{ Adaptive }

func (s learning) Plan(j Job) (*Plan, error) {
	p, err := s.Adaptive.Plan(j)
	if err != nil {
		return nil, err
	}
	p.Schedule = func() Schedule {
		return schedule.NewPulled(counting(s.Chunks, s.K), j.Workers, s.Chunks, schedule.NewHabits(j.Workers))
	}
	return p, nil
}

// sharing are workers that share processors: each runs for some time and then waits
// for some, over and over, both exponential with these means.
type sharing struct{ on, off float64 }

func (m sharing) Apply(paces []Pace, seed uint64, round int) {
	for w := range paces {
		rng := rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(w)))
		runs := rng.Float64() < m.on/(m.on+m.off)
		p := Pace{Slowness: 1}
		if !runs {
			p.Slowness = math.Inf(1)
		}
		for t := 0.0; t < 20; {
			mean, next := m.off, Change{Slowness: 1}
			if runs {
				mean, next.Slowness = m.on, math.Inf(1)
			}
			t += mean * rng.ExpFloat64()
			next.At, runs = t, !runs
			p.Changes = append(p.Changes, next)
		}
		paces[w] = p
	}
}

func (sharing) String() string { return "sharing" }

// Workers that share processors waste much less when their habits are known, and
// lose little time by it. The simulator's own rounds know nothing of each other.
func TestHabitsSaveWork(t *testing.T) {
	for _, m := range []sharing{{0.05, 0.1}, {0.1, 0.1}, {0.1, 0.2}} {
		c := Config{Job: KOfN(6, 4), Strategy: Adaptive{4, 4}, Model: m, Seed: 3, Rounds: 200, Queue: 2, Link: Link{Latency: 0.02}}
		without := simulate(t, c)
		c.Strategy = learning{Adaptive{4, 4}}
		with := simulate(t, c)
		if with.Wasted > 0.6*without.Wasted || with.Mean > 1.1*without.Mean {
			t.Errorf("%v: %.1f %% wasted in %.3f times the ideal, knowing habits %.1f %% in %.3f", m, 100*without.Wasted, without.Ratio, 100*with.Wasted, with.Ratio)
		}
	}
}

// Where workers are steady within a round, to know their habits changes next to
// nothing, however fast each is in which round.
func TestHabitsOfSteadyWorkers(t *testing.T) {
	for _, spec := range []string{"none", "shifted-exp=1,1", "slow:1@x=5", "some:2@x=2", "pareto=1,2", "burst:*@enter=0.05,leave=0.2,x=5"} {
		c := Config{Job: KOfN(8, 6), Strategy: Adaptive{6, 48}, Model: model(t, spec, 8), Seed: 3, Rounds: 200, Queue: 2, Link: Link{Latency: 0.004}}
		without := simulate(t, c)
		c.Strategy = learning{Adaptive{6, 48}}
		if with := simulate(t, c); math.Abs(with.Mean-without.Mean) > 0.01*without.Mean || with.Wasted > without.Wasted+0.002 {
			t.Errorf("%s: %.4f times the ideal, %.2f %% wasted, knowing habits %.4f, %.2f %%", spec, without.Ratio, 100*without.Wasted, with.Ratio, 100*with.Wasted)
		}
	}
}
