package dist

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// fetch gathers the states of a layer's slots at one version.
type fetch struct {
	id      uint64
	place   *placement
	version int
	pos     uint64 // of the log: after the version's update
	only    []int  // exactly these slots; nil: any sufficient set
	tensors []int  // of each state, these alone; none: all
	hedged  bool   // ask everybody
	all     bool   // ask everybody, and wait for them all
	asked   map[int]*link
	got     map[int][]coded.Tensor
	done    chan struct{} // closed when enough has come
	over    bool
	refused []int // slots that could not give it
}

// fetchHedge is how long Fetch waits for those it has asked before it asks all.
const fetchHedge = 2 * time.Second

// Fetch implements coded.Executor.
func (c *Coordinator) Fetch(ctx context.Context, layer string, tensors ...int) ([]coded.ShardState, error) {
	c.mu.Lock()
	var only []int
	if p := c.layers[layer]; p != nil && c.cfg.Replay != nil {
		only = c.replayFetch(p)
	}
	c.mu.Unlock()
	states, err := c.fetchFrom(ctx, layer, fetch{only: only, tensors: tensors})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.layers[layer]
	p.fetched = nil
	for _, s := range states {
		p.fetched = append(p.fetched, s.Slot)
	}
	if c.cfg.Record != nil {
		c.cfg.Record.fetch(layer, c.version, p.fetched)
	}
	return states, nil
}

// replayFetch returns the slots of the recorded fetch; of one that the recorded
// run did not make, the first that suffice.
func (c *Coordinator) replayFetch(p *placement) []int {
	if p.fetchedAt != c.version {
		p.fetchedAt, p.fetches = c.version, 0
	}
	p.fetches++
	if set := c.cfg.Replay.fetch(p.layer.Name, c.version, p.fetches-1); set != nil {
		return set
	}
	t := coded.NewTracker(p.code)
	var set []int
	for slot := 0; !t.Ready(); slot++ {
		if t.Add(slot) {
			set = append(set, slot)
		}
	}
	return set
}

// fetchFrom fetches what is asked for: from which slots, of all that are fresh, which
// tensors.
func (c *Coordinator) fetchFrom(ctx context.Context, layer string, asked fetch) ([]coded.ShardState, error) {
	f, err := c.startFetch(layer, asked)
	if err != nil {
		return nil, err
	}
	limit := c.cfg.RepairDeadline + c.cfg.Wait
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	defer c.endFetch(f)
	hedge := time.NewTimer(min(fetchHedge, limit/2))
	defer hedge.Stop()
	for {
		c.mu.Lock()
		changed, closed, possible := c.changed, c.closed, c.fetchable(f)
		hopeless := !possible && (c.cfg.Wait == 0 || !c.recoverable(f.place))
		c.mu.Unlock()
		if closed {
			return nil, ErrClosed
		}
		if hopeless {
			return nil, c.fetchError(f, context.Cause(ctx))
		}
		select {
		case <-f.done:
			return c.gathered(f)
		case <-hedge.C:
			c.hedge(f)
		case <-changed:
		case <-ctx.Done():
			return nil, c.fetchError(f, context.Cause(ctx))
		}
	}
}

func (c *Coordinator) startFetch(layer string, asked fetch) (*fetch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.layers[layer]
	switch {
	case c.closed:
		return nil, ErrClosed
	case p == nil:
		return nil, fmt.Errorf("dist: fetch: layer %s has not been placed", layer)
	}
	c.lastOp++
	f := &fetch{
		id: c.lastOp, place: p, only: asked.only, tensors: slices.Clone(asked.tensors), all: asked.all && asked.only == nil, version: c.version, pos: max(c.log.newest(), p.pos),
		asked: map[int]*link{}, got: map[int][]coded.Tensor{}, done: make(chan struct{}),
	}
	c.fetches[f.id] = f
	c.ask(f)
	return f, nil
}

// ask sends a fetch to the slots that are still needed for it.
func (c *Coordinator) ask(f *fetch) {
	if f.over {
		return
	}
	t := coded.NewTracker(f.place.code)
	for slot, l := range f.asked {
		if f.got[slot] == nil && (c.slots[slot] != l || l.shards[f.place.layer.Name] == nil) {
			delete(f.asked, slot)
		} else {
			t.Add(slot)
		}
	}
	for _, slot := range f.place.usualFirst(c.fresh(f.place.layer.Name, f.version)) {
		if f.asked[slot] != nil || slices.Contains(f.refused, slot) || f.only != nil && !slices.Contains(f.only, slot) {
			continue
		}
		if t.Ready() && !f.hedged && !f.all && f.only == nil {
			break
		}
		t.Add(slot)
		l := c.slots[slot]
		f.asked[slot] = l
		l.order(f.pos, &Message{Header: Header{Kind: KindFetch, Layer: f.place.layer.Name, Round: f.id, Slot: slot, State: f.version, Slots: f.wanted()}})
	}
	f.settle()
}

// wanted returns the numbers of the tensors that workers are asked for; none for all,
// which a test of the answers needs.
func (f *fetch) wanted() []int {
	if f.place.verifier != nil {
		return nil
	}
	return f.tensors
}

// usualFirst puts the slots of the last fetch first: two fetches after the same
// update then have the same weights to the bit, also in a replay that makes but
// one of them.
func (p *placement) usualFirst(slots []int) []int {
	slices.SortStableFunc(slots, func(a, b int) int {
		x, y := slices.Contains(p.fetched, a), slices.Contains(p.fetched, b)
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	return slots
}

// fetchable tells whether a fetch can still get enough.
func (c *Coordinator) fetchable(f *fetch) bool {
	can := slices.Collect(func(yield func(int) bool) {
		for slot := range f.got {
			if !yield(slot) {
				return
			}
		}
	})
	for _, slot := range c.alive(f.place.layer.Name) {
		if f.got[slot] == nil && !slices.Contains(f.refused, slot) {
			can = append(can, slot)
		}
	}
	if f.only != nil {
		for _, slot := range f.only {
			if !slices.Contains(can, slot) {
				return false
			}
		}
		return true
	}
	return sufficient(f.place.code, can)
}

// onState takes the state of a slot.
func (c *Coordinator) onState(l *link, m *Message) error {
	f := c.fetches[m.Round]
	if f == nil || f.over || f.asked[l.slot] != l || f.got[l.slot] != nil {
		return nil // not needed any more
	}
	if m.Error != "" {
		delete(f.asked, l.slot)
		f.refused = append(f.refused, l.slot)
		c.ask(f)
		return nil
	}
	if n := len(f.wanted()); m.State != f.version || len(m.Tensors) == 0 || n > 0 && len(m.Tensors) != n {
		return fmt.Errorf("layer %s: state after update %d with %d tensors, want update %d and tensors %v (none: all)",
			m.Layer, m.State, len(m.Tensors), f.version, f.wanted())
	}
	f.got[l.slot] = slices.Clone(m.Tensors)
	clear(m.Tensors)
	f.settle()
	return nil
}

func (f *fetch) complete() bool {
	if f.only != nil {
		return len(f.got) == len(f.only)
	}
	if f.all && !f.answered() {
		return false
	}
	t := coded.NewTracker(f.place.code)
	for slot := range f.got {
		t.Add(slot)
	}
	return t.Ready()
}

// gathered lists what a complete fetch has got.
func (c *Coordinator) gathered(f *fetch) ([]coded.ShardState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var states []coded.ShardState
	for slot := range f.place.code.N() {
		state := f.got[slot]
		if state == nil {
			continue
		}
		if len(f.wanted()) < len(f.tensors) { // all were asked for
			var err error
			if state, err = coded.SelectTensors(state, f.tensors); err != nil {
				return nil, fmt.Errorf("dist: fetch layer %s, slot %d: %w", f.place.layer.Name, slot, err)
			}
		}
		states = append(states, coded.ShardState{Slot: slot, State: state})
	}
	return states, nil
}

func (c *Coordinator) endFetch(f *fetch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.over = true
	delete(c.fetches, f.id)
}

func (c *Coordinator) fetchError(f *fetch, cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var have []int
	for slot := range f.got {
		have = append(have, slot)
	}
	err := fmt.Errorf("dist: fetch layer %s after update %d: %w: %d of %d workers needed; missing: %s",
		f.place.layer.Name, f.version, coded.ErrTooFewResults, len(have), f.place.code.Threshold(), c.lacking(f.place, have))
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
