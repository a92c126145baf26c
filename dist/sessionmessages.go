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
		s.pong()
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
		s.onForget(shardKey{m.Layer, m.Slot})
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
		if op.state = s.savedState(h, m.Saved); op.state == nil {
			s.cannotPlace(m.Header)
			return nil
		}
	}
	h.add(op)
	s.forgetInboxes(h.key())
	s.replaceShard(h)
	return nil
}

// onOperand keeps an operand for the tasks of its round, and for the gradient.
func (s *session) onOperand(m *Message) error {
	if n := len(m.Tensors); n < 1 || n > 2 || n > 1 && m.Keep {
		return fmt.Errorf("operand with %d tensors, want 1, or 2 that are not kept", n)
	}
	if m.Keep && len(m.Slots) == 0 {
		return fmt.Errorf("operand of layer %q to be kept by no slot", m.Layer)
	}
	operand, err := s.keepOperand(m)
	if err != nil {
		return err
	}
	defer operand.release()
	if m.Round != 0 {
		if err := s.openRound(m, operand); err != nil {
			return err
		}
	}
	if !m.Keep {
		return nil
	}
	for _, slot := range m.Slots {
		if err := s.keepFor(shardKey{m.Layer, slot}, m, operand); err != nil {
			return err
		}
	}
	return nil
}

// openRound keeps an operand for the tasks of its round: of some slots, if it is not
// kept for gradients as well and names them, else of all.
func (s *session) openRound(m *Message, operand *counted) error {
	o := s.round(m.Round)
	if m.Keep || len(m.Slots) == 0 {
		if o.all != nil {
			return fmt.Errorf("operand of round %d twice", m.Round)
		}
		o.all = operand.retain()
		return nil
	}
	for _, slot := range m.Slots {
		if o.own[slot] != nil {
			return fmt.Errorf("operand of round %d for slot %d twice", m.Round, slot)
		}
		if o.own == nil {
			o.own = map[int]*counted{}
		}
		o.own[slot] = operand.retain()
	}
	return nil
}

// round returns the operands of a round that is under way.
func (s *session) round(id uint64) *operands {
	o := s.rounds[id]
	if o == nil {
		o = &operands{}
		s.rounds[id] = o
	}
	return o
}

// keepFor keeps an operand for the gradient of a shard.
func (s *session) keepFor(key shardKey, m *Message, operand *counted) error {
	h := s.shards[key]
	if h == nil {
		return fmt.Errorf("kept operand of layer %q for slot %d, of which there is no shard", key.layer, key.slot)
	}
	if m.Product == coded.Forward {
		h.keep(operand.retain(), m.Step)
		return nil
	}
	x := h.pair(m.Step)
	if x == nil {
		return fmt.Errorf("layer %s: slot %d: step %d: gradient without the operand of the forward product", key.layer, key.slot, m.Step)
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
	for key, h := range s.shards {
		switch {
		case m.State <= h.tail:
		case m.State == h.tail+1:
			h.dropXs()
			h.tail++
			h.add(&operation{kind: opUpdate, at: s.arrivals, update: *m.Update})
		default:
			h.dropOps()
			delete(s.shards, key)
		}
	}
	return nil
}

func (s *session) onTask(m *Message) error {
	h := s.shards[shardKey{m.Layer, m.Slot}]
	if h == nil || len(m.Tensors) == 0 && s.rounds[m.Round].of(m.Slot) == nil {
		return fmt.Errorf("task of round %d of layer %q, slot %d, without its shard or operand", m.Round, m.Layer, m.Slot)
	}
	if m.Chunk < 0 || m.Chunk >= h.layer.Chunks {
		return fmt.Errorf("layer %s: task of chunk %d, want 0 to %d", m.Layer, m.Chunk, h.layer.Chunks-1)
	}
	if s.has(m.Header) {
		return nil // the coordinator believed it lost
	}
	t := &task{Header: m.Header, came: time.Now(), cancelled: make(chan struct{})}
	if len(m.Tensors) > 0 {
		if len(m.Tensors) > 1 {
			return fmt.Errorf("layer %s: task with %d tensors, want 1", m.Layer, len(m.Tensors))
		}
		var err error
		if t.rows, err = s.keepOperand(m); err != nil {
			return err
		}
		s.round(m.Round)
	}
	s.tasks = append(s.tasks, t)
	return nil
}

// has tells whether a task is waiting or under way.
func (s *session) has(h Header) bool {
	same := func(t *task) bool {
		return t.Round == h.Round && t.Slot == h.Slot && t.Chunk == h.Chunk && !t.isCancelled()
	}
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
		return t.Round == m.Round && (len(m.Slots) == 0 || t.Slot == m.Slot && slices.Contains(m.Slots, t.Chunk))
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
	if o := s.rounds[m.Round]; o != nil && len(m.Slots) == 0 {
		o.release()
		delete(s.rounds, m.Round)
	}
}

// onForget gives up a shard that another worker has taken over, or that is not trusted.
func (s *session) onForget(key shardKey) {
	if h := s.shards[key]; h != nil {
		h.dropOps()
		delete(s.shards, key)
	}
	s.forgetInboxes(key)
}

// onGive queues the giving away of a state: to the coordinator or to a peer.
func (s *session) onGive(m *Message) error {
	h := s.shards[shardKey{m.Layer, m.Slot}]
	if h == nil || m.State > h.tail {
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
	s.sendLater(m, nil)
}

// pong answers a ping, unless an answer waits that has not been written yet: of
// two, one at most has been.
func (s *session) pong() {
	if s.pongs.Add(1) > 2 {
		s.pongs.Add(-1)
		return
	}
	s.sendLater(&Message{Header: Header{Kind: KindPong}}, func() { s.pongs.Add(-1) })
}

// sendLater sends a message for the reader, which must not wait: the coordinator may
// read nothing before what it sends is read.
func (s *session) sendLater(m *Message, sent func()) {
	s.wg.Go(func() { s.send(m, sent) })
}
