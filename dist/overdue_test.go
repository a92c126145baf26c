package dist

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// dropping makes a worker compute, and not answer, whenever lost says so.
func dropping(lost func(ProductInfo) bool) func(*WorkerConfig) {
	return func(cfg *WorkerConfig) {
		cfg.Tamper = func(i ProductInfo, _ int, _ coded.Tensor) bool { return !lost(i) }
	}
}

// brisk makes a chunk of fc1's products take a quarter of a millisecond.
func brisk(cfg *WorkerConfig) { cfg.Pace = 600e-6 }

// Every third answer is lost and no worker can be done without: what is lost is
// asked for again, whatever the strategy, and the products are right.
func TestLostAnswersAreAskedForAgain(t *testing.T) {
	for name, strategy := range map[string]Strategy{"adaptive": Adaptive, "in order": InOrder, "speculative": Speculative} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var longest time.Duration
				cl := newCluster(t, CoordinatorConfig{Slots: 6, Strategies: map[string]Strategy{"fc1": strategy}, OnRound: func(s RoundStats) {
					mu.Lock()
					defer mu.Unlock()
					longest = max(longest, s.Took)
				}})
				var answers atomic.Int64
				cl.start(0, 4, brisk, dropping(func(ProductInfo) bool { return answers.Add(1)%3 == 0 }))
				m := newFC1()
				cl.place(m)
				for step := 1; step <= 40; step++ {
					cl.train(m, step, step) // which checks the products
				}
				// Of the 12 answers of a round at most 4 are lost, of their repetitions 2,
				// then 1, and 1 again: 100, 200, 300 and 400 ms are waited for them.
				mu.Lock()
				defer mu.Unlock()
				if longest > 1100*time.Millisecond {
					t.Errorf("a round took %v, want half of the least deadline, 2 s", longest)
				}
				if lost := answers.Load() / 3; int64(cl.c.Stats().Overdue) != lost || lost < 40 {
					t.Errorf("%d tasks were given up, %d answers were lost", cl.c.Stats().Overdue, lost)
				}
			})
		})
	}
}

// The very first answer is asked for again as well, long before the deadline.
func TestFirstAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 1, FirstDeadline: 8 * time.Second})
		var once sync.Once
		cl.start(0, 1, dropping(func(ProductInfo) (lost bool) {
			once.Do(func() { lost = true })
			return lost
		}))
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 1, 10, 10), 1)
		cl.place(m)
		begin := time.Now()
		cl.train(m, 1, 1)
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("a step with a lost answer took %v, want a quarter of the deadline, 2 s", took)
		}
		cl.train(m, 2, 2)
	})
}

// A worker that is only slow is asked twice and answers once; what it answers is
// used.
func TestSlowAnswerIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard outcomesOf
		spec := coded.Spec{Name: "trigonometric", N: 4, K: 4}
		cl := newCluster(t, CoordinatorConfig{Slots: 4, MinDeadline: 20 * time.Second, OnTask: heard.add})
		cl.start(0, 1, brisk, func(cfg *WorkerConfig) {
			cfg.Slow = func(i ProductInfo) float64 {
				if i.Step == 30 {
					return 10000
				}
				return 1
			}
		})
		cl.start(1, 4, brisk)
		m := newToyModel(toyLayer("fc1", spec, 3, 12, 24), 1)
		cl.place(m)
		cl.train(m, 1, 29)
		if n := cl.c.Stats().Overdue; n != 0 {
			t.Fatalf("%d tasks of workers that are always as fast were given up", n)
		}
		cl.train(m, 30, 30)
		if n := cl.c.Stats().Overdue; n == 0 {
			t.Error("no task of a worker that is 10000 times as slow was given up")
		}
		synctest.Wait()
		if used, lost, other := heard.of("worker-1", 30); used != 2*m.layer.Chunks || lost == 0 || other != 0 {
			t.Errorf("of worker-1's tasks %d were used, %d lost, %d neither; want all %d chunks used and some lost",
				used, lost, other, 2*m.layer.Chunks)
		}
		if w := cl.c.Stats().Wasted; w != 0 {
			t.Errorf("%g flops were wasted, want none: the worker must not begin a task twice", w)
		}
	})
}

// of counts what became of a worker's tasks of a step.
func (o *outcomesOf) of(worker string, step int) (used, lost, other int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.all {
		switch {
		case s.Worker != worker || s.Step != step:
		case s.Outcome == TaskUsed:
			used++
		case s.Outcome == TaskLost:
			lost++
		default:
			other++
		}
	}
	return used, lost, other
}

// Every product has its own times, that of two factors too.
func TestTurnaroundsOfEveryProduct(t *testing.T) {
	var all turnarounds
	for p := coded.Forward; p <= coded.Gradient; p++ {
		for range patienceWarmUp {
			all.observe(p, time.Duration(p)*time.Second)
		}
	}
	for p := coded.Forward; p <= coded.Gradient; p++ {
		if got, want := all[p].quantile(0.99), time.Duration(p)*time.Second; got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}
