package dist

import (
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

// Strategy says how the chunks of a layer's products are handed out. Which
// results suffice is for the layer's code to say.
type Strategy uint8

const (
	// Adaptive hands chunks out by pull, the one with the least cover first, and
	// doubles up on stragglers.
	Adaptive Strategy = iota
	// InOrder lets every slot do its own share, whatever the others do: an uncoded,
	// replicated or plain MDS product.
	InOrder
	// Speculative lets idle slots repeat what is not done once three quarters of
	// the chunks are (backup tasks: J. Dean, S. Ghemawat, MapReduce, OSDI 2004). For
	// replication with k = 1, in as many chunks as there are slots.
	Speculative
)

// backupsAfter is the part of the chunks that is done before Speculative begins.
const backupsAfter = 0.75

// schedule returns the strategy's schedule of a layer whose workers have habits.
func (s Strategy) schedule(code *coded.Code, chunks int, habits *schedule.Habits) schedule.Schedule {
	covered := func() schedule.Covered { return schedule.NewCovered(code, chunks) }
	switch s {
	case InOrder:
		return schedule.NewInOrder(covered(), code.N(), func(int) int { return chunks })
	case Speculative:
		return schedule.NewSpeculative(covered, code.N(), chunks, backupsAfter)
	}
	return schedule.NewPulled(covered, code.N(), chunks, habits)
}

// cover is the state of one round: which slot has finished, or is at work on,
// which chunk. A schedule decides what is next: that of the layer's strategy, or,
// when sets are given, that chunk c is computed by exactly the slots of sets[c].
// It is pure, like the schedules; the time, in seconds, is a parameter.
type cover struct {
	code   *coded.Code
	slots  int
	chunks int
	cells  []cell // chunk*slots + slot
	free   schedule.Schedule
	chosen *schedule.Chosen // nil without sets
	try    *coded.Tracker
}

type cell uint8

const (
	cellIdle cell = iota
	cellRunning
	cellDone // in time
	cellLate // when the chunk was ready without it
)

func newCover(code *coded.Code, chunks int, strategy Strategy, habits *schedule.Habits) *cover {
	return &cover{
		code: code, slots: code.N(), chunks: chunks, cells: make([]cell, chunks*code.N()),
		free: strategy.schedule(code, chunks, habits), try: coded.NewTracker(code),
	}
}

// reset starts a new round.
func (c *cover) reset(sets [][]int) {
	clear(c.cells)
	c.free.Reset()
	c.chosen = nil
	if sets != nil {
		c.chosen = schedule.NewChosen(sets, c.slots)
	}
}

func (c *cover) schedule() schedule.Schedule {
	if c.chosen != nil {
		return c.chosen
	}
	return c.free
}

func (c *cover) at(chunk, slot int) *cell { return &c.cells[chunk*c.slots+slot] }

// allowed tells whether a slot may work on a chunk.
func (c *cover) allowed(chunk, slot int) bool {
	return c.chosen == nil || slices.Contains(c.chosen.Set(chunk), slot)
}

// next returns the chunk that a slot should do next, if there is one. An idle slot
// has nothing else to do. If there may be something later, after says in how many
// seconds; else it is 0.
func (c *cover) next(slot int, idle bool, now float64) (chunk int, after float64, ok bool) {
	if slot < 0 || slot >= c.slots {
		return 0, 0, false
	}
	return c.schedule().Next(slot, idle, now)
}

// start notes that a slot works on a chunk.
func (c *cover) start(slot, chunk int, now float64) {
	*c.at(chunk, slot) = cellRunning
	c.schedule().Start(slot, chunk, now)
}

// finish notes that a slot has done a chunk. It tells whether the result is of
// use (it was asked for, and the chunk was not ready without it) and whether
// the chunk has become ready by it.
func (c *cover) finish(slot, chunk int, now float64) (useful, ready bool) {
	if slot < 0 || slot >= c.slots || chunk < 0 || chunk >= c.chunks || *c.at(chunk, slot) != cellRunning {
		return false, false
	}
	useful, ready = c.schedule().Finish(slot, chunk, now)
	*c.at(chunk, slot) = cellLate
	if useful {
		*c.at(chunk, slot) = cellDone
	}
	return useful, ready
}

// lose takes back what a slot was at work on; what it has finished stays.
func (c *cover) lose(slot int) {
	for chunk := range c.chunks {
		c.drop(slot, chunk)
	}
}

// drop takes back a chunk that a slot was at work on, if it was.
func (c *cover) drop(slot, chunk int) {
	if slot < 0 || slot >= c.slots {
		return
	}
	if cell := c.at(chunk, slot); *cell == cellRunning {
		*cell = cellIdle
		c.schedule().Drop(slot, chunk)
	}
}

func (c *cover) ready(chunk int) bool { return c.schedule().Ready(chunk) }
func (c *cover) done() bool           { return c.schedule().Done() }

// feasible tells whether every chunk can become ready when only the slots for
// which can is true go on working.
func (c *cover) feasible(can func(slot int) bool) bool {
	for chunk := range c.chunks {
		if !c.ready(chunk) && !c.chunkFeasible(chunk, can) {
			return false
		}
	}
	return true
}

func (c *cover) chunkFeasible(chunk int, can func(slot int) bool) bool {
	if c.chosen != nil {
		return !slices.ContainsFunc(c.chosen.Set(chunk), func(slot int) bool {
			return *c.at(chunk, slot) != cellDone && !can(slot)
		})
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
		if *c.at(chunk, slot) == cellDone && c.allowed(chunk, slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// working returns the slots that may work on some chunk.
func (c *cover) working() (slots []int) {
	for slot := range c.slots {
		for chunk := range c.chunks {
			if c.allowed(chunk, slot) {
				slots = append(slots, slot)
				break
			}
		}
	}
	return slots
}
