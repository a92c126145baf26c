package dist

import (
	"fmt"
	"slices"
	"time"
)

// balanceEvery is how many updates lie between two looks at the loads.
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
	return c.cfg.Replay == nil && c.seated
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
	case v != nil || !c.balances() || c.version < c.balanceAt || len(c.repairs) > 0:
	default:
		c.balanceAt = c.version + balanceEvery
		c.beginMove()
	}
}

// beginMove looks at the loads, and begins a move if it is worth while.
func (c *Coordinator) beginMove() {
	names, loads, known := c.loads()
	if known < 2 {
		return
	}
	i, j, ok := nextMove(loads, c.loadLimit())
	if !ok {
		return
	}
	v := &move{from: c.giver(names[i], names[j]), until: time.Now().Add(c.cfg.RepairDeadline)}
	v.slot = v.from.slot
	v.to = c.spares[slices.IndexFunc(c.spares, func(l *link) bool { return l.host == names[j] && !l.resting() })]
	v.why = fmt.Sprintf("slot %d of %s, which had %d slots at %.2g of the speed", v.slot, v.from.name, loads[i].held, loads[i].speed/loads[j].speed)
	if serves := c.serves(v.from); serves || c.bears(v.slot) {
		c.move = v
		if !serves {
			c.finish(v)
		}
	}
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

// loadLimit returns how many slots of a worker can be lost at a time.
func (c *Coordinator) loadLimit() int {
	limit := len(c.slots)
	for _, p := range c.layers {
		limit = min(limit, p.code.N()-p.code.Threshold())
	}
	return limit
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

// bears tells whether every layer would still be safe from the loss of any one worker
// without the shard of a slot.
func (c *Coordinator) bears(slot int) bool {
	return !slices.ContainsFunc(c.order, func(name string) bool {
		rest := slices.DeleteFunc(c.fresh(name, c.version), func(s int) bool { return s == slot })
		return len(rest)-c.most(rest) < c.layers[name].code.Threshold()
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
