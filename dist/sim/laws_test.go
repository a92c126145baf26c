package sim

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// bounds are strategies with what a worker holds of the work.
func bounds(n, k int, work float64) map[Strategy]float64 {
	m := map[Strategy]float64{
		Uncoded{}:           work / float64(n),
		Replicated{1}:       work / float64(n),
		Speculative{}:       work,
		Speculative{0.5, 1}: work,
		Stealing{7}:         work,
		MDS{k}:              work / float64(k),
		Adaptive{k, 1}:      work / float64(k),
		Adaptive{k, 5}:      work / float64(k),
		Partial{k, 5}:       work / float64(k),
		Rateless{0, 2, 40}:  math.Ceil(2*40/float64(n)) * work / 40,
	}
	if n%2 == 0 {
		m[Replicated{2}] = 2 * work / float64(n)
	}
	return m
}

// No strategy beats the ideal of what its workers hold, whatever the network and
// the stragglers; what decoding used is the work, and was spent by then.
func TestNobodyBeatsTheIdeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		job := KOfN(n, k)
		spec := rapid.SampledFrom([]string{
			"none", "exp=1", "pareto=1,1.1", "delay:*@exp=1;slow:1@x=3", "burst:*@enter=0.3,leave=0.3,x=5", "preempt:*@leave=0.1,back=0.5",
		}).Draw(t, "model")
		m, err := ParseModel(spec, n)
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Job: job, Model: m, Seed: rapid.Uint64().Draw(t, "seed"), Rounds: 3, Queue: rapid.IntRange(1, 3).Draw(t, "queue")}
		if rapid.Bool().Draw(t, "network") {
			c.Link = Link{Latency: 0.01, Operand: 0.1, Result: 0.05, Message: rapid.SampledFrom([]float64{0, 0.02, 0.5}).Draw(t, "message")}
		}
		for s, held := range bounds(n, k, job.Work) {
			c.Strategy, c.Job.Held = s, held
			sum, err := Run(context.Background(), c)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range sum.Rounds {
				if r.Time < r.Ideal*(1-1e-9) {
					t.Fatalf("%#v: round %d takes %v, ideally %v", s, i+1, r.Time, r.Ideal)
				}
				if !math.IsInf(r.Time, 1) && math.Abs(r.Used-job.Work) > 1e-9 && s.Name() != "replicated" || r.Spent < r.Used-1e-9 {
					t.Fatalf("%#v: round %d: %+v, want a use of %v", s, i+1, r, job.Work)
				}
				if done, _ := progress(paces(m, n, c.Seed, i+1), math.Inf(1), r.Time); !math.IsInf(r.Time, 1) && r.Spent > done+1e-9 {
					t.Fatalf("%#v: round %d: %v spent, the workers cannot do more than %v", s, i+1, r.Spent, done)
				}
			}
		}
	})
}

// watched fails when the adaptive schedule gives out what need not be done while
// there is something else, or gives a worker a chunk twice.
type watched struct {
	Strategy
	k    int
	fail func(format string, args ...any)
}

func (s watched) Plan(j Job) (*Plan, error) {
	p, err := s.Strategy.Plan(j)
	if err != nil {
		return nil, err
	}
	schedule := p.Schedule
	p.Schedule = func() Schedule { return &watch{Schedule: schedule(), s: s, given: map[[2]int]bool{}} }
	return p, nil
}

type watch struct {
	Schedule
	s     watched
	cover [5]int
	given map[[2]int]bool
}

func (w *watch) Reset() {
	w.Schedule.Reset()
	w.cover = [5]int{}
	clear(w.given)
}

func (w *watch) Start(worker, chunk int, now float64) {
	if w.given[[2]int{worker, chunk}] || w.Ready(chunk) {
		w.s.fail("worker %d is given chunk %d again, or when it is ready", worker, chunk)
	}
	for other, cover := range w.cover {
		if w.cover[chunk] >= w.s.k && cover < w.s.k && !w.given[[2]int{worker, other}] {
			w.s.fail("worker %d doubles up on chunk %d while chunk %d has a cover of %d", worker, chunk, other, cover)
		}
	}
	w.given[[2]int{worker, chunk}] = true
	w.cover[chunk]++
	w.Schedule.Start(worker, chunk, now)
}

func TestAdaptiveDoublesUpLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "n")
		k := rapid.IntRange(1, n).Draw(t, "k")
		_, err := Run(context.Background(), Config{
			Job: KOfN(n, k), Strategy: watched{Adaptive{k, 5}, k, t.Fatalf}, Model: Slow{By: Pareto{1, 1}},
			Seed: rapid.Uint64().Draw(t, "seed"), Rounds: 4, Queue: rapid.IntRange(1, 3).Draw(t, "queue"),
			Link: Link{Latency: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "latency")},
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// The results are those of the seed, to the bit, however many goroutines work.
func TestDeterminism(t *testing.T) {
	c := Config{
		Job: KOfN(8, 6), Strategy: Adaptive{6, 12}, Model: model(t, "slow:*@exp=1;burst:*@enter=0.1,leave=0.1,x=4", 8),
		Seed: 5, Rounds: 300, Queue: 2, Link: Link{Latency: 0.01},
	}
	want := simulate(t, c)
	for _, threads := range []int{1, 2, 5} {
		c.Threads = threads
		if got := simulate(t, c); !reflect.DeepEqual(got, want) {
			t.Errorf("%d goroutines give other results", threads)
		}
	}
	c.Seed++
	if got := simulate(t, c); got.Mean == want.Mean {
		t.Error("another seed gives the same results")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if _, err := Run(ctx, Config{Job: KOfN(2, 1), Strategy: Uncoded{}, Rounds: 1 << 20}); !errors.Is(err, stopped) {
		t.Errorf("error %v, want %v", err, stopped)
	}
}

// interrupted is Uncoded whose first result ends the context.
type interrupted struct {
	Uncoded
	cancel   func()
	finished *int
}

func (s interrupted) Plan(j Job) (*Plan, error) {
	plan, err := s.Uncoded.Plan(j)
	if err != nil {
		return nil, err
	}
	inner := plan.Schedule
	plan.Schedule = func() Schedule { return &interruptedSchedule{inner(), s} }
	return plan, nil
}

type interruptedSchedule struct {
	Schedule
	by interrupted
}

func (s *interruptedSchedule) Finish(worker, chunk int, now float64) (useful, ready bool) {
	s.by.cancel()
	*s.by.finished++
	return s.Schedule.Finish(worker, chunk, now)
}

// A round of many workers is given up in its middle.
func TestInterruptedRound(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	finished := 0
	_, err := Run(ctx, Config{Job: KOfN(4000, 4000), Strategy: interrupted{Uncoded{}, cancel, &finished}, Rounds: 1})
	if !errors.Is(err, context.Canceled) || finished < 1 || finished > heed {
		t.Errorf("%d results after the context had ended, error %v", finished, err)
	}
}
