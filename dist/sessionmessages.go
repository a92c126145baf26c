package dist

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// handle does what a message asks for, which is mostly to put it into a queue. It
// is called by the session's reader.
func (s *session) handle(m *Message) error {
	switch m.Kind {
	case KindPing:
		s.send(&Message{Header: Header{Kind: KindPong}}, nil)
		return nil
	case KindPong:
		return nil
	case KindBye:
		if m.Error != "" {
			return fmt.Errorf("%w: %s", errBye, m.Error)
		}
		return errBye
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivals++
	s.step = max(s.step, m.Step)
	switch m.Kind {
	case KindPlace:
		return s.onPlace(m)
	case KindOperand:
		return s.onOperand(m)
	case KindUpdate:
		return s.onUpdate(m)
	case KindTask:
		return s.onTask(m)
	case KindCancel:
		s.onCancel(m)
		return nil
	case KindDonate, KindFetch, KindKeep:
		return s.onGive(m)
	case KindReceive:
		return s.onReceive(m)
	case KindForget:
		s.onForget(m.Layer)
		return nil
	}
	return fmt.Errorf("unexpected message of kind %d", m.Kind)
}

func (s *session) onPlace(m *Message) error {
	h, err := s.newShard(m)
	if err != nil {
		return err
	}
	op := &operation{kind: opPlace, at: s.arrivals, state: slices.Clone(m.Tensors)}
	clear(m.Tensors)
	if m.Saved != 0 {
		if op.state, op.borrowed = s.savedState(h, m.Saved), true; op.state == nil {
			s.cannotPlace(m.Header)
			return nil
		}
	}
	h.add(op)
	s.forgetInboxes(m.Layer)
	s.replaceShard(h)
	return nil
}

// onOperand keeps an operand for the tasks of its round, and for the gradient.
func (s *session) onOperand(m *Message) error {
	if n := len(m.Tensors); n < 1 || n > 2 || n > 1 && m.Keep {
		return fmt.Errorf("operand with %d tensors, want 1, or 2 that are not kept", n)
	}
	operand, err := s.keepOperand(m)
	if err != nil {
		return err
	}
	defer operand.release()
	if m.Round != 0 {
		if s.rounds[m.Round] != nil {
			return fmt.Errorf("operand of round %d twice", m.Round)
		}
		s.rounds[m.Round] = operand.retain()
	}
	if !m.Keep {
		return nil
	}
	h := s.shards[m.Layer]
	if h == nil {
		return fmt.Errorf("kept operand of layer %q, of which there is no shard", m.Layer)
	}
	if m.Product == coded.Forward {
		h.keep(operand.retain(), m.Step)
		return nil
	}
	x := h.pair(m.Step)
	if x == nil {
		return fmt.Errorf("layer %s: step %d: gradient without the operand of the forward product", m.Layer, m.Step)
	}
	h.add(&operation{kind: opAccumulate, at: s.arrivals, x: x, dy: operand.retain(), step: m.Step})
	return nil
}

// onUpdate queues an update for the shards that have everything before it. One
// with a gap has been given up by the coordinator.
func (s *session) onUpdate(m *Message) error {
	if m.Update == nil {
		return errors.New("update without its settings")
	}
	for name, h := range s.shards {
		switch {
		case m.State <= h.tail:
		case m.State == h.tail+1:
			h.dropXs()
			h.tail++
			h.add(&operation{kind: opUpdate, at: s.arrivals, update: *m.Update})
		default:
			h.dropOps()
			delete(s.shards, name)
		}
	}
	return nil
}

func (s *session) onTask(m *Message) error {
	h := s.shards[m.Layer]
	if h == nil || len(m.Tensors) == 0 && s.rounds[m.Round] == nil {
		return fmt.Errorf("task of round %d of layer %q without its shard or operand", m.Round, m.Layer)
	}
	if m.Chunk < 0 || m.Chunk >= h.layer.Chunks || m.Slot != h.slot {
		return fmt.Errorf("layer %s: task of slot %d, chunk %d, want slot %d, chunk 0 to %d", m.Layer, m.Slot, m.Chunk, h.slot, h.layer.Chunks-1)
	}
	if s.has(m.Header) {
		return nil // the coordinator believed it lost
	}
	t := &task{Header: m.Header, came: time.Now(), cancelled: make(chan struct{})}
	if len(m.Tensors) > 0 {
		if len(m.Tensors) > 1 || !h.layer.ByBatch {
			return fmt.Errorf("layer %s: task with %d tensors, want 1, and the layer to be cut by batch", m.Layer, len(m.Tensors))
		}
		var err error
		if t.rows, err = s.keepOperand(m); err != nil {
			return err
		}
		if _, known := s.rounds[m.Round]; !known {
			s.rounds[m.Round] = nil // it is under way
		}
	}
	s.tasks = append(s.tasks, t)
	return nil
}

// has tells whether a task is waiting or under way.
func (s *session) has(h Header) bool {
	same := func(t *task) bool { return t.Round == h.Round && t.Chunk == h.Chunk && !t.isCancelled() }
	return s.running != nil && same(s.running) || slices.ContainsFunc(s.tasks, same)
}

// keepOperand takes the tensor, or both, out of a message.
func (s *session) keepOperand(m *Message) (*counted, error) {
	operand := s.w.buffers.adopt(m.Tensors[0])
	size := 4 * len(m.Tensors[0].Data)
	for _, t := range m.Tensors[1:] {
		operand.more = s.w.buffers.adopt(t)
		size += 4 * len(t.Data)
	}
	clear(m.Tensors)
	operand.freed = func(int) { s.queued.Add(-int64(size)) }
	if n := s.queued.Add(int64(size)); n > s.w.cfg.MaxQueue {
		operand.release()
		return nil, fmt.Errorf("%d bytes of operands wait, at most %d", n, s.w.cfg.MaxQueue)
	}
	return operand, nil
}

func (s *session) onCancel(m *Message) {
	hit := func(t *task) bool {
		return t.Round == m.Round && (len(m.Slots) == 0 || slices.Contains(m.Slots, t.Chunk))
	}
	waiting := len(s.tasks)
	s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool {
		if hit(t) {
			t.rows.release()
			return true
		}
		return false
	})
	s.w.totals.cancelled.Add(int64(waiting - len(s.tasks)))
	if s.running != nil && hit(s.running) && !s.running.isCancelled() {
		s.running.cancel()
	}
	if operand, known := s.rounds[m.Round]; known && len(m.Slots) == 0 {
		operand.release()
		delete(s.rounds, m.Round)
		delete(s.factors, m.Round)
	}
}

// onForget gives up a shard that another worker has taken over.
func (s *session) onForget(layer string) {
	if h := s.shards[layer]; h != nil {
		h.dropOps()
		delete(s.shards, layer)
	}
	s.forgetInboxes(layer)
}

// onGive queues the giving away of a state: to the coordinator or to a peer.
func (s *session) onGive(m *Message) error {
	h := s.shards[m.Layer]
	if h == nil || m.State > h.tail || m.Slot != h.slot {
		if m.Kind != KindKeep {
			s.cannotGive(m.Header, "no such shard")
		}
		return nil
	}
	kind := opFetch
	switch m.Kind {
	case KindDonate:
		kind = opDonate
	case KindKeep:
		kind = opKeep
	}
	h.add(&operation{kind: kind, at: s.arrivals, header: m.Header})
	return nil
}

// cannotGive tells the coordinator that a state will not come.
func (s *session) cannotGive(asked Header, reason string) {
	kind := KindDonate
	if asked.Kind == KindFetch {
		kind = KindState
	}
	m := &Message{Header: Header{Kind: kind, Layer: asked.Layer, Round: asked.Round, Slot: asked.Slot, Error: reason}}
	// Not from the reader, which must not wait for the writer.
	s.wg.Go(func() { s.send(m, nil) })
}
