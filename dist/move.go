package dist

import (
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// balanceEvery is how many updates lie between two looks at the loads when there was
// nothing to change.
const balanceEvery = 16

// move takes a slot from a worker that has too many for its speed. While it is under
// way the seat that is to have the slot, a spare, gets copies of the shards, from
// whoever has the slot, and follows the log like a seat in a slot; so nothing is
// missing at any time, and the copies are exact.
type move struct {
	slot     int
	from, to *link
	why      string
	until    time.Time
}

// balances tells whether slots are moved.
func (c *Coordinator) balances() bool {
	return c.cfg.Replay == nil && (c.seated || c.cfg.Losses > 0)
}

// rebalance goes on with the move under way, or begins one. It is called between two
// steps, when the updates up to the last one have been handed over.
func (c *Coordinator) rebalance() {
	switch v := c.move; {
	case v != nil && (c.copied(v) || !c.serves(v.from) && c.bears(v.slot)):
		c.finish(v)
	case v != nil && time.Now().After(v.until):
		c.endMove(true)
		c.rest(v.to)
	case v != nil || !c.balances() || c.version < c.balanceAt:
	case !c.beginMove():
		c.balanceAt = c.version + balanceEvery
	}
}

// beginMove looks at the loads, and makes the changes that are worth while: slots are
// left out or filled at once, and a move is begun. It tells whether there is any.
func (c *Coordinator) beginMove() (changed bool) {
	for range c.slots {
		names, loads, known := c.loads()
		job := c.job()
		if known < 2 || job.product <= 0 {
			return changed
		}
		next, ok := job.next(loads)
		if !ok {
			return changed
		}
		var done bool
		switch {
		case next.to < 0:
			done = c.leaveOut(c.giver(names[next.from], ""))
		case next.from < 0:
			done = c.fill(names[next.to])
		case len(c.repairs) > 0:
			return true // when they have been made
		default:
			c.startMove(names, loads, next)
			return true
		}
		if !done {
			return changed
		}
		changed = true
	}
	return changed
}

// startMove begins to take a slot from one worker to another.
func (c *Coordinator) startMove(names []string, loads []load, next change) {
	v := &move{from: c.giver(names[next.from], names[next.to]), until: time.Now().Add(c.cfg.RepairDeadline)}
	v.slot, v.to = v.from.slot, c.spareOf(names[next.to])
	giver, taker := loads[next.from], loads[next.to]
	v.why = fmt.Sprintf("slot %d of %s, which had %d slots at %.2g of the speed", v.slot, v.from.name, giver.held, giver.speed/taker.speed)
	if serves := c.serves(v.from); serves || c.bears(v.slot) {
		c.move = v
		if !serves {
			c.finish(v)
		}
	}
}

// spareOf returns a seat of a worker that has no slot and may be given one.
func (c *Coordinator) spareOf(host string) *link {
	at := slices.IndexFunc(c.spares, func(l *link) bool { return l.host == host && !l.resting() })
	return c.spares[at]
}

// leaveOut takes a slot from a worker that is too slow to keep up with it, and gives it
// to nobody, if the layers can do without it.
func (c *Coordinator) leaveOut(l *link) bool {
	slot := l.slot
	if !c.bears(slot) {
		return false
	}
	c.strip(l)
	c.slots[slot], l.slot = nil, -1
	delete(c.memory, l.name)
	c.missing[slot] = fmt.Sprintf("slot %d (left out: %s is too slow for it)", slot, l.name)
	c.mark(slot, func(string) bool { return false })
	c.spares = append(c.spares, l)
	c.stats.LeftOut++
	c.report(l, StateRelieved, fmt.Sprintf("of slot %d: a step takes less time without", slot))
	return true
}

// fill gives a slot that nobody has to a worker, which is repaired.
func (c *Coordinator) fill(host string) bool {
	slot := slices.Index(c.slots, nil)
	if slot < 0 {
		return false
	}
	c.seatSpare(c.spareOf(host), slot)
	return true
}

// job returns what the workers do in a step, as far as they have reported it.
func (c *Coordinator) job() job {
	j := job{most: len(c.slots), losses: max(1, c.cfg.Losses)}
	scarce := c.cfg.Losses > 0
	for _, p := range c.layers {
		j.k = max(j.k, p.code.Threshold())
		j.most = min(j.most, p.code.N())
		j.product += float64(p.layer.Chunks) * (p.cost[coded.Forward] + p.cost[coded.Backward])
		j.update += p.updateCost
		scarce = scarce && (p.empty || p.code.Row(0) != nil) // else what was left out could not be had again
	}
	if j.least = j.k; !scarce {
		j.least = 0
		for _, l := range c.slots {
			if l != nil {
				j.least++
			}
		}
		j.most = j.least
	}
	return j
}

// loads lists the connected workers, in the order of their slots. known is how many
// of them have a known speed.
func (c *Coordinator) loads() (names []string, loads []load, known int) {
	for l := range c.links() {
		i := slices.Index(names, l.host)
		if i < 0 {
			i = len(names)
			names, loads = append(names, l.host), append(loads, load{speed: c.speed(l.host)})
			if _, ok := c.known(l.host); ok {
				known++
			}
		}
		if l.slot >= 0 {
			loads[i].held++
		}
		if l.slot >= 0 || !l.resting() {
			loads[i].seats++
		}
	}
	return names, loads, known
}

// giver returns the seat of a worker whose slot is farthest from those of another.
func (c *Coordinator) giver(host, other string) *link {
	var best *link
	for slot, l := range c.slots {
		if l != nil && l.host == host && (best == nil || c.distance(slot, other) > c.distance(best.slot, other)) {
			best = l
		}
	}
	return best
}

// serves tells whether a seat can be asked for products of every layer of its slot.
func (c *Coordinator) serves(l *link) bool {
	return !slices.ContainsFunc(c.order, func(name string) bool {
		return l.slot < c.layers[name].code.N() && !l.shards[name].fresh(c.version)
	})
}

// bears tells whether every layer would still be safe from the loss of any one worker,
// or as many as are to be borne, without the shard of a slot.
func (c *Coordinator) bears(slot int) bool {
	return !slices.ContainsFunc(c.order, func(name string) bool {
		rest := slices.DeleteFunc(c.fresh(name, c.version), func(s int) bool { return s == slot })
		return len(rest)-max(1, c.cfg.Losses)*c.most(rest) < c.layers[name].code.Threshold()
	})
}

// follows tells whether a seat is told what the log has: it has a slot, or is about
// to.
func (c *Coordinator) follows(l *link) bool {
	return l.slot >= 0 || c.move != nil && c.move.to == l
}

// copied tells whether the new seat has everything.
func (c *Coordinator) copied(v *move) bool {
	return !slices.ContainsFunc(c.order, func(name string) bool {
		return v.slot < c.layers[name].code.N() && !v.to.shards[name].fresh(c.version)
	})
}

// copyShards gives the new seat of a move the shards that it lacks.
func (c *Coordinator) copyShards() {
	v := c.move
	if v == nil {
		return
	}
	for _, name := range c.order {
		p := c.layers[name]
		switch {
		case v.slot >= p.code.N() || v.to.shards[name] != nil || v.to.resting():
		case p.empty:
			c.giveEmpty(v.to, v.slot, p)
		case v.to.sending:
			v.to.healLater = true
		case v.from.shards[name].fresh(c.version) && len(c.repairs) < c.cfg.Repairs && v.to.addr != "":
			c.startRepair(v.to, v.slot, p, []int{v.slot}, []float64{1})
		}
	}
}

// copies tells whether a repair only copies a shard.
func (r *repair) copies() bool { return len(r.donors) == 1 && r.donors[0] == r.slot }

// finish gives the slot of a move to its new seat. What that has not copied is repaired.
func (c *Coordinator) finish(v *move) {
	whole := c.copied(v)
	c.strip(v.from)
	c.swap(v.from, v.to)
	v.to.stale = !whole
	c.stats.Moves++
	c.report(v.to, StateMoved, v.why)
}

// endMove forgets the move under way; clean takes from the new seat what it has got.
func (c *Coordinator) endMove(clean bool) {
	if clean {
		c.strip(c.move.to)
	}
	c.move = nil
}
