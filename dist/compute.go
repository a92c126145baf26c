package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// What a shard may tell of its cost, in floating-point operations: of a whole
// product of an operand of a shape, and of Accumulate for X of a shape.
type (
	flopsTeller interface {
		Flops(p coded.Product, operand []int) float64
	}
	updateFlopsTeller interface{ UpdateFlops(x []int) float64 }
)

// compute does tasks and operations, one at a time, until the session or ctx ends.
func (s *session) compute(ctx context.Context) {
	for ctx.Err() == nil && s.ctx.Err() == nil {
		t, h, op, operand := s.pick()
		switch {
		case t != nil:
			m, sent := s.multiply(ctx, t, h, operand)
			operand.release()
			if m != nil {
				s.send(m, sent) // it may have to wait
			}
		case op != nil:
			if err := s.operate(ctx, h, op); err != nil {
				s.fail(h, op, err)
			}
		default:
			select {
			case <-s.wake:
			case <-ctx.Done():
			case <-s.ctx.Done():
			}
		}
	}
}

// pick takes what is next out of its queue: a task with its operand, or an operation.
// Products that can be computed now come first, since the coordinator waits for them;
// then the operations of the shard that the oldest waiting product needs; then the
// oldest operation.
func (s *session) pick() (*task, *heldShard, *operation, *counted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h *heldShard
	for i, t := range s.tasks {
		of := s.shards[shardKey{t.Layer, t.Slot}]
		switch {
		case of == nil:
		case of.serves(t.State):
			s.tasks = slices.Delete(s.tasks, i, i+1)
			s.running = t
			if t.rows != nil {
				return t, of, nil, t.rows
			}
			return t, of, nil, s.rounds[t.Round].of(t.Slot).retain()
		case h == nil && of.ready():
			h = of
		}
	}
	if h == nil {
		h = s.oldestOperation()
	}
	if h == nil {
		return nil, nil, nil, nil
	}
	return nil, h, h.joined(), nil
}

// oldestOperation returns the shard whose next operation came first of those that can
// be done, nil if there is none. It needs mu.
func (s *session) oldestOperation() (h *heldShard) {
	for _, of := range s.shards {
		if of.ready() && (h == nil || cmp.Or(cmp.Compare(of.ops[0].at, h.ops[0].at), cmp.Compare(of.slot, h.slot)) < 0) {
			h = of
		}
	}
	return h
}

// multiply computes a chunk and returns the message that tells of it, nil if it is
// to be lost.
func (s *session) multiply(ctx context.Context, t *task, h *heldShard, x *counted) (m *Message, sent func()) {
	begin := time.Now()
	var result *counted
	flops := 0.0
	err := s.w.guard(func() error {
		operand, chunks := x.tensor, float64(h.layer.Chunks)
		if h.layer.ByBatch || t.rows != nil {
			chunks = 1
		}
		if t.rows == nil {
			operand = h.layer.Operand(operand, t.Chunk)
		}
		if f, ok := h.shard.(flopsTeller); ok {
			flops = f.Flops(t.Product, operand.Shape) / chunks
		}
		operands := x.tensors()
		operands[0] = operand
		y, err := t.product(h, operands)
		if err == nil {
			result = s.w.buffers.copyOf(y)
		}
		return err
	})
	done := 1.0
	var stopped *coded.StoppedError
	if errors.As(err, &stopped) {
		err, done = nil, stopped.Done // it has been called off
	}
	if err == nil {
		flops *= min(done, s.dawdle(ctx, t.came, begin, flops, s.slowness(t), t.cancelled))
	}
	m = &Message{Header: Header{
		Kind: KindResult, Layer: t.Layer, Round: t.Round, Product: t.Product, Slot: t.Slot, Chunk: t.Chunk, Step: t.Step,
		Flops: flops, Nanos: int64(time.Since(begin)),
	}}
	s.mu.Lock()
	s.running = nil
	cancelled := t.isCancelled() || stopped != nil
	s.mu.Unlock()
	s.w.totals.computing.Add(m.Nanos)
	switch {
	case err != nil:
		m.Error = fmt.Sprintf("layer %s: step %d: %s product, chunk %d: %v", t.Layer, t.Step, t.Product, t.Chunk, err)
	case cancelled:
		s.w.totals.cancelled.Add(1)
	case s.w.cfg.Tamper != nil && !s.w.cfg.Tamper(t.info(), t.Chunk, result.tensor):
		result.release()
		return nil, nil
	default:
		s.w.totals.tasks.Add(1)
		m.Tensors = []coded.Tensor{result.tensor}
	}
	return m, result.release
}

// product computes the chunk.
func (t *task) product(h *heldShard, operands []coded.Tensor) (coded.Tensor, error) {
	if t.rows == nil || h.layer.ByBatch {
		return coded.Multiply(t.cancelled, h.shard, t.Product, operands, t.Chunk)
	}
	rows, ok := h.shard.(coded.RowsShard)
	if !ok {
		return coded.Tensor{}, fmt.Errorf("a task with rows of its own, which a %T does not take", h.shard)
	}
	return rows.MultiplyRows(t.Product, operands[0])
}

func (t *task) info() ProductInfo {
	return ProductInfo{Layer: t.Layer, Product: t.Product, Round: t.Round, Step: t.Step, Slot: t.Slot}
}

// slowness asks once for every product, for all its tasks.
func (s *session) slowness(t *task) float64 {
	if s.w.cfg.Slow == nil {
		return 1
	}
	s.mu.Lock()
	o := s.rounds[t.Round] // nil: it has just been cancelled
	s.mu.Unlock()
	if o == nil {
		return s.w.cfg.Slow(t.info())
	}
	if o.factor == 0 {
		o.factor = s.w.cfg.Slow(t.info())
	}
	return o.factor
}

// lag is how much of its own delays a paced worker makes up for: timers and
// processors that it shares must not add up over many small chunks. A worker that
// was stopped does not catch up.
const lag = 10 * time.Millisecond

// dawdle waits until a device of the configured pace, slowed by a factor, would
// have done so many flops that came at one time and were begun at another: a device
// begins as soon as it is free, whatever holds this process up for a moment. It
// returns early, with the part of the work that was done, when stop is closed.
func (s *session) dawdle(ctx context.Context, came, begin time.Time, flops, factor float64, stop <-chan struct{}) (done float64) {
	now := time.Now()
	end := begin.Add(time.Duration(float64(now.Sub(begin)) * max(factor, 1)))
	if pace := s.w.cfg.Pace; pace > 0 && flops > 0 {
		for _, t := range []time.Time{s.busy, begin.Add(-lag)} {
			if t.After(came) {
				came = t
			}
		}
		if came.Before(begin) {
			begin = came
		}
		end = begin.Add(time.Duration(flops / pace * max(factor, 1))) // flops per GFLOP/s are nanoseconds
	}
	s.busy = end
	if !end.After(now) {
		s.busy = now
		return 1
	}
	if s.sleep(ctx, end, stop) {
		s.busy = time.Now()
		return min(1, float64(s.busy.Sub(begin))/float64(end.Sub(begin)))
	}
	return 1
}

// sleep waits for a moment. It returns true if stop was closed before.
func (s *session) sleep(ctx context.Context, until time.Time, stop <-chan struct{}) (stopped bool) {
	a := s.w.cfg.Alarm
	for a.Set(until); time.Now().Before(until); {
		select {
		case <-a.C():
			continue
		case <-stop:
			stopped = true
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		a.Stop()
		break
	}
	return stopped
}

// operate does an operation of a shard.
func (s *session) operate(ctx context.Context, h *heldShard, op *operation) error {
	if op.kind == opAccumulate {
		defer s.w.totals.updated(time.Now())
		return s.gradient(ctx, h, op)
	}
	defer op.release()
	switch op.kind {
	case opPlace:
		return s.setState(h, op.state)
	case opReceive:
		state, err := op.inbox.sum()
		if err != nil {
			return err
		}
		s.mu.Lock()
		h.source, h.placed = op.header.Round, op.header.Placed
		delete(s.inboxes, op.inbox.round) // the donations may be large
		s.mu.Unlock()
		return s.setState(h, state)
	case opUpdate:
		defer s.w.totals.updated(time.Now())
		return s.update(ctx, h, op)
	case opDonate, opFetch:
		return s.give(h, op.header)
	case opKeep:
		return s.save(h, op.header)
	}
	return fmt.Errorf("unknown operation %d", op.kind)
}

// setState builds the shard anew, so that nothing is pending, from a state.
func (s *session) setState(h *heldShard, state []coded.Tensor) error {
	err := s.w.guard(func() error {
		shard, err := h.factory(h.layer, h.slot)
		if err != nil {
			return err
		}
		if err := shard.SetState(state); err != nil {
			return err
		}
		h.shard, h.pending = shard, 0
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	version := h.tail
	h.states--
	for _, op := range h.ops {
		if op.kind == opUpdate {
			version--
		}
	}
	s.mu.Unlock()
	s.advance(h, version)
	return nil
}

// forget drops the gradient that the shard has gathered for another step, which
// must have failed.
func (s *session) forget(h *heldShard, step int) error {
	if h.pending == 0 || h.pending == step {
		return nil
	}
	h.pending = 0
	return s.w.guard(func() error {
		shard, err := h.factory(h.layer, h.slot)
		if err != nil {
			return err
		}
		if err := shard.SetState(h.shard.State()); err != nil {
			return err
		}
		h.shard = shard
		return nil
	})
}

// advance notes a shard's new version and tells the coordinator.
func (s *session) advance(h *heldShard, version int) {
	s.mu.Lock()
	h.version = version
	m := &Message{Header: Header{Kind: KindApplied, Layer: h.layer.Name, Slot: h.slot, Round: h.source, State: version,
		Flops: h.flops, Nanos: int64(h.took),
	}}
	h.flops, h.took = 0, 0
	s.mu.Unlock()
	s.send(m, nil)
}

// fail ends the session after an operation that leaves a shard in an unknown
// state: the coordinator will repair it.
func (s *session) fail(h *heldShard, op *operation, err error) {
	s.mu.Lock()
	h.version, h.shard = -1, nil
	s.mu.Unlock()
	s.quit(fmt.Errorf("layer %s: %s: %w", h.layer.Name, op.kind, err))
}

func (k opKind) String() string {
	return [...]string{"place", "repair", "gradient", "update", "donation", "fetch", "copy"}[k]
}
