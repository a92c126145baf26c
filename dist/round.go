package dist

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/internal/schedule"
)

// Strategy says how the chunks of a layer's products are handed out. Which
// results suffice is for the layer's code to say, but for Ignoring. Going on with a
// gradient of an earlier step (bounded staleness) is not among them: the result of
// a product is the next layer's operand, and no step can do without it.
type Strategy uint8

const (
	// Adaptive hands chunks out by pull, the one with the least cover first, and
	// doubles up on stragglers.
	Adaptive Strategy = iota
	// InOrder lets every slot do its own share, whatever the others do: an uncoded,
	// replicated or plain MDS product.
	InOrder
	// Speculative lets idle slots repeat what is late: once a quarter of the chunks are
	// done, those that take 1.05 times the median of them, one slot after another
	// (backup tasks: J. Dean, S. Ghemawat, MapReduce, OSDI 2004; the rule is that of
	// Spark). For replication with k = 1, in as many chunks as there are slots.
	Speculative
	// Ignoring is InOrder without the slowest quarter of the slots: a chunk is done
	// when the others have done it, and whoever decodes makes the best of what there
	// is, which is an estimate (synchronous steps with backup workers: J. Chen, X. Pan,
	// R. Monga, S. Bengio, R. Jozefowicz, Revisiting distributed synchronous SGD, 2016).
	Ignoring
	// Joint is for codes whose slots have several results each, which are their
	// chunks: every slot computes its own in their order, and the round ends when all
	// results that there are decode together. So unfinished work counts: rateless
	// ("lt"), universally decodable and hierarchical codes. Lost shards of such a layer
	// are not repaired.
	Joint
)

// ignored is the part of the slots that Ignoring does without.
const ignored = 0.25

// check tells whether a layer of a code can be computed in this way.
func (s Strategy) check(l coded.Layer, code *coded.Code) error {
	if s != Joint {
		return nil
	}
	if l.ByBatch {
		return errors.New("chunks that decode together cannot be cut by batch")
	}
	for slot := range code.N() {
		if n := code.Results(slot); n != l.Chunks {
			return fmt.Errorf("slot %d of code %v has %d results, want one for each of %d chunks", slot, code, n, l.Chunks)
		}
	}
	return nil
}

// need is the least number of slots that end a round, 0 if it is not known.
func (s Strategy) need(code *coded.Code) int {
	if s == Ignoring {
		return code.N() - int(ignored*float64(code.N()))
	}
	return code.Threshold()
}

// readiness says which results suffice.
func (s Strategy) readiness(code *coded.Code, chunks int) (schedule.Readiness, error) {
	switch s {
	case Ignoring:
		return schedule.NewCount(chunks, s.need(code)), nil
	case Joint:
		single, err := code.Chunks()
		if err != nil {
			return nil, err
		}
		return schedule.NewTogether(code, single), nil
	}
	return schedule.NewCovered(code, chunks), nil
}

// limited tells whether chunks may wait for results that make their condition better:
// not those of which an estimate is wanted, nor those that decode together.
func (s Strategy) limited() bool { return s != Ignoring && s != Joint }

// schedule returns the strategy's schedule of a layer whose workers have habits. The
// limit may be nil.
func (s Strategy) schedule(code *coded.Code, chunks int, habits *schedule.Habits, limit *schedule.Limit) (schedule.Schedule, error) {
	covered := func() schedule.Covered {
		r := schedule.NewCovered(code, chunks)
		if limit != nil {
			return schedule.NewLimited(r, limit)
		}
		return r
	}
	switch s {
	case InOrder:
		return schedule.NewInOrder(covered(), code.N(), func(int) int { return chunks }), nil
	case Ignoring, Joint:
		r, err := s.readiness(code, chunks)
		if err != nil {
			return nil, err
		}
		return schedule.NewInOrder(r, code.N(), func(int) int { return chunks }), nil
	case Speculative:
		return schedule.NewSpeculative(covered, code.N(), chunks, schedule.DefaultSpeculation), nil
	}
	return schedule.NewPulled(covered, code.N(), chunks, habits), nil
}

// cover is the state of one round: which slot has finished, or is at work on,
// which chunk. A schedule decides what is next: that of the layer's strategy, or,
// when sets are given, that chunk c is computed by exactly the slots of sets[c].
// It is pure, like the schedules; the time, in seconds, is a parameter.
type cover struct {
	slots  int
	chunks int
	cells  []cell // chunk*slots + slot
	free   schedule.Schedule
	chosen *schedule.Chosen // nil without sets
	try    schedule.Readiness

	limit   *schedule.Limit    // of the condition of what a chunk is decoded from; nil: none
	enough  schedule.Readiness // without the limit; nil without it
	awaited int                // chunks that were ready without the limit alone
}

type cell uint8

const (
	cellIdle cell = iota
	cellRunning
	cellDone // in time
	cellLate // when the chunk was ready without it
)

// newCover returns the state of rounds of a code. Where limit is not nil, chunks wait
// for results with which its condition number is within it.
func newCover(code *coded.Code, chunks int, strategy Strategy, habits *schedule.Habits, limit *coded.Decoder) (*cover, error) {
	c := &cover{slots: code.N(), chunks: chunks, cells: make([]cell, chunks*code.N())}
	if limit != nil && strategy.limited() {
		c.limit, c.enough = schedule.NewLimit(limit, chunks), schedule.NewCovered(code, chunks)
	}
	var err error
	if c.free, err = strategy.schedule(code, chunks, habits, c.limit); err != nil {
		return nil, err
	}
	c.try, err = strategy.readiness(code, chunks)
	return c, err
}

// reset starts a new round.
func (c *cover) reset(sets [][]int) {
	clear(c.cells)
	c.chosen, c.awaited = nil, 0
	if c.limit != nil {
		c.limit.Reset()
		c.enough.Reset()
	}
	c.free.Reset()
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
		if c.limit != nil {
			before := c.enough.Ready(chunk)
			c.enough.Add(slot, chunk)
			if !before && c.awaits(chunk) {
				c.awaited++
			}
		}
	}
	return useful, ready
}

// late tells whether a slot has done a chunk that did not want it any more.
func (c *cover) late(slot, chunk int) bool {
	return slot >= 0 && slot < c.slots && chunk >= 0 && chunk < c.chunks && *c.at(chunk, slot) == cellLate && c.ready(chunk)
}

// awaits tells whether a chunk could be decoded, and waits for a better condition.
func (c *cover) awaits(chunk int) bool {
	return c.limit != nil && c.chosen == nil && c.enough.Ready(chunk) && !c.ready(chunk)
}

// awaiting tells whether nothing but that keeps the round from its end.
func (c *cover) awaiting() bool {
	return c.limit != nil && c.chosen == nil && c.enough.Done() && !c.done()
}

// accept makes a chunk that awaits more ready as it is.
func (c *cover) accept(chunk int) {
	c.limit.Accept(chunk)
	if s, ok := c.free.(interface{ Settle(chunk int) }); ok {
		s.Settle(chunk)
	}
}

// more tells whether one of the slots for which can is true has not done a chunk.
func (c *cover) more(chunk int, can func(slot int) bool) bool {
	for slot := range c.slots {
		if *c.at(chunk, slot) != cellDone && can(slot) {
			return true
		}
	}
	return false
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
	c.try.Reset()
	for chunk := range c.chunks {
		for slot := range c.slots {
			there := *c.at(chunk, slot) == cellDone || can(slot)
			if there {
				c.try.Add(slot, chunk)
			} else if c.chosen != nil && !c.ready(chunk) && slices.Contains(c.chosen.Set(chunk), slot) {
				return false
			}
		}
	}
	return c.chosen != nil || c.tried()
}

// tried tells whether every chunk that is not ready would be by what is tried.
func (c *cover) tried() bool {
	for chunk := range c.chunks {
		if !c.ready(chunk) && !c.try.Ready(chunk) {
			return false
		}
	}
	return true
}

// lacking returns the first chunk that cannot be decoded from the slots of its
// set, -1 if there is none.
func (c *cover) lacking(sets [][]int) int {
	c.try.Reset()
	for chunk, set := range sets {
		for i, slot := range set {
			if !slices.Contains(set[:i], slot) {
				c.try.Add(slot, chunk)
			}
		}
	}
	for chunk := range sets {
		if !c.try.Ready(chunk) {
			return chunk
		}
	}
	return -1
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
