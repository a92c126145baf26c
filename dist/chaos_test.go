package dist

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded"
)

// Workers die, come back, freeze, lose their connections or their answers and
// leave, at random but never so that fewer than the needed shards are left: every
// product of the training is right.
func TestChaos(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			noLeaks(t)
			c := &chaos{t: t, rng: rand.New(rand.NewPCG(seed, 0)), frozen: map[string]int{}, lossy: map[string]int{}, away: map[string]bool{}}
			c.cl = newCluster(t, CoordinatorConfig{Slots: 6, History: 4, OnEvent: func(Event) {}})
			c.cl.start(0, 6, c.loses)
			m := newFC1()
			c.cl.place(m)
			for step := 1; step <= 60; step++ {
				c.strike(step)
				c.cl.train(m, step, step)
			}
			for name := range c.frozen {
				c.cl.thaw(name)
			}
		})
	}
}

type chaos struct {
	t      *testing.T
	cl     *cluster
	rng    *rand.Rand
	frozen map[string]int  // the step at which each thaws
	away   map[string]bool // the workers that have ended

	mu    sync.Mutex     // the workers look
	lossy map[string]int // the step at which each answers again
}

// loses makes a worker lose its answers when it is lossy.
func (c *chaos) loses(cfg *WorkerConfig) {
	cfg.Tamper = func(ProductInfo, int, coded.Tensor) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lossy[cfg.Name] == 0
	}
}

// lose makes a worker lossy until a step.
func (c *chaos) lose(name string, until int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lossy[name] = until
}

// strike heals what is due and breaks one thing, if that is bearable.
func (c *chaos) strike(step int) {
	for name, until := range c.frozen {
		if step >= until {
			c.cl.thaw(name)
			delete(c.frozen, name)
		}
	}
	for name, until := range c.lossy { // this goroutine alone writes
		if step >= until {
			c.lose(name, 0)
		}
	}
	name := fmt.Sprintf("worker-%d", 1+c.rng.IntN(6))
	what := c.rng.IntN(6)
	if c.away[name] {
		if what < 3 {
			c.cl.add(name, c.loses)
			delete(c.away, name)
		}
		return
	}
	if _, frozen := c.frozen[name]; frozen || !c.bearable() {
		return
	}
	switch what {
	case 0:
		c.cl.kill(name)
		c.away[name] = true
	case 1:
		w := c.cl.workers[name]
		w.end()
		<-w.done
		<-w.gone
		delete(c.cl.workers, name)
		c.away[name] = true
	case 2:
		c.cl.freeze(name)
		c.frozen[name] = step + 1 + c.rng.IntN(12)
	case 3:
		c.lose(name, step+1+c.rng.IntN(6))
	case 4:
		c.cl.cut(name)
		c.cl.connect(c.cl.workers[name])
	}
}

// bearable tells whether enough shards are left when any worker is lost. It
// waits a little for repairs under way.
func (c *chaos) bearable() bool {
	ctx := c.t.Context()
	deadline := time.Now().Add(15 * time.Millisecond)
	for ctx.Err() == nil {
		c.cl.c.mu.Lock()
		fresh, changed := c.cl.c.fresh("fc1", c.cl.c.version), c.cl.c.changed
		c.cl.c.mu.Unlock()
		left := 0
		for _, slot := range fresh {
			name := fmt.Sprintf("worker-%d", slot+1)
			if _, frozen := c.frozen[name]; !frozen && c.lossy[name] == 0 {
				left++
			}
		}
		if left >= 5 {
			return true
		}
		select {
		case <-changed:
		case <-time.After(time.Until(deadline)):
			return false
		}
	}
	return false
}
