package dist

import (
	"time"

	"github.com/coda-ml/coda/coded"
)

// An answer may be lost although its worker lives and its connection holds. So a
// task is not waited for for ever: when it is overdue it counts as lost, and may be
// given again, to the same worker as well. Its answer is used all the same, if it
// comes while its chunk wants it; and a worker that still has the task does not
// begin it twice. So it costs little to be wrong.

// A task is overdue eight times after what 99 of a hundred tasks of its kind take,
// within these parts of a round's least deadline and of its deadline; and as much
// later again for every time that it has been given up before.
const (
	leastPatience = 100
	mostPatience  = 4

	patienceWarmUp = 4 // tasks before quantiles are trusted
)

// turnarounds are how long tasks took from being handed out to their answers, by
// product.
type turnarounds [coded.Gradient + 1]durations

func (t *turnarounds) observe(p coded.Product, took time.Duration) {
	t[p].most = deadlineRounds
	t[p].observe(took)
}

// patience returns how long the answer to a task of a round is waited for, and the
// least that this may become.
func (c *Coordinator) patience(r *round) (d, least time.Duration) {
	least = max(c.cfg.MinDeadline/leastPatience, time.Millisecond)
	most := max(c.deadline.limit()/mostPatience, least)
	return r.place.turnarounds[r.Product].limit(patienceWarmUp, most, least, most), least
}

// reclaim gives up the tasks of a round that are overdue, so that they are handed
// out again. It returns when to look again.
func (c *Coordinator) reclaim(r *round) time.Time {
	now, found := time.Now(), false
	patience, least := c.patience(r)
	again := now.Add(least)
	for l := range c.links() {
		for key, t := range l.tasks {
			if key.round != r.id || t.lost {
				continue
			}
			due := t.began.Add(patience * time.Duration(1+t.times))
			if due.After(now) {
				again = earlier(again, due)
				continue
			}
			t.lost, found = true, true
			l.tasks[key] = t
			r.cover.drop(l.slot, key.chunk)
			c.stats.Overdue++
		}
	}
	if found {
		c.wakeAll()
	}
	return again
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
