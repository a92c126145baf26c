package dist

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// round is one product under way. All but id, the request and what Start has
// set is guarded by Coordinator.mu.
type round struct {
	coded.Round
	c       *Coordinator
	id      uint64
	layer   coded.Layer // cut by batch also if the round is
	place   *placement
	version int        // updates that a shard must have applied
	pos     uint64     // of the log: of the operand, or of what must precede it
	operand *counted   // the same for all slots; nil with operands
	slots   []*counted // by slot; nil with operand
	started time.Time
	notify  chan struct{} // capacity 1: something that Wait should see has changed

	cover   *cover
	results [][]*counted // chunk, slot
	spent   []spent      // the work on what has come
	short   time.Time    // since when too few workers are left; zero if enough
	lost    bool         // and nobody who may come back makes them enough
	over    bool
	err     error
	took    time.Duration
	sets    [][]int // by chunk: the slots decoded from

	enough  time.Time // since when nothing but a better condition is awaited; zero if it is not
	awaited int       // chunks that could be decoded and awaited more
	above   int       // chunks for which it is above the limit

	spares   []spareResult // kept with the results
	residual float64       // the largest
	compared int           // answers tested and chunks compared

	announced bool
}

// Start implements coded.Executor.
func (c *Coordinator) Start(ctx context.Context, req coded.Round) (coded.Pending, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dist: start %s of layer %s: %w", req.Product, req.Layer, err)
	}
	if err := req.Check(len(req.Slots)); err != nil {
		return nil, fmt.Errorf("dist: layer %s: step %d: %w", req.Layer, req.Step, err)
	}
	operand, slots := c.copyOperands(req)
	keep := false
	defer func() {
		if !keep {
			releaseOperands(operand, slots)
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.layers[req.Layer]
	switch {
	case c.closed:
		return nil, ErrClosed
	case p == nil:
		return nil, fmt.Errorf("dist: start %s: layer %s has not been placed", req.Product, req.Layer)
	}
	if p.layer.ByBatch || req.ByRows {
		if rows := leastRows(req); rows < p.layer.Chunks {
			return nil, fmt.Errorf("dist: layer %s: step %d: operand of %d rows for %d chunks: %w", req.Layer, req.Step, rows, p.layer.Chunks, coded.ErrTooFewRows)
		}
	}
	err := req.Check(p.code.N())
	if err == nil {
		err = p.pairs(req)
	}
	if err != nil {
		return nil, fmt.Errorf("dist: layer %s: step %d: %w", req.Layer, req.Step, err)
	}
	req.Operand, req.Slots = coded.Tensor{}, nil
	c.step = max(c.step, req.Step)
	c.lastID++
	r := &round{
		Round: req, c: c, id: c.lastID, layer: p.layer, place: p, version: c.version,
		operand: operand, slots: slots, started: time.Now(), notify: make(chan struct{}, 1),
	}
	r.layer.ByBatch = r.layer.ByBatch || req.ByRows
	defer c.wakeAll()
	if !req.Discard {
		if err := c.begin(r); err != nil {
			return nil, err
		}
	}
	r.pos = c.log.end()
	if req.Keep {
		e := entry{layer: req.Layer, product: req.Product, step: req.Step, operand: operand.retain(), version: c.version}
		if !req.Discard {
			e.round = r.id
		}
		c.log.add(e)
		p.verifier.keep(req, operand)
	}
	if req.Discard {
		r.operand, r.slots, r.over = nil, nil, true
		return r, nil
	}
	keep = true
	c.rounds = append(c.rounds, r)
	c.checkRound(r)
	return r, nil
}

// copyOperands copies the operand of a round, or those of its slots.
func (c *Coordinator) copyOperands(r coded.Round) (operand *counted, slots []*counted) {
	if r.Slots == nil {
		return c.buffers.copyOf(r.Operand), nil
	}
	for _, operands := range r.Slots {
		slots = append(slots, c.buffers.copyOperands(operands))
	}
	return nil, slots
}

func releaseOperands(operand *counted, slots []*counted) {
	operand.release()
	for _, o := range slots {
		o.release()
	}
}

// pairs checks that a kept operand can be paired: workers pair the forward and
// the backward operands of a step in their order, and drop those of a step that
// got no update.
func (p *placement) pairs(req coded.Round) error {
	if !req.Keep {
		return nil
	}
	if req.Step != p.keptStep {
		p.keptStep, p.kept = req.Step, [3]int{}
	}
	if req.Product == coded.Backward && p.kept[coded.Backward] == p.kept[coded.Forward] {
		return fmt.Errorf("operand of the backward product kept without one of the forward product")
	}
	p.kept[req.Product]++
	return nil
}

// begin chooses the round's slots and makes its schedule.
func (c *Coordinator) begin(r *round) error {
	p := r.place
	if n := len(p.covers); n > 0 {
		r.cover, p.covers = p.covers[n-1], p.covers[:n-1]
	} else {
		var err error
		if r.cover, err = newCover(p.code, p.layer.Chunks, c.cfg.Strategies[r.Layer], p.habits, c.limit(p)); err != nil {
			return r.fail(err)
		}
	}
	sets, err := c.choice(r)
	if err != nil {
		p.covers = append(p.covers, r.cover)
		return err
	}
	r.cover.reset(sets)
	r.results = make([][]*counted, p.layer.Chunks)
	for i := range r.results {
		r.results[i] = make([]*counted, p.code.N())
	}
	return nil
}

// choice asks the replay or the selection for the sets of a round.
func (c *Coordinator) choice(r *round) ([][]int, error) {
	var sets [][]int
	switch {
	case c.cfg.Replay != nil:
		var err error
		if sets, err = c.cfg.Replay.round(r.id, r.Layer, r.Product, r.Step); err != nil {
			return nil, err
		}
	case c.cfg.Select != nil:
		sets = c.cfg.Select(RoundInfo{
			Round: r.id, Layer: r.layer, Code: r.place.code, Product: r.Product, Step: r.Step,
			Fresh: c.fresh(r.Layer, r.version),
		})
	}
	if sets == nil {
		return nil, nil
	}
	if len(sets) == 1 {
		sets = slices.Repeat(sets, r.layer.Chunks)
	}
	if len(sets) != r.layer.Chunks {
		return nil, r.fail(fmt.Errorf("selection of %d sets for %d chunks", len(sets), r.layer.Chunks))
	}
	for chunk, set := range sets {
		if !inRange(set, r.place.code.N()) {
			return nil, r.fail(fmt.Errorf("slots %v are selected for chunk %d, there are %d", set, chunk, r.place.code.N()))
		}
	}
	if chunk := r.cover.lacking(sets); chunk >= 0 {
		return nil, r.fail(fmt.Errorf("chunk %d cannot be decoded from the selected slots %v", chunk, sets[chunk]))
	}
	return sets, nil
}

func inRange(set []int, n int) bool {
	for _, s := range set {
		if s < 0 || s >= n {
			return false
		}
	}
	return true
}

// elapsed is the round's clock, in seconds.
func (r *round) elapsed() float64 { return time.Since(r.started).Seconds() }

// taskMessage hands a chunk out. If its layer or its round is cut by batch, it takes
// along the rows that it needs, unless the worker keeps the whole operand anyway.
func (r *round) taskMessage(slot, chunk int) (m *Message, sent func()) {
	m = &Message{Header: Header{
		Kind: KindTask, Layer: r.layer.Name, Round: r.id, Product: r.Product,
		Slot: slot, Chunk: chunk, Step: r.Step, State: r.version,
	}}
	if !r.layer.ByBatch || r.Keep {
		return m, nil
	}
	operand := r.operandOf(slot)
	m.Tensors = []coded.Tensor{r.layer.Operand(operand.tensor, chunk)}
	return m, operand.retain().release
}

// leastRows returns the least number of rows of an operand of a round.
func leastRows(r coded.Round) int {
	if r.Slots == nil {
		return rowsOf(r.Operand)
	}
	least := math.MaxInt
	for _, operands := range r.Slots {
		least = min(least, rowsOf(operands[0]))
	}
	return least
}

// rowsOf returns the first dimension of a tensor, 0 if it has none.
func rowsOf(t coded.Tensor) int {
	if len(t.Shape) == 0 {
		return 0
	}
	return t.Shape[0]
}

// operandOf returns the operands of a slot.
func (r *round) operandOf(slot int) *counted {
	if r.slots != nil {
		return r.slots[slot]
	}
	return r.operand
}

// operandMessage gives the message with the operands of a slot, or with those that
// all have in common; sent is called when it has gone out.
func (r *round) operandMessage(slot int) (m *Message, sent func()) {
	operand := r.operandOf(slot)
	m = &Message{
		Header:  Header{Kind: KindOperand, Layer: r.Layer, Product: r.Product, Round: r.id, Step: r.Step, State: r.version},
		Tensors: operand.tensors(),
	}
	if r.slots != nil {
		m.Slots = []int{slot}
	}
	return m, operand.retain().release
}

// active returns the round of a number if it still wants results.
func (c *Coordinator) active(id uint64) *round {
	for _, r := range c.rounds {
		if r.id == id {
			return r
		}
	}
	return nil
}

// possible tells which slots can give results of a round, sooner or later.
func (c *Coordinator) possible(r *round) func(slot int) bool {
	return func(slot int) bool {
		if slot >= len(c.slots) || c.slots[slot] == nil {
			return false
		}
		h := c.slots[slot].shards[r.Layer]
		return h != nil && h.base <= r.version
	}
}

// checkRound decides whether a round can still end, given who is there.
func (c *Coordinator) checkRound(r *round) {
	possible := c.possible(r)
	c.acceptIf(r, func(chunk int) bool { return !r.cover.more(chunk, possible) })
	if r.over {
		return
	}
	if r.cover.feasible(possible) {
		r.short = time.Time{}
		return
	}
	if r.cover.chosen != nil && c.cfg.Replay == nil && c.cfg.Select != nil {
		if sets, err := c.choice(r); err == nil && sets != nil {
			for _, chunk := range r.cover.chosen.Choose(sets) {
				c.endChunk(r, chunk)
			}
			if r.over || r.cover.feasible(possible) {
				return
			}
		}
	}
	if r.short.IsZero() {
		r.short = time.Now()
		signal(r.notify)
	}
	if !r.lost && !c.recoverable(r.place) {
		r.lost = true
		signal(r.notify)
	}
}

// endChunk cancels what is still being done for a chunk that is ready, and ends
// the round with its last chunk.
func (c *Coordinator) endChunk(r *round, chunk int) {
	if r.cover.done() {
		c.endRound(r, nil)
		return
	}
	key := taskKey{r.id, chunk}
	for l := range c.links() {
		if _, busy := l.tasks[key]; busy {
			c.takeBack(l, key, TaskCancelled, 0)
			l.say(&Message{Header: Header{Kind: KindCancel, Round: r.id, Layer: r.Layer, Slot: l.slot, Slots: []int{chunk}}})
		} else if l.load() == 0 {
			signal(l.wake) // it may be worth doubling up on another one now
		}
	}
}

// endRound takes a round out of the schedule, with its results or an error.
func (c *Coordinator) endRound(r *round, err error) {
	if r.over {
		return
	}
	r.over, r.err, r.took = true, err, time.Since(r.started)
	c.rounds = slices.DeleteFunc(c.rounds, func(o *round) bool { return o == r })
	for l := range c.links() {
		for key := range l.tasks {
			if key.round == r.id {
				c.takeBack(l, key, TaskCancelled, 0)
			}
		}
		if _, open := l.open[r.id]; open {
			delete(l.open, r.id)
			l.say(&Message{Header: Header{Kind: KindCancel, Round: r.id, Layer: r.Layer}})
		}
		signal(l.wake)
	}
	if err == nil {
		c.deadline.observe(r.took)
		for chunk := range r.layer.Chunks {
			r.sets = append(r.sets, r.cover.answers(chunk))
		}
		c.settle(r)
		if c.cfg.Record != nil {
			c.cfg.Record.round(r.id, r.Layer, r.Product, r.Step, r.sets)
		}
	}
	if err != nil {
		for _, s := range r.spent {
			c.waste(s.by, s.work)
		}
	}
	r.awaited = r.cover.awaited
	r.place.covers = append(r.place.covers, r.cover)
	r.cover = nil
	releaseOperands(r.operand, r.slots)
	r.operand, r.slots = nil, nil
	signal(r.notify)
}
