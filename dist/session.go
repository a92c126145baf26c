package dist

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
)

// session is a worker's service to one connection of a coordinator. A reader
// sorts what arrives into queues, one goroutine computes, one writes. So a
// cancellation is seen between two chunks, and a slow network does not stop the
// computing until the out queue is full.
type session struct {
	w    *Worker
	conn *Conn
	run  string

	busy time.Time // until when the device that the worker is like has worked; of the computing goroutine

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	done   chan struct{}  // closed by Worker.serve when all is over
	wg     sync.WaitGroup // reader, computer, writer, donations under way
	out    chan outgoing  // capacity outQueue; never closed
	wake   chan struct{}  // capacity 1: the computer looks again
	queued atomic.Int64   // bytes of the operands that wait

	mu       sync.Mutex
	arrivals uint64 // orders the operations of all shards
	step     int    // newest training step heard of
	shards   map[string]*heldShard
	tasks    []*task
	running  *task
	rounds   map[uint64]*counted // operands of rounds that may still have tasks; nil if those bring theirs
	factors  map[uint64]float64  // of slowness, of the same rounds
	inboxes  map[uint64]*inbox   // of repairs, by number
	newest   map[string]uint64   // repair, by layer
	changed  chan struct{}       // closed and replaced when an inbox comes
	broken   error               // why the worker ended the session itself

	offer []Held // copies that were kept before the session
}

// outQueue is how many messages wait for the writer.
const outQueue = 8

type outgoing struct {
	m    *Message
	sent func() // called when m has been written or given up; may be nil
}

// task is a chunk to compute.
type task struct {
	Header
	came      time.Time
	rows      *counted      // the rows that it needs, if its layer is cut by batch; else the round's operand
	cancelled chan struct{} // closed when it is called off
}

func (t *task) cancel() { close(t.cancelled) }

func (t *task) isCancelled() bool {
	select {
	case <-t.cancelled:
		return true
	default:
		return false
	}
}

func newSession(w *Worker, conn *Conn, run string) *session {
	s := &session{
		w: w, conn: conn, run: run,
		done:    make(chan struct{}),
		out:     make(chan outgoing, outQueue),
		wake:    make(chan struct{}, 1),
		shards:  map[string]*heldShard{},
		rounds:  map[uint64]*counted{},
		factors: map[uint64]float64{},
		inboxes: map[uint64]*inbox{},
		newest:  map[string]uint64{},
		changed: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// stop ends the session; the first reason counts.
func (s *session) stop(reason error) {
	s.cancel(reason)
	s.conn.Close()
}

// quit ends the session because of what happened here, and tells the
// coordinator why.
func (s *session) quit(err error) {
	s.mu.Lock()
	first := s.broken == nil
	if first {
		s.broken = err
	}
	s.mu.Unlock()
	if first {
		s.lastWords(&Message{Header: Header{Kind: KindBye, Error: err.Error()}})
		s.stop(err)
	}
}

// lastWords sends a message and waits, not for long, until the coordinator has
// closed the connection after it: to close it here, with unread messages, could
// lose the message on its way.
func (s *session) lastWords(m *Message) {
	const grace = 2 * time.Second
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case s.out <- outgoing{m, nil}:
	case <-timer.C:
		return
	case <-s.ctx.Done():
		return
	}
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// serve runs the session until its connection or ctx ends.
func (s *session) serve(ctx context.Context) error {
	defer s.releaseAll()
	defer s.stop(nil)
	s.conn.Idle = 0
	if err := s.conn.Send(ctx, s.hello()); err != nil {
		return err
	}
	computed := make(chan struct{})
	s.wg.Go(func() { s.stop(s.read()) })
	s.wg.Go(s.write)
	s.wg.Go(func() {
		defer close(computed)
		s.compute(ctx)
	})
	select {
	case <-s.ctx.Done():
	case <-ctx.Done():
		select {
		case <-computed: // the chunk under way is finished
			s.lastWords(&Message{Header: Header{Kind: KindBye}})
		case <-s.ctx.Done():
		}
	}
	s.stop(nil)
	s.wg.Wait()
	if s.broken != nil {
		return s.broken
	}
	return context.Cause(s.ctx)
}

func (s *session) hello() *Message {
	m := &Message{Header: Header{
		Kind: KindHello, Run: s.run, From: s.w.cfg.Name, Role: RoleWorker, Addr: s.w.cfg.Addr,
	}}
	for _, h := range s.shards {
		m.Held = append(m.Held, h.describe())
	}
	m.Held = append(m.Held, s.offer...)
	m.Held = m.Held[:min(len(m.Held), maxHeld)]
	return m
}

// releaseAll gives the operands back that were still waiting.
func (s *session) releaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, operand := range s.rounds {
		operand.release()
		delete(s.rounds, id)
	}
	for _, h := range s.shards {
		h.dropOps()
	}
	for _, t := range s.tasks {
		t.rows.release()
	}
	s.tasks = nil
}

// send queues a message for the writer.
func (s *session) send(m *Message, sent func()) {
	select {
	case s.out <- outgoing{m, sent}:
	case <-s.ctx.Done():
		if sent != nil {
			sent()
		}
	}
}

func (s *session) write() {
	for {
		select {
		case o := <-s.out:
			err := s.conn.Send(s.ctx, o.m)
			if o.sent != nil {
				o.sent()
			}
			if err != nil {
				s.stop(err)
				return
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// read sorts what arrives, until the connection ends. After a message that
// breaks the protocol it only waits for the end.
func (s *session) read() error {
	var m Message
	refused := false
	for {
		err := s.conn.Recv(&m)
		if err == nil && !refused {
			if bad := s.handle(&m); errors.Is(bad, errBye) {
				err = bad
			} else if bad != nil {
				refused = true
				s.wg.Go(func() { s.quit(bad) })
			}
		}
		for i, t := range m.Tensors {
			s.w.buffers.give(t.Data)
			m.Tensors[i] = coded.Tensor{}
		}
		if err != nil {
			return err
		}
		signal(s.wake)
	}
}

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
	}
	return fmt.Errorf("unexpected message of kind %d", m.Kind)
}

func (s *session) newestStep() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step
}

func (s *session) onPlace(m *Message) error {
	h, err := s.newShard(m)
	if err != nil {
		return err
	}
	op := &operation{kind: opPlace, at: s.arrivals, state: slices.Clone(m.Tensors)}
	clear(m.Tensors)
	if m.Saved != 0 {
		if op.state, op.borrowed = s.w.savedState(s.run, h, m.Saved), true; op.state == nil {
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
