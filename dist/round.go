package dist

import (
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/pull"
)

// cover is the scheduling state of one round: which slot has finished, or is
// at work on, which chunk. It is a pure state machine, without goroutine, clock
// or randomness: whoever drives it (sockets, or a simulator) gets the same
// decisions for the same sequence of calls. The time is a parameter.
//
// A chunk is ready when the slots that finished it can decode it; the round is
// ready when every chunk is. Work is handed out by the rule of package pull; a
// chunk whose cover would be enough to decode comes only when nothing else is
// left, and only to a slot that has nothing else to do, which doubles up on
// stragglers: not before patience has passed since the oldest copy that runs
// was begun, and since the last doubling, for the chunk can be expected to be done
// sooner than it is begun anew.
//
// When sets are given, chunk c is computed by exactly the slots of sets[c], and
// is ready when all of them have finished.
type cover struct {
	code   *coded.Code
	slots  int
	chunks int
	cells  []cell           // chunk*slots + slot
	began  []time.Time      // of the cells that run
	count  []int            // by chunk: slots that finished or are at work
	ranks  []pull.Rank      // by chunk: from count, open and ready
	double []time.Time      // by chunk: when a slot doubled up last
	done   []*coded.Tracker // by chunk: slots that finished
	open   []*coded.Tracker // by chunk: slots that finished or are at work
	sets   [][]int          // by chunk, or nil
	ready  []bool           // by chunk
	left   int              // chunks that are not ready
	try    *coded.Tracker

	patience time.Duration
}

type cell uint8

const (
	cellIdle cell = iota
	cellRunning
	cellDone
)

func newCover(code *coded.Code, chunks int) *cover {
	c := &cover{
		code:   code,
		slots:  code.N(),
		chunks: chunks,
		cells:  make([]cell, chunks*code.N()),
		began:  make([]time.Time, chunks*code.N()),
		count:  make([]int, chunks),
		ranks:  make([]pull.Rank, chunks),
		double: make([]time.Time, chunks),
		ready:  make([]bool, chunks),
		try:    coded.NewTracker(code),
	}
	for range chunks {
		c.done = append(c.done, coded.NewTracker(code))
		c.open = append(c.open, coded.NewTracker(code))
	}
	c.reset(nil, 0)
	return c
}

// reset starts a new round.
func (c *cover) reset(sets [][]int, patience time.Duration) {
	clear(c.cells)
	clear(c.count)
	clear(c.ranks)
	clear(c.ready)
	clear(c.double)
	c.left = c.chunks
	for i := range c.chunks {
		c.done[i].Reset()
		c.open[i].Reset()
	}
	c.sets, c.patience = sets, patience
}

// reselect replaces the sets; what has been finished counts for the new ones.
// It returns the chunks that became ready by it.
func (c *cover) reselect(sets [][]int) (ready []int) {
	c.sets = sets
	for chunk := range c.chunks {
		if !c.ready[chunk] && c.decodable(chunk) {
			c.settle(chunk)
			ready = append(ready, chunk)
		}
	}
	return ready
}

func (c *cover) at(chunk, slot int) *cell { return &c.cells[chunk*c.slots+slot] }

// allowed tells whether a slot may work on a chunk.
func (c *cover) allowed(chunk, slot int) bool {
	return c.sets == nil || slices.Contains(c.sets[chunk], slot)
}

// next returns the chunk that a slot should do next, if there is one. A busy
// slot is not asked to double up on others. If an idle one could do so later and
// there is nothing else, after says in how much time; else it is 0.
func (c *cover) next(slot int, busy bool, now time.Time) (chunk int, after time.Duration, ok bool) {
	if slot < 0 || slot >= c.slots || c.left == 0 {
		return 0, 0, false
	}
	offset, limit := pull.Offset(slot, c.slots, c.chunks), pull.Enough
	if c.sets != nil {
		limit = pull.Over
	}
	chunk, ok = pull.Next(c.ranks, offset, limit, func(chunk int) bool { return !c.fit(chunk, slot) })
	if ok || busy || c.sets != nil {
		return max(chunk, 0), 0, ok
	}
	chunk, ok = pull.Next(c.ranks, offset, pull.Over, func(chunk int) bool {
		if !c.fit(chunk, slot) {
			return true
		}
		left := c.patience - now.Sub(c.waited(chunk))
		if left > 0 && (after == 0 || left < after) {
			after = left
		}
		return left > 0
	})
	if ok {
		return chunk, 0, true
	}
	return 0, after, false
}

// fit tells whether a slot may work on a chunk that it has not begun.
func (c *cover) fit(chunk, slot int) bool {
	return *c.at(chunk, slot) == cellIdle && c.allowed(chunk, slot)
}

// rank brings the rank of a chunk up to date.
func (c *cover) rank(chunk int) {
	c.ranks[chunk] = pull.Over
	if !c.ready[chunk] {
		c.ranks[chunk] = pull.RankOf(c.count[chunk], c.open[chunk].Ready())
	}
}

// start notes that a slot works on a chunk.
func (c *cover) start(slot, chunk int, now time.Time) {
	*c.at(chunk, slot) = cellRunning
	c.began[chunk*c.slots+slot] = now
	if c.open[chunk].Ready() {
		c.double[chunk] = now
	}
	c.count[chunk]++
	c.open[chunk].Add(slot)
	c.rank(chunk)
}

// waited returns since when a chunk has been left to those at work on it.
func (c *cover) waited(chunk int) time.Time {
	var oldest time.Time
	for slot := range c.slots {
		if t := c.since(slot, chunk); *c.at(chunk, slot) == cellRunning && (oldest.IsZero() || t.Before(oldest)) {
			oldest = t
		}
	}
	if c.double[chunk].After(oldest) {
		return c.double[chunk]
	}
	return oldest
}

// since returns when a slot began the chunk that it is at work on.
func (c *cover) since(slot, chunk int) time.Time { return c.began[chunk*c.slots+slot] }

// finish notes that a slot has done a chunk. It tells whether the result is of
// use (it was asked for, and the chunk was not ready without it) and whether
// the chunk has become ready by it.
func (c *cover) finish(slot, chunk int) (useful, ready bool) {
	if cell := c.at(chunk, slot); *cell != cellRunning {
		return false, false
	} else if *cell = cellDone; c.ready[chunk] {
		return false, false
	}
	c.done[chunk].Add(slot)
	if !c.decodable(chunk) {
		return true, false
	}
	c.settle(chunk)
	return true, true
}

func (c *cover) settle(chunk int) {
	c.ready[chunk] = true
	c.left--
	c.rank(chunk)
}

func (c *cover) decodable(chunk int) bool {
	if c.sets == nil {
		return c.done[chunk].Ready()
	}
	for _, slot := range c.sets[chunk] {
		if *c.at(chunk, slot) != cellDone {
			return false
		}
	}
	return true
}

// lose takes back what a slot was at work on; what it has finished stays.
func (c *cover) lose(slot int) {
	if slot < 0 || slot >= c.slots {
		return
	}
	for chunk := range c.chunks {
		if cell := c.at(chunk, slot); *cell == cellRunning {
			*cell = cellIdle
			c.count[chunk]--
			c.reopen(chunk)
		}
	}
}

// reopen computes the open tracker of a chunk anew: trackers cannot forget.
func (c *cover) reopen(chunk int) {
	c.open[chunk].Reset()
	for slot := range c.slots {
		if *c.at(chunk, slot) != cellIdle {
			c.open[chunk].Add(slot)
		}
	}
	c.rank(chunk)
}

// feasible tells whether every chunk can become ready when only the slots for
// which can is true go on working.
func (c *cover) feasible(can func(slot int) bool) bool {
	for chunk := range c.chunks {
		if !c.ready[chunk] && !c.chunkFeasible(chunk, can) {
			return false
		}
	}
	return true
}

func (c *cover) chunkFeasible(chunk int, can func(slot int) bool) bool {
	if c.sets != nil {
		for _, slot := range c.sets[chunk] {
			if *c.at(chunk, slot) != cellDone && !can(slot) {
				return false
			}
		}
		return true
	}
	c.try.Reset()
	for slot := range c.slots {
		if *c.at(chunk, slot) == cellDone || can(slot) {
			c.try.Add(slot)
		}
	}
	return c.try.Ready()
}

// answers returns the slots that a ready chunk is decoded from, in order.
func (c *cover) answers(chunk int) []int {
	var slots []int
	for slot := range c.slots {
		if *c.at(chunk, slot) == cellDone && c.done[chunk].Has(slot) && c.allowed(chunk, slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// chosen returns the slots that may work on some chunk.
func (c *cover) chosen() (slots []int) {
	for slot := range c.slots {
		if c.sets == nil || slices.ContainsFunc(c.sets, func(set []int) bool { return slices.Contains(set, slot) }) {
			slots = append(slots, slot)
		}
	}
	return slots
}
