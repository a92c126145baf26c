package dist

import (
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// repair rebuilds a slot's shard of a layer from those of other slots: at one
// version, donors send their states straight to the target, which adds them up
// with the weights of the combination, and then applies what the log has after
// that version. Donors and weights minimise the amplification of rounding.
type repair struct {
	id      uint64
	layer   string
	place   *placement
	target  *link
	slot    int
	donors  []int
	givers  []*link
	weights []float64
	version int
	timer   *time.Timer
}

// repairPause is how long a worker is left alone after a repair of it failed.
const repairPause = time.Second

// mend gives every worker in a slot the shards that it lacks: from the
// placement if nothing has been updated since, else by repair.
func (c *Coordinator) mend() {
	c.wanting = false
	for slot, l := range c.slots {
		if l == nil {
			continue
		}
		whole := true
		for _, name := range c.order {
			p := c.layers[name]
			if slot >= p.code.N() {
				continue
			}
			switch h := l.shards[name]; {
			case h != nil:
				whole = whole && h.held
			case p.states != nil && p.states[slot] != nil && !l.resting():
				c.give(l, slot, p)
				whole = false
			case p.due != nil && p.due[slot]:
				whole = false
			case p.empty:
				if !l.resting() {
					c.giveEmpty(l, slot, p)
				}
				whole = false
			case p.code.Row(slot) == nil: // of several results: there is no repair
				whole = false
			default:
				c.tryRepair(l, p)
				whole = false
			}
		}
		if whole && l.stale {
			l.stale = false
			c.cleaned(l)
			c.report(l, StateRepaired, "")
		}
	}
	c.copyShards()
}

// giveEmpty places a shard that holds nothing.
func (c *Coordinator) giveEmpty(l *link, slot int, p *placement) {
	p.version, p.pos = c.version, max(c.log.newest(), p.pos)
	c.give(l, slot, p)
}

// tryRepair begins a repair if there are donors, and not too many repairs are
// under way. A worker that has not taken what it was sent has to do that first:
// it may be frozen.
func (c *Coordinator) tryRepair(l *link, p *placement) {
	if l.sending {
		l.healLater = true
		return
	}
	if len(c.repairs) >= c.cfg.Repairs || l.addr == "" || l.resting() {
		return
	}
	donors, weights, good := mendable(p.code, l.slot, c.fresh(p.layer.Name, c.version))
	if good {
		c.startRepair(l, l.slot, p, donors, weights)
		return
	}
	// Those that lag may be what is missing.
	all := c.held(p.layer.Name)
	if _, _, good = mendable(p.code, l.slot, all); good {
		c.wanting = true
	} else if sufficient(p.code, all) {
		p.rough = true
	}
}

// mendable gives the best repair of a slot from the others that are available,
// and tells whether there is one that does not amplify rounding too much.
func mendable(code *coded.Code, slot int, available []int) (donors []int, weights []float64, good bool) {
	available = slices.DeleteFunc(available, func(s int) bool { return s == slot || s >= code.N() })
	donors, weights, amplification, err := code.Repair(slot, available)
	return donors, weights, err == nil && amplification <= coded.MaxRepairAmplification
}

// startRepair orders a repair of a slot's shard, for a worker that has the slot or is
// about to, at the current version.
func (c *Coordinator) startRepair(l *link, slot int, p *placement, donors []int, weights []float64) {
	c.lastOp++
	name := p.layer.Name
	pos := max(c.log.newest(), p.pos)
	r := &repair{
		id: c.lastOp, layer: name, place: p, target: l, slot: slot,
		donors: donors, weights: weights, version: c.version,
	}
	l.dropLayer(name)
	l.shards[name] = &holding{source: r.id, base: r.version, applied: r.version, next: pos, mending: true}
	l.cursor = min(l.cursor, pos)
	l.order(pos, &Message{Header: Header{
		Kind: KindReceive, Layer: name, Round: r.id, Slot: slot, State: r.version, Slots: donors, Place: &p.layer, Placed: p.id,
	}})
	for i, donor := range donors {
		giver := c.slots[donor]
		r.givers = append(r.givers, giver)
		giver.order(pos, &Message{Header: Header{
			Kind: KindDonate, Layer: name, Round: r.id, Slot: donor, State: r.version, Weight: weights[i], Addr: l.addr,
		}})
	}
	c.repairs[r.id] = r
	r.timer = time.AfterFunc(c.cfg.RepairDeadline, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failRepair(r)
	})
}

// failRepair ends a repair without success and lets another one begin.
func (c *Coordinator) failRepair(r *repair) {
	if c.repairs[r.id] != r {
		return
	}
	c.cancelRepairs(func(o *repair) bool { return o == r })
	c.rest(r.target)
	c.heal()
}

// rest leaves a worker without repairs for a while.
func (c *Coordinator) rest(l *link) { c.restFor(l, repairPause) }

func (c *Coordinator) restFor(l *link, pause time.Duration) {
	until := time.Now().Add(pause)
	if l.gone || c.closed || until.Before(l.restUntil) {
		return
	}
	l.restUntil = until
	if l.rest != nil {
		l.rest.Stop()
	}
	l.rest = time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !l.gone {
			c.heal()
		}
	})
}

// cancelRepairs forgets repairs; their targets are without a shard then.
func (c *Coordinator) cancelRepairs(which func(*repair) bool) {
	for id, r := range c.repairs {
		if !which(r) {
			continue
		}
		delete(c.repairs, id)
		r.timer.Stop()
		if h := r.target.shards[r.layer]; h != nil && h.source == id {
			r.target.dropLayer(r.layer)
		}
	}
}

// abandon ends what a worker that is lost took part in.
func (c *Coordinator) abandon(l *link) {
	c.cancelRepairs(func(r *repair) bool { return r.target == l || slices.Contains(r.givers, l) })
	if l.gone && l.rest != nil {
		l.rest.Stop()
	}
}

// repaired notes that a worker has acknowledged a shard.
func (c *Coordinator) repaired(l *link, layer string) {
	for id, r := range c.repairs {
		if r.target == l && r.layer == layer {
			delete(c.repairs, id)
			r.timer.Stop()
			if r.copies() {
				continue // not a bit has changed
			}
			c.stats.Repairs++
			if c.cfg.Record != nil {
				c.cfg.Record.repair(r)
			}
		}
	}
	c.heal()
}

// onDonationFailed begins a repair anew when a donor could not give.
func (c *Coordinator) onDonationFailed(l *link, m *Message) {
	if r := c.repairs[m.Round]; r != nil && slices.Contains(r.givers, l) {
		c.failRepair(r)
	}
}

// replayRepairs performs the repairs that a recorded run made at this version.
func (c *Coordinator) replayRepairs() error {
	for _, rec := range c.cfg.Replay.repairs(c.version) {
		p := c.layers[rec.Layer]
		if p == nil || rec.Slot >= p.code.N() || !inRange(rec.Donors, p.code.N()) {
			return fmt.Errorf("dist: replay: repair of slot %d of layer %q at update %d: there is no such slot", rec.Slot, rec.Layer, c.version)
		}
		for _, slot := range append([]int{rec.Slot}, rec.Donors...) {
			if c.slots[slot] == nil {
				return fmt.Errorf("dist: replay: repair of slot %d of layer %q at update %d: %w: %s",
					rec.Slot, rec.Layer, c.version, coded.ErrTooFewResults, c.missing[slot])
			}
		}
		c.startRepair(c.slots[rec.Slot], rec.Slot, p, rec.Donors, rec.Weights)
	}
	return nil
}
