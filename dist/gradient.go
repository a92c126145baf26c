package dist

import (
	"context"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// A gradient is an operation of its own, before the update that needs it, so that it is
// computed while other layers go backward. A shard that can put it off is asked for one
// part at a time, between which what is more urgent has its turn; and as soon as the
// update has come, the rest is done with it.

// joined takes an operation from the head of the queue, an update together with the
// gradient before it. It needs session.mu.
func (h *heldShard) joined() *operation {
	op := h.ops[0]
	h.ops = h.ops[1:]
	if op.kind != opAccumulate || len(h.ops) == 0 {
		return op
	}
	next := h.ops[0]
	if next.kind != opUpdate || next.update.Step != op.step {
		return op
	}
	h.ops = h.ops[1:]
	next.before = op
	return next
}

// putBack returns an operation that is not done to the head of the queue, unless the
// shard has been given up.
func (s *session) putBack(h *heldShard, op *operation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.dropped {
		return false
	}
	h.ops = slices.Insert(h.ops, 0, op)
	return true
}

// gradient computes a gradient or a part of it, and then returns the rest to the queue.
func (s *session) gradient(ctx context.Context, h *heldShard, op *operation) error {
	begin := time.Now()
	err := s.accumulate(h, op)
	flops := op.left
	if d, ok := h.shard.(coded.DeferringShard); ok && err == nil {
		err = s.w.guard(func() error { flops = d.Proceed(); return nil })
		if err == nil && flops > 0 {
			op.left -= flops
			s.charge(ctx, h, op, begin, flops)
			if s.putBack(h, op) {
				return nil
			}
		}
	} else {
		s.charge(ctx, h, op, begin, flops)
	}
	op.release()
	return err
}

// accumulate gives the shard the operands of a gradient, if it has not got them.
func (s *session) accumulate(h *heldShard, op *operation) error {
	if !op.begun.IsZero() {
		return nil
	}
	op.begun = time.Now()
	if err := s.forget(h, op.step); err != nil {
		return err
	}
	h.pending = op.step
	return s.w.guard(func() error {
		if f, ok := h.shard.(updateFlopsTeller); ok {
			op.left = f.UpdateFlops(op.x.tensor.Shape)
		}
		if d, ok := h.shard.(coded.DeferringShard); ok {
			return d.Defer(op.x.tensor, op.dy.tensor)
		}
		return h.shard.Accumulate(op.x.tensor, op.dy.tensor)
	})
}

// update makes an update, with what is left of the gradient.
func (s *session) update(ctx context.Context, h *heldShard, op *operation) error {
	begin := time.Now()
	if op.before != nil {
		if err := s.accumulate(h, op.before); err != nil {
			return err
		}
	}
	if err := s.forget(h, op.update.Step); err != nil {
		return err
	}
	h.pending = 0
	if err := s.w.guard(func() error { return h.shard.Apply(op.update) }); err != nil {
		return err
	}
	if op.before != nil {
		s.charge(ctx, h, op.before, begin, op.before.left)
	}
	s.advance(h, h.version+1)
	return nil
}

// charge makes a paced worker take its time for some of a gradient, begun just before,
// and counts it in the speed that the coordinator hears of.
func (s *session) charge(ctx context.Context, h *heldShard, op *operation, begin time.Time, flops float64) {
	s.dawdle(ctx, op.begun, begin, flops, 1, nil)
	if flops > 0 {
		h.flops, h.took = h.flops+flops, h.took+time.Since(begin)
	}
}
