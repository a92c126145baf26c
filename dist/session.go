package dist

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
)

// session is a worker's service to a connection of a coordinator. A reader sorts what
// arrives into queues, one goroutine computes and writes short answers, one writes long
// ones and those behind them. So a cancellation is seen between two chunks, and a slow
// network does not stop the computing until the out queue is full, or what the socket
// takes.
type session struct {
	w    *Worker
	conn *Conn
	run  string

	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	done   chan struct{}  // closed by Worker.serve when all is over
	wg     sync.WaitGroup // reader, computer, writer, donations under way
	out    chan outgoing  // capacity outQueue; never closed
	unsent atomic.Int32   // messages in it, or on their way past it
	pongs  atomic.Int32   // of those
	wake   chan struct{}  // capacity 1: the computer looks again
	queued atomic.Int64   // bytes of the operands that wait
	busy   time.Time      // until when the device that the worker is like has worked; of the computing goroutine

	mu       sync.Mutex
	arrivals uint64 // orders the operations of all shards
	step     int    // newest training step heard of
	shards   map[shardKey]*heldShard
	tasks    []*task
	running  *task
	rounds   map[uint64]*operands // of rounds that may still have tasks
	inboxes  map[uint64]*inbox    // of repairs, by number
	newest   map[string]uint64    // repair, by layer
	changed  chan struct{}        // closed and replaced when an inbox comes
	broken   error                // why the worker ended the session itself

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
	rows      *counted      // the rows that it needs, if its layer or round is cut by batch; else the round's operand
	cancelled chan struct{} // closed when it is called off
}

// operands are those of a round that may still have tasks.
type operands struct {
	all    *counted         // of all slots; nil if the tasks bring theirs, or the slots have their own
	own    map[int]*counted // by slot
	factor float64          // by which the round's tasks take longer, 0: not drawn; of the computing goroutine
}

// of returns the operand of a slot, nil if it has not come.
func (o *operands) of(slot int) *counted {
	switch {
	case o == nil:
		return nil
	case o.all != nil:
		return o.all
	}
	return o.own[slot]
}

func (o *operands) release() {
	o.all.release()
	for _, operand := range o.own {
		operand.release()
	}
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
		shards:  map[shardKey]*heldShard{},
		rounds:  map[uint64]*operands{},
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
	s.unsent.Add(1)
	select {
	case s.out <- outgoing{m, nil}:
	case <-timer.C:
		s.unsent.Add(-1)
		return
	case <-s.ctx.Done():
		s.unsent.Add(-1)
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
		Seats: s.w.cfg.Seats,
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
	for id, o := range s.rounds {
		o.release()
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

// send sends a message or queues it for the writer.
func (s *session) send(m *Message, sent func()) {
	o := outgoing{m, sent}
	if s.unsent.Add(1) == 1 && o.short() {
		s.put(o)
		return
	}
	select {
	case s.out <- o:
	case <-s.ctx.Done():
		s.unsent.Add(-1)
		o.settle()
	}
}

// short messages do not wait for the writer if there is no other message: to wake
// it takes longer than to write them.
func (o outgoing) short() bool {
	size := 0
	for _, t := range o.m.Tensors {
		size += 4 * len(t.Data)
	}
	return size <= shortMessage
}

// shortMessage is less than what a socket takes while the other side is busy.
const shortMessage = 64 << 10

func (o outgoing) settle() {
	if o.sent != nil {
		o.sent()
	}
}

// put writes a message. The end of the session closes the connection, and so ends
// the wait.
func (s *session) put(o outgoing) {
	err := s.conn.Send(context.Background(), o.m)
	s.unsent.Add(-1)
	o.settle()
	if err != nil {
		s.stop(err)
	}
}

func (s *session) write() {
	for {
		select {
		case o := <-s.out:
			s.put(o)
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
		if m.Kind != KindOperand || m.Keep { // else there is nothing to do before its tasks come
			signal(s.wake)
		}
	}
}

func (s *session) newestStep() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step
}
