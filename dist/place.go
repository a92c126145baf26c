package dist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

// placeGrace is how long Place waits for the slow ones after enough workers
// have taken their shards.
const placeGrace = 5 * time.Second

var errPlacedAnew = errors.New("the layer has been placed anew")

// Place implements coded.Executor. It returns when every worker in a slot has
// acknowledged its shard; or, a few seconds after enough of them have, without
// the others, which are asked for products when they have. With too few workers
// it waits for them as long as a repair may take and Wait says.
func (c *Coordinator) Place(ctx context.Context, l coded.Layer, state func(slot int) ([]coded.Tensor, error)) error {
	c.mu.Lock()
	c.spread()
	c.mu.Unlock()
	p, err := c.prepare(l, state)
	if err != nil {
		return fmt.Errorf("dist: place layer %s: %w", l.Name, err)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.install(p)
	c.mu.Unlock()
	if err := c.newDelivery(p).run(ctx, state); err != nil {
		return fmt.Errorf("dist: place layer %s: %w", l.Name, err)
	}
	limit := c.cfg.RepairDeadline + c.cfg.Wait
	bounded, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer stop()
	defer c.endOffers(p)
	if err := c.awaitPlaced(bounded, p, state, func() bool { have, _ := c.placed(p); return sufficient(p.code, have) }); err != nil {
		return fmt.Errorf("dist: place layer %s: %w", l.Name, c.notPlaced(p, err))
	}
	grace, cancel := context.WithTimeout(ctx, placeGrace)
	defer cancel()
	err = c.awaitPlaced(grace, p, state, func() bool { _, all := c.placed(p); return all })
	if err != nil && grace.Err() == nil || ctx.Err() != nil {
		return fmt.Errorf("dist: place layer %s: %w", l.Name, err)
	}
	return nil
}

// prepare builds the code, and a copy of the states of all slots where a delivery cannot
// take them one by one.
func (c *Coordinator) prepare(l coded.Layer, state func(slot int) ([]coded.Tensor, error)) (*placement, error) {
	if l.Name == "" || l.Chunks < 1 {
		return nil, fmt.Errorf("layer %q of %d chunks, want a name and at least 1", l.Name, l.Chunks)
	}
	code, err := coded.New(l.Code)
	if err != nil {
		return nil, err
	}
	if code.N() > c.cfg.Slots {
		return nil, fmt.Errorf("its code has %d slots, the cluster %d", code.N(), c.cfg.Slots)
	}
	if err := c.cfg.Strategies[l.Name].check(l, code); err != nil {
		return nil, err
	}
	l.Config = slices.Clone(l.Config)
	p := &placement{layer: l, code: code, habits: schedule.NewHabits(code.N()), states: make([][]coded.Tensor, code.N()), absent: make([]bool, code.N())}
	if c.cfg.Strategies[l.Name] != Joint {
		p.conditions, p.agreement = c.newConditions(code), newAgreement(code)
	}
	p.offers = c.offered(l)
	if code.Row(0) != nil && !c.verifies(l) {
		p.due = make([]bool, code.N())
		for slot := range p.due {
			p.due[slot] = p.offers[slot] == nil
		}
		return p, nil
	}
	// Whether there are shards at all, and how to test them, takes all states.
	for slot := range p.states {
		if p.offers[slot] != nil {
			continue
		}
		if p.states[slot], err = stateOf(slot, state); err != nil {
			return nil, err
		}
	}
	p.empty = code.Row(0) == nil && !slices.ContainsFunc(p.states, func(s []coded.Tensor) bool { return len(s) > 0 })
	p.verifier, err = c.newVerifier(l, slotStates(p.states))
	return p, err
}

// stateOf copies the state of a slot.
func stateOf(slot int, state func(slot int) ([]coded.Tensor, error)) (copies []coded.Tensor, err error) {
	tensors, err := state(slot)
	if err != nil {
		return nil, stateError(slot, err)
	}
	for _, t := range tensors {
		copies = append(copies, coded.Tensor{Shape: slices.Clone(t.Shape), Data: slices.Clone(t.Data)})
	}
	return copies, nil
}

func stateError(slot int, err error) error { return fmt.Errorf("state of slot %d: %w", slot, err) }

// slotStates lists the states of all slots.
func slotStates(states [][]coded.Tensor) []coded.ShardState {
	list := make([]coded.ShardState, len(states))
	for slot, state := range states {
		list[slot] = coded.ShardState{Slot: slot, State: state}
	}
	return list
}

// install makes a placement the one of its layer and sends the states.
func (c *Coordinator) install(p *placement) {
	name := p.layer.Name
	if old := c.layers[name]; old == nil {
		c.order = append(c.order, name)
	} else {
		old.verifier.close()
		c.applied = 0 // steps may begin again
		for _, r := range slices.Clone(c.rounds) {
			if r.place == old {
				c.endRound(r, r.fail(errPlacedAnew))
			}
		}
		c.cancelRepairs(func(r *repair) bool { return r.layer == name })
	}
	c.lastOp++
	p.id, p.version, p.pos = c.lastOp, c.version, c.log.end()
	c.layers[name] = p
	if p.verifier != nil {
		p.verifier.version = p.version
	}
	for l := range c.links() {
		l.dropLayer(name)
	}
	for slot := range p.code.N() {
		if l := c.slots[slot]; l != nil && !l.resting() && (p.states[slot] != nil || p.offers[slot] == l) {
			c.give(l, slot, p)
		}
	}
	c.heal()
}

// give sends a worker the state that the placement keeps for a slot.
func (c *Coordinator) give(l *link, slot int, p *placement) {
	l.shards[p.layer.Name] = &holding{source: p.id, base: p.version, applied: p.version, next: p.pos}
	l.cursor = min(l.cursor, p.pos)
	m := &Message{
		Header: Header{
			Kind: KindPlace, Layer: p.layer.Name, Round: p.id, Slot: slot,
			State: p.version, Place: &p.layer, Placed: p.id,
		},
		Tensors: p.waiting(slot),
	}
	if p.offers[slot] == l && m.Tensors == nil {
		m.Saved = c.resume
	}
	l.say(m)
	if p.states != nil { // for good after the first update
		p.states[slot] = nil
	}
}

// waiting returns the state that the placement keeps for a slot, nil if none.
func (p *placement) waiting(slot int) []coded.Tensor {
	if p.states == nil {
		return nil
	}
	return p.states[slot]
}

// placed returns the slots that hold a layer, and whether no worker is still
// to acknowledge it.
func (c *Coordinator) placed(p *placement) (have []int, all bool) {
	all = true
	for slot := range p.code.N() {
		l := c.slots[slot]
		if l == nil || l.resting() {
			continue
		}
		if h := l.shards[p.layer.Name]; h != nil && h.held {
			have = append(have, slot)
		} else {
			all = false
		}
	}
	return have, all
}

func (c *Coordinator) notPlaced(p *placement, cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, _ := c.placed(p)
	return fmt.Errorf("%w: %d of %d workers needed have taken it; missing: %s: %w",
		coded.ErrTooFewResults, len(have), p.code.Threshold(), c.lacking(p, have), cause)
}

// lacking names the workers of slots that are not in have.
func (c *Coordinator) lacking(p *placement, have []int) string {
	names := ""
	for slot := range p.code.N() {
		if slices.Contains(have, slot) {
			continue
		}
		if names != "" {
			names += ", "
		}
		if l := c.slots[slot]; l != nil {
			names += l.name + " (no answer)"
		} else {
			names += c.missing[slot]
		}
	}
	return names
}

// Update implements coded.Executor. It waits, within the deadline of a round,
// only while so many workers lag that the log would lose those that are needed;
// and, rarely, for a layer to be rebuilt.
func (c *Coordinator) Update(ctx context.Context, u coded.Update) error {
	if err := c.throttle(ctx); err != nil {
		return fmt.Errorf("dist: update of step %d: %w", u.Step, err)
	}
	for _, p := range c.placements() {
		if err := p.verifier.sound(); err != nil {
			return fmt.Errorf("dist: update of step %d: verification of layer %s: %w", u.Step, p.layer.Name, err)
		}
	}
	if again, err := c.hand(u); again || err != nil {
		return err
	}
	if err := c.rebuildAll(ctx); err != nil {
		return err
	}
	if c.cfg.Record != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.cfg.Record.Flush()
	}
	return nil
}

// placements lists the layers in the order in which they were placed first.
func (c *Coordinator) placements() []*placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*placement, len(c.order))
	for i, name := range c.order {
		list[i] = c.layers[name]
	}
	return list
}

// hand puts an update into the log. again tells that it was there before.
func (c *Coordinator) hand(u coded.Update) (again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return false, ErrClosed
	case u.Step <= c.applied:
		return true, nil
	}
	for _, name := range c.order {
		p := c.layers[name]
		if p.keptStep == u.Step && p.kept[coded.Forward] != p.kept[coded.Backward] {
			return false, fmt.Errorf("dist: layer %s: update of step %d: %d operands of forward and %d of backward products were kept",
				p.layer.Name, u.Step, p.kept[coded.Forward], p.kept[coded.Backward])
		}
	}
	c.rebalance()
	for _, p := range c.layers {
		p.states, p.keptStep, p.kept = nil, 0, [3]int{}
	}
	c.applied = u.Step
	c.step = max(c.step, u.Step)
	c.version++
	c.stats.Updates++
	c.log.add(entry{update: u, step: u.Step, version: c.version})
	for _, name := range c.order {
		c.layers[name].verifier.update(u, c.version)
	}
	c.findStale()
	if c.cfg.Replay != nil {
		if err := c.replayRepairs(); err != nil {
			return false, err
		}
	}
	c.heal()
	return false, nil
}

// throttle waits while a sufficient set of every layer's shards would not
// survive another update in the log.
func (c *Coordinator) throttle(ctx context.Context) error {
	c.mu.Lock()
	limit, reach := c.deadline.limit()+c.cfg.Wait, c.log.reach()
	c.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: workers lag %d updates behind and have not caught up within %v",
		coded.ErrTooFewResults, reach, limit))
	defer cancel()
	return c.await(ctx, func() bool {
		for name, p := range c.layers {
			var near []int
			for slot, l := range c.slots {
				if l == nil {
					continue
				}
				if h := l.shards[name]; h != nil && h.applied > c.version-reach {
					near = append(near, slot)
				}
			}
			if c.version-p.version >= reach && !sufficient(p.code, near) && sufficient(p.code, c.alive(name)) {
				return false
			}
		}
		return true
	})
}

// alive returns the slots whose workers have or are getting a layer.
func (c *Coordinator) alive(layer string) []int {
	var slots []int
	for slot, l := range c.slots {
		if l != nil && l.shards[layer] != nil {
			slots = append(slots, slot)
		}
	}
	return slots
}

// recoverable tells whether enough slots still have a layer, or may have it
// again when workers come back that were lost with their shards.
func (c *Coordinator) recoverable(p *placement) bool {
	slots := c.alive(p.layer.Name)
	for slot, absent := range p.absent {
		if absent {
			slots = append(slots, slot)
		}
	}
	return sufficient(p.code, slots)
}

// strip takes all shards from a seat, and what it was doing with them. Its worker
// forgets them, and is told no more of them.
func (c *Coordinator) strip(l *link) {
	for _, name := range c.order {
		if l.shards[name] != nil {
			l.dropLayer(name)
			l.forget(name, c.slotOf(l))
		}
	}
	for _, r := range c.rounds {
		r.cover.lose(l.slot)
	}
	c.takeAll(l)
	c.abandon(l)
}

// findStale takes the shards from the workers that the log has left behind.
func (c *Coordinator) findStale() {
	var left []*link
	for l := range c.lines() {
		if l.cursor < c.log.base {
			left = append(left, l.seats...)
		}
		l.cursor = max(l.cursor, c.log.base)
	}
	for _, l := range left {
		if !c.follows(l) || len(l.shards) == 0 {
			continue
		}
		if l.slot < 0 {
			c.endMove(true)
			continue
		}
		c.strip(l)
		if l.stale {
			c.rest(l) // it does not even follow after a repair
			continue
		}
		l.stale = true
		c.report(l, StateStale, fmt.Sprintf("more than %d updates behind", c.log.reach()))
	}
}
