package dist

import (
	"fmt"
	"slices"
	"time"
)

// suspect is a worker that has answered wrongly, by its name.
type suspect struct {
	wrong  int       // answers, since it was last trusted
	right  int       // answers since the last wrong one
	until  time.Time // it is left alone
	reason string
	dirty  bool // its shards are those that gave wrong answers
}

// trustAfter is how many right answers make good for all wrong ones.
const trustAfter = 256

// maxSuspects bounds the names that are remembered.
const maxSuspects = 1024

// quarantine takes a worker's shards away and leaves it alone for a while. If
// there is a spare worker, that gets the slot; else the worker is repaired when
// the time is over.
func (c *Coordinator) quarantine(l *link, reason error) {
	s := c.suspects[l.name]
	if s == nil {
		if len(c.suspects) >= maxSuspects {
			clear(c.suspects)
		}
		s = &suspect{}
		c.suspects[l.name] = s
	}
	pause := c.cfg.Verify.MaxPause
	if shift := min(s.wrong, 30); c.cfg.Verify.Pause<<shift>>shift == c.cfg.Verify.Pause {
		pause = min(pause, c.cfg.Verify.Pause<<shift)
	}
	s.wrong, s.right, s.dirty, s.reason = s.wrong+1, 0, true, reason.Error()
	s.until = time.Now().Add(pause)
	c.stats.Refused++
	c.strip(l)
	if c.move != nil && c.move.from == l {
		c.endMove(true) // what has been copied may be wrong too
	}
	l.stale = true
	c.report(l, StateQuarantined, fmt.Sprintf("for %v: %v", pause, reason))
	c.restFor(l, pause)
	c.makeWay(l)
	c.heal()
}

// makeWay gives a worker's slot to a spare of another worker that is not left alone,
// if there is one.
func (c *Coordinator) makeWay(l *link) {
	if l.slot < 0 {
		return
	}
	spare := c.bestSpare(l.slot, l)
	if spare == nil || spare.resting() || spare.host == l.host {
		return
	}
	c.swap(l, spare)
}

// swap gives a seat's slot to a spare, and makes it one.
func (c *Coordinator) swap(l, spare *link) {
	slot, at := l.slot, slices.Index(c.spares, spare)
	l.slot = -1
	c.seatSpare(spare, slot)
	c.spares = slices.Insert(c.spares, at, l)
}

func (l *link) resting() bool { return time.Now().Before(l.restUntil) }

// welcome applies to a worker what is remembered of its name. It tells whether
// the shards that it still has may be used.
func (c *Coordinator) welcome(l *link) bool {
	s := c.suspects[l.name]
	if s == nil {
		return true
	}
	if pause := time.Until(s.until); pause > 0 {
		c.restFor(l, pause)
	}
	return !s.dirty
}

// trust notes a right answer of a worker.
func (c *Coordinator) trust(l *link) {
	s := c.suspects[l.name]
	if s == nil {
		return
	}
	if s.right++; s.right >= trustAfter {
		delete(c.suspects, l.name)
	}
}

// cleaned notes that a worker has got new shards of all layers.
func (c *Coordinator) cleaned(l *link) {
	if s := c.suspects[l.name]; s != nil {
		s.dirty = false
	}
}
