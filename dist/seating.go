package dist

import (
	"cmp"
	"slices"
)

// occupied returns how many slots each worker has, by the name of the worker.
func (c *Coordinator) occupied() map[string]int {
	slots := map[string]int{}
	for _, l := range c.slots {
		if l != nil {
			slots[l.host]++
		}
	}
	return slots
}

// spread fills the slots that are free with spares. Every worker has its first seat
// in a slot, where there are enough, before any has its second in one; and the slots
// of a worker lie far apart, so that its loss tears no large hole into the circle of a
// trigonometric code.
func (c *Coordinator) spread() {
	for slot, l := range c.slots {
		if l == nil && len(c.spares) > 0 {
			c.seatSpare(c.bestSpare(slot, nil), slot)
		}
	}
}

// bestSpare returns the spare that a slot should go to in place of a worker's seat,
// which may be nil; nil if there is none. It is the one that has been made ready for
// it, if one has; else one that is not left alone, of another worker, and where the
// slot takes least time.
func (c *Coordinator) bestSpare(slot int, instead *link) *link {
	if v := c.move; v != nil && v.slot == slot && v.from == instead {
		return v.to
	}
	occupied := c.occupied()
	type rank struct {
		unfit int     // the least is best
		time  float64 // that its share would take
		near  int     // how near to another of its slots
	}
	rankOf := func(l *link) (r rank) {
		for i, bad := range []bool{c.move != nil && c.move.to == l, instead != nil && l.host == instead.host, l.resting()} {
			if bad {
				r.unfit |= 1 << i
			}
		}
		if c.seated {
			r.time = float64(occupied[l.host]+1) / c.speed(l.host)
			r.near = len(c.slots) - c.distance(slot, l.host)
		}
		return r
	}
	var best *link
	var least rank
	for _, l := range c.spares {
		r := rankOf(l)
		if best == nil || cmp.Or(cmp.Compare(r.unfit, least.unfit), cmp.Compare(r.time, least.time), cmp.Compare(r.near, least.near)) < 0 {
			best, least = l, r
		}
	}
	return best
}

// distance returns how far a slot is from the nearest slot of a worker, round the
// circle; the number of slots if it has none.
func (c *Coordinator) distance(slot int, host string) int {
	n := len(c.slots)
	nearest := n
	for other, l := range c.slots {
		if l != nil && l.host == host && other != slot {
			d := max(slot-other, other-slot)
			nearest = min(nearest, d, n-d)
		}
	}
	return nearest
}

// seatSpare gives a slot to a spare.
func (c *Coordinator) seatSpare(l *link, slot int) {
	if v := c.move; v != nil && (v.to == l || v.slot == slot) {
		c.endMove(v.to != l || v.slot != slot)
	}
	c.spares = slices.DeleteFunc(c.spares, func(s *link) bool { return s == l })
	c.sit(l, slot)
	l.stale = len(c.layers) > 0
}

// most returns the largest number of slots among these that one worker has.
func (c *Coordinator) most(slots []int) int {
	held, most := map[string]int{}, 0
	for _, slot := range slots {
		if l := c.slots[slot]; l != nil {
			held[l.host]++
			most = max(most, held[l.host])
		}
	}
	return most
}
