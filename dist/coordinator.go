package dist

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

// Coordinator runs the rounds of placed layers on workers. It is a
// coded.Executor, whose methods belong to one goroutine; the others are safe
// for concurrent use.
type Coordinator struct {
	cfg     CoordinatorConfig
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup // the goroutines of every line
	notices *notices
	buffers bufferPool

	mu        sync.Mutex
	closed    bool
	slots     []*link // by slot; nil: nobody
	spares    []*link
	seated    bool                // a worker has several seats
	paces     map[string]*pace    // by the name of the worker
	move      *move               // of a slot; nil: none
	balanceAt int                 // update at which the loads are looked at
	memory    map[string]int      // the slot that a name had last
	missing   []string            // by slot: who is missing, and why
	refused   error               // why the last worker that could not be connected was not
	doubles   map[string]bool     // the names of which a second worker has been reported
	suspects  map[string]*suspect // by name
	layers    map[string]*placement
	order     []string // of placement
	log       opLog
	version   int // updates so far
	applied   int // step of the last update
	step      int // newest step heard of
	lastID    uint64
	lastOp    uint64   // begins at random: workers may know numbers of a coordinator before this one
	resume    uint64   // number of the copies to go on with; 0: none
	rounds    []*round // that want results, oldest first
	fetches   map[uint64]*fetch
	repairs   map[uint64]*repair
	wanting   bool // a repair waits for donors that lag
	deadline  roundDeadline
	stats     Stats
	low       map[string]bool
	doubted   map[string]bool // workers of whom a large residual has been logged
	changed   chan struct{}   // closed and replaced at every change of a worker or a holding
}

// placement is a layer on the cluster.
type placement struct {
	layer    coded.Layer
	code     *coded.Code
	id       uint64
	version  int              // updates at the time
	pos      uint64           // of the log
	states   [][]coded.Tensor // by slot, of slots without a worker, until the first update
	due      []bool           // by slot, during Place: its state is still to come; nil: none is
	absent   []bool           // by slot: its worker was lost with the shard, and may come back with it
	covers   []*cover         // for reuse
	habits   *schedule.Habits // of the slots
	empty    bool             // of a code of two factors, whose shards hold nothing
	verifier *verifier        // nil: answers are not tested

	// These tell of sets of slots; nil if chunks are decoded together.
	conditions *coded.Decoder
	agreement  *coded.Agreement
	warned     bool // of a condition number above the limit

	offers map[int]*link // by slot, during Place: the workers that are to use their own copy

	turnarounds turnarounds
	cost        [coded.Gradient + 1]float64 // by product: work on the last chunk
	updateCost  float64                     // work on a shard's gradients of the last step

	rough      bool      // a repair would amplify rounding too much
	roughUntil time.Time // no rebuild before

	fetched   []int // slots of the last Fetch
	fetches   int   // in a replay: since fetchedAt
	fetchedAt int   // version

	keptStep int    // step of the operands counted in kept
	kept     [3]int // by product: operands kept since the last update
}

var _ coded.Executor = (*Coordinator)(nil)

// ErrClosed is the error of a coordinator or a worker that has been closed.
var ErrClosed = errors.New("dist: closed")

// NewCoordinator returns a coordinator without workers. Close ends it.
func NewCoordinator(cfg CoordinatorConfig) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Coordinator{
		cfg:      cfg,
		notices:  newNotices(),
		slots:    make([]*link, cfg.Slots),
		paces:    map[string]*pace{},
		memory:   map[string]int{},
		missing:  make([]string, cfg.Slots),
		doubles:  map[string]bool{},
		suspects: map[string]*suspect{},
		layers:   map[string]*placement{},
		log:      opLog{keep: cfg.History, least: cfg.Window + 1},
		fetches:  map[uint64]*fetch{},
		repairs:  map[uint64]*repair{},
		deadline: newRoundDeadline(cfg.FirstDeadline, cfg.MinDeadline, cfg.MaxDeadline),
		low:      map[string]bool{},
		doubted:  map[string]bool{},
		changed:  make(chan struct{}),
	}
	for i := range c.missing {
		c.missing[i] = fmt.Sprintf("slot %d (no worker has joined)", i)
	}
	c.resume = cfg.Resume
	c.lastOp = rand.Uint64N(1<<62) + 1
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Run returns the identity of the run.
func (c *Coordinator) Run() string { return c.cfg.Run }

// Close takes leave of the workers, which then are free for another run, and
// ends every goroutine. Rounds under way fail with ErrClosed.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	for _, r := range slices.Clone(c.rounds) {
		c.endRound(r, r.fail(ErrClosed))
	}
	for l := range c.lines() {
		l.ordered = nil
		l.say(&Message{Header: Header{Kind: KindBye}})
	}
	c.broadcast()
	c.mu.Unlock()

	// A worker that does not answer the goodbye is left behind.
	const grace = 2 * time.Second
	timer := time.AfterFunc(grace, c.cancel)
	c.wg.Wait()
	timer.Stop()
	c.cancel()
	c.notices.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.clear()
	for _, p := range c.layers {
		p.verifier.close()
	}
	if c.cfg.Record != nil {
		return c.cfg.Record.Flush()
	}
	return nil
}

// links gives the seats of every connected worker: those in slots, in order, then spares.
func (c *Coordinator) links() func(yield func(*link) bool) {
	return func(yield func(*link) bool) {
		for _, l := range slices.Concat(c.slots, c.spares) {
			if l != nil && !yield(l) {
				return
			}
		}
	}
}

// broadcast wakes whoever waits for a change of the cluster.
func (c *Coordinator) broadcast() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// wakeAll lets every sender look again.
func (c *Coordinator) wakeAll() {
	for l := range c.lines() {
		signal(l.wake)
	}
}

// await calls ok under the lock, now and after every change, until it is true.
func (c *Coordinator) await(ctx context.Context, ok func() bool) error {
	for {
		c.mu.Lock()
		done, closed, changed := ok(), c.closed, c.changed
		c.mu.Unlock()
		switch {
		case done:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitWorkers waits until at least n workers have joined.
func (c *Coordinator) AwaitWorkers(ctx context.Context, n int) error {
	return c.awaitJoined(ctx, n, "workers", func() (have int) {
		for range c.lines() {
			have++
		}
		return have
	})
}

// AwaitSeats waits until at least n seats have joined, of whichever workers.
func (c *Coordinator) AwaitSeats(ctx context.Context, n int) error {
	return c.awaitJoined(ctx, n, "seats of workers", func() (have int) {
		for range c.links() {
			have++
		}
		return have
	})
}

// awaitJoined waits until so many of something have joined; count is called under
// the lock.
func (c *Coordinator) awaitJoined(ctx context.Context, n int, what string, count func() int) error {
	have := 0
	err := c.await(ctx, func() bool { have = count(); return have >= n })
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		err = fmt.Errorf("%w; the last that could not: %w", err, c.refused)
	}
	return fmt.Errorf("dist: %d of %d %s have joined: %w", have, n, what, err)
}

// Workers returns the names of the connected workers by slot, empty for a slot
// without one, and then those of the spares; each seat counts for itself.
func (c *Coordinator) Workers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]string, len(c.slots), len(c.slots)+len(c.spares))
	for i, l := range c.slots {
		if l != nil {
			names[i] = l.name
		}
	}
	for _, l := range c.spares {
		names = append(names, l.name)
	}
	return names
}

// Low tells whether a layer can lose no more workers, as OnLow reports it.
func (c *Coordinator) Low() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, low := range c.low {
		if low {
			return true
		}
	}
	return false
}

// fresh returns the slots that can be asked for products of a layer, in order.
func (c *Coordinator) fresh(layer string, version int) []int {
	var slots []int
	for slot, l := range c.slots {
		if l != nil && l.shards[layer].fresh(version) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// held returns the slots that have a layer, however far they lag, in order.
func (c *Coordinator) held(layer string) []int {
	var slots []int
	for slot, l := range c.slots {
		if l != nil && l.shards[layer] != nil && l.shards[layer].held {
			slots = append(slots, slot)
		}
	}
	return slots
}

func sufficient(code *coded.Code, slots []int) bool {
	t := coded.NewTracker(code)
	for _, s := range slots {
		t.Add(s)
	}
	return t.Ready()
}

// checkLow reports the layers that have come to hang on their last workers.
func (c *Coordinator) checkLow() {
	for _, name := range c.order {
		p := c.layers[name]
		var held []int
		placing := p.due != nil
		for slot, l := range c.slots {
			if l == nil || l.shards[name] == nil {
				continue
			}
			if h := l.shards[name]; h.held {
				held = append(held, slot)
			} else {
				placing = placing || h.source == p.id
			}
		}
		if placing {
			continue
		}
		low := len(held)-max(1, c.most(held)) < p.code.Threshold() && len(c.spares) == 0 && p.code.N() > p.code.Threshold()
		if low && !c.low[name] && c.cfg.OnLow != nil {
			notice := Low{Layer: name, Fresh: len(held), Step: c.step}
			c.notices.post(func() { c.cfg.OnLow(notice) })
		}
		c.low[name] = low
	}
}

// report logs an event and posts it.
func (c *Coordinator) report(l *link, state, reason string) {
	e := Event{Time: time.Now(), Worker: l.name, Slot: l.slot, State: state, Step: c.step, Reason: reason}
	c.notices.post(func() {
		e.log(c.cfg.Log)
		if c.cfg.OnEvent != nil {
			c.cfg.OnEvent(e)
		}
	})
}
