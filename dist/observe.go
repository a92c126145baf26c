package dist

import (
	"fmt"
	"strings"
	"time"

	"github.com/coda-ml/coda/coded"
)

// Outcome is what became of a task that was handed out.
type Outcome uint8

// The outcomes.
const (
	TaskUsed      Outcome = iota // its result came while its chunk wanted it
	TaskWasted                   // its result came when its chunk had enough
	TaskCancelled                // called off before its result came
	TaskLost                     // its worker went, or fell too far behind; or its answer did not come
)

func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

var outcomes = [...]string{TaskUsed: "used", TaskWasted: "wasted", TaskCancelled: "cancelled", TaskLost: "lost"}

// TaskStats describe a task that is over: a chunk of a round, by one worker.
type TaskStats struct {
	Worker  string
	Slot    int
	Layer   string
	Product coded.Product
	Round   uint64
	Chunk   int
	Step    int
	Began   time.Time     // handed out
	Took    time.Duration // from then until it was answered or given up
	Compute time.Duration // as the worker measured it; 0 without an answer
	Outcome Outcome
}

// LinkStats are totals of a seat of a worker, over its present connection.
type LinkStats struct {
	Worker    string
	Slot      int           // -1: a spare
	Queue     int           // tasks handed out and not answered
	Behind    int           // updates that its slowest shard has still to apply
	Answered  int           // tasks, in time or too late
	Used      int           // of these, with a result that its chunk wanted
	Cancelled int           // tasks called off before an answer
	Work      float64       // spent on what was answered, measured as in Stats
	Wasted    float64       // of it, what no decoding used
	Compute   time.Duration // spent on what was answered, as the worker measured it
	BytesIn   int64         // from the worker; all of it at the first seat
	BytesOut  int64         // to it
}

// handout is a task that a worker has in hand.
type handout struct {
	began   time.Time
	layer   string
	product coded.Product
	step    int
	lost    bool // given up: see reclaim
	times   int  // it had been given up before
}

// handOut notes that a worker has been given a chunk of a round.
func (c *Coordinator) handOut(l *link, r *round, chunk int) {
	key, times := taskKey{r.id, chunk}, 0
	if t, again := l.tasks[key]; again {
		times = t.times + 1
		c.takeBack(l, key, TaskLost, 0)
	}
	l.tasks[key] = handout{began: time.Now(), layer: r.Layer, product: r.Product, step: r.Step, times: times}
}

// takeBack ends a task of a worker, if it has it, and says what became of it.
func (c *Coordinator) takeBack(l *link, key taskKey, outcome Outcome, compute time.Duration) {
	t, known := l.tasks[key]
	if !known {
		return
	}
	delete(l.tasks, key)
	if t.lost && outcome == TaskCancelled {
		outcome = TaskLost
	}
	switch outcome {
	case TaskUsed:
		l.stats.Used++
	case TaskCancelled:
		l.stats.Cancelled++
	}
	if c.cfg.OnTask != nil {
		c.cfg.OnTask(TaskStats{
			Worker: l.name, Slot: l.slot, Layer: t.layer, Product: t.product, Round: key.round, Chunk: key.chunk, Step: t.step,
			Began: t.began, Took: time.Since(t.began), Compute: compute, Outcome: outcome,
		})
	}
}

// takeAll ends all tasks of a worker that cannot do them any more.
func (c *Coordinator) takeAll(l *link) {
	for key := range l.tasks {
		c.takeBack(l, key, TaskLost, 0)
	}
}

// waste counts work of a worker that no decoding will use.
func (c *Coordinator) waste(l *link, work float64) {
	c.stats.Wasted += work
	l.stats.Wasted += work
}

// LinkStats returns the totals of every seat of a connected worker: those in slots,
// in order, then the spares.
func (c *Coordinator) LinkStats() []LinkStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []LinkStats
	for l := range c.links() {
		s := l.stats
		s.Worker, s.Slot, s.Queue = l.name, l.slot, l.load()
		s.Behind = c.version - oldest(c.version, l)
		if l.seat == 0 {
			s.BytesIn, s.BytesOut = l.conn.BytesIn(), l.conn.BytesOut()
		}
		all = append(all, s)
	}
	return all
}

// Ready tells whether rounds can be run: layers have been placed, and of each
// enough workers hold their shards. If not, the error says what is missing.
func (c *Coordinator) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case len(c.order) == 0:
		joined := 0
		for range c.links() {
			joined++
		}
		return fmt.Errorf("dist: no layer has been placed; %d workers have joined", joined)
	}
	var lacking []string
	for _, name := range c.order {
		p := c.layers[name]
		if fresh := c.fresh(name, c.version); !sufficient(p.code, fresh) {
			lacking = append(lacking, fmt.Sprintf("layer %s: %d of %d workers needed hold it; missing: %s",
				name, len(fresh), p.code.Threshold(), c.lacking(p, fresh)))
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("dist: %s", strings.Join(lacking, "; "))
	}
	return nil
}
