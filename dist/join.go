package dist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// helloTimeout bounds the exchange of Hellos on a new connection.
const helloTimeout = 10 * time.Second

// maxHeld bounds the shards that a Hello lists.
const maxHeld = 1024

// ErrRefused is the kind of error of a worker that does not want to serve.
var ErrRefused = errors.New("refused")

// AddWorker takes the worker at the other end of a connection into the
// cluster: into a free slot, preferably the one that its name had last, else as
// a spare. If it has several seats, those but the first are spares until the first
// layer is placed. The connection belongs to the coordinator from then on, also when
// AddWorker fails. The channel is closed when the worker is gone.
func (c *Coordinator) AddWorker(ctx context.Context, conn *Conn) (gone <-chan struct{}, err error) {
	conn.Alloc = c.buffers.take
	hello, err := c.greet(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("dist: worker at %s: %w", conn.RemoteAddr(), err)
	}
	l := newLine(conn, hello)
	if err := c.checkName(ctx, l); err != nil {
		bye, cancel := context.WithTimeout(ctx, helloTimeout)
		defer cancel()
		err = errors.Join(err, conn.Send(bye, &Message{Header: Header{Kind: KindBye, Error: err.Error()}}))
		conn.Close()
		return nil, fmt.Errorf("dist: worker at %s: %w", conn.RemoteAddr(), err)
	}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	l.later = time.AfterFunc(0, func() { signal(l.wake) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.cancel()
		l.later.Stop()
		conn.Close()
		return nil, ErrClosed
	}
	if old := c.named(l.host); old != nil {
		c.drop(old, StateFailed, "replaced by a new connection of that name")
	}
	c.enter(l, hello.Held)
	return l.done, nil
}

// enter seats a worker and starts its sender and its reader.
func (c *Coordinator) enter(l *line, held []Held) {
	c.seated = c.seated || len(l.seats) > 1
	l.cursor = c.log.end()
	l.noteSaved(held)
	trusted := map[*link]bool{}
	for _, s := range l.seats {
		c.seat(s)
		s.stale = len(c.layers) > 0
		c.report(s, StateJoined, "")
		trusted[s] = c.welcome(s)
	}
	c.adopt(l, held, trusted)
	c.wg.Add(2)
	reader := make(chan struct{})
	go func() {
		defer c.wg.Done()
		defer close(reader)
		c.leave(l, c.receive(l))
	}()
	go func() {
		defer c.wg.Done()
		defer close(l.done)
		// Close also gives up on a worker that takes the goodbye but never answers it.
		defer context.AfterFunc(l.ctx, func() { l.conn.Close() })()
		if err := c.send(l); err != nil {
			c.leave(l, err)
		}
		c.forgo(l)
		<-reader
	}()
	c.heal()
}

// greet exchanges Hellos.
func (c *Coordinator) greet(ctx context.Context, conn *Conn) (Header, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err := conn.Send(ctx, &Message{Header: Header{Kind: KindHello, Run: c.cfg.Run, From: c.cfg.Name, Role: RoleCoordinator}})
	if err != nil {
		return Header{}, err
	}
	var m Message
	if err := conn.Recv(&m); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("no hello within %v: %w", helloTimeout, context.Cause(ctx))
		}
		return Header{}, err
	}
	if m.Kind == KindBye {
		return Header{}, fmt.Errorf("%w: %s", ErrRefused, m.Error)
	}
	switch {
	case m.Kind != KindHello || len(m.Tensors) > 0:
		return Header{}, fmt.Errorf("first message is of kind %d with %d tensors, want a hello", m.Kind, len(m.Tensors))
	case m.Role != RoleWorker || m.Run != c.cfg.Run:
		return Header{}, fmt.Errorf("hello as %q of run %q, want %q of %q", m.Role, m.Run, RoleWorker, c.cfg.Run)
	case m.From == "" || len(m.From) > maxName:
		return Header{}, fmt.Errorf("hello with a name of %d bytes, want 1 to %d", len(m.From), maxName)
	case m.Seats < 0 || m.Seats > maxSeats:
		return Header{}, fmt.Errorf("hello of a worker with %d seats, want at most %d", m.Seats, maxSeats)
	case len(m.Held) > maxHeld:
		return Header{}, fmt.Errorf("hello with %d shards, want at most %d", len(m.Held), maxHeld)
	}
	return m.Header, nil
}

// wish returns the slot that a worker's seat should have: the one that it had last,
// or, of a first seat, the one that its number stands for ("worker-3": slot 2); -1
// if any will do. Before anything is placed the number counts first.
func (c *Coordinator) wish(l *link) int {
	last, known := c.memory[l.name]
	if known && len(c.layers) > 0 {
		return last
	}
	digits := l.name[len(strings.TrimRight(l.name, "0123456789")):]
	if n, err := strconv.Atoi(digits); err == nil && l.seat == 0 && n >= 1 && n <= len(c.slots) {
		return n - 1
	}
	if known && c.slots[last] == nil {
		return last
	}
	return -1
}

// want is wish for a worker: before anything is placed the slot of the copies that
// it has kept counts most.
func (c *Coordinator) want(l *link) int {
	if slot := l.savedSlot(c.resume); slot >= 0 && slot < len(c.slots) && len(c.layers) == 0 {
		return slot
	}
	return c.wish(l)
}

// seat gives a worker's seat a slot if one is free. Before anything is placed, a
// worker that has another's slot by chance makes way, and who has a slot already
// waits until everybody has one (see spread).
func (c *Coordinator) seat(l *link) {
	want := c.want(l)
	if want >= 0 {
		holder := c.slots[want]
		if holder == nil || len(c.layers) == 0 && c.want(holder) != want {
			c.sit(l, want)
			if holder != nil {
				holder.slot = -1
				delete(c.memory, holder.name)
				c.seat(holder)
			}
			return
		}
	}
	// Prefer a slot that no absent worker is likely to come back for.
	free := -1
	for slot, holder := range c.slots {
		if holder == nil && (free < 0 || c.claimed(free) && !c.claimed(slot)) {
			free = slot
		}
	}
	if free < 0 || l.seat > 0 && len(c.layers) == 0 {
		c.spares = append(c.spares, l)
		return
	}
	c.sit(l, free)
}

// claimed tells whether some name had a slot last.
func (c *Coordinator) claimed(slot int) bool {
	for _, s := range c.memory {
		if s == slot {
			return true
		}
	}
	return false
}

func (c *Coordinator) sit(l *link, slot int) {
	l.slot = slot
	c.slots[slot] = l
	c.mark(slot, func(string) bool { return false })
	c.memory[l.name] = slot
	for name, s := range c.memory {
		if s == slot && name != l.name {
			delete(c.memory, name)
		}
	}
}

// mark notes, for each layer, whether an absent worker may bring the slot's shard back.
func (c *Coordinator) mark(slot int, may func(layer string) bool) {
	for name, p := range c.layers {
		if slot < len(p.absent) {
			p.absent[slot] = may(name)
		}
	}
}

// adopt takes up the shards that a worker still holds from before its connection
// broke, where the log still reaches back to them and their seat is trusted. It is to
// forget the others.
func (c *Coordinator) adopt(l *line, held []Held, trusted map[*link]bool) {
	for _, h := range held {
		if h.Saved != 0 {
			continue
		}
		p, s := c.layers[h.Layer], c.seatAt(l, h.Slot)
		if p == nil || s == nil || !trusted[s] || h.Placed != p.id || h.State < p.version || h.State > c.version {
			l.forget(h.Layer, h.Slot)
			continue
		}
		pos, ok := c.log.after(h.State)
		if !ok {
			l.forget(h.Layer, h.Slot)
			continue
		}
		s.shards[h.Layer] = &holding{held: true, source: h.Source, base: h.State, applied: h.State, next: pos}
		l.cursor = min(l.cursor, pos)
	}
}

// leave ends a worker's line after its connection has ended with an error.
func (c *Coordinator) leave(l *line, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, errBye):
		c.drop(l, StateLeft, "")
	default:
		c.drop(l, StateFailed, reasonOf(err))
	}
}

// reasonOf shortens what every broken connection says: the worker's name stands
// beside it, and its address says no more.
func reasonOf(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed by the worker"
	}
	return err.Error()
}

// drop takes a worker out of the cluster at once. Its tasks and its slots go to others.
func (c *Coordinator) drop(l *line, state, reason string) {
	if l.gone {
		return
	}
	l.gone = true
	delete(c.doubles, l.host)
	l.cancel()
	l.later.Stop()
	l.conn.Close()
	c.stats.BytesIn += l.conn.BytesIn()
	c.stats.BytesOut += l.conn.BytesOut()
	for _, s := range l.seats {
		c.takeAll(s)
		c.vacate(s, state, reason)
	}
	c.spares = slices.DeleteFunc(c.spares, func(s *link) bool { return s.line == l })
	if c.closed {
		return
	}
	for _, s := range l.seats {
		c.report(s, state, reason)
		for _, r := range c.rounds {
			r.cover.lose(s.slot)
		}
		c.abandon(s)
	}
	if c.move != nil && c.move.to.line == l {
		c.endMove(false)
	}
	for _, s := range l.seats {
		if s.slot >= 0 && len(c.spares) > 0 {
			c.seatSpare(c.bestSpare(s.slot, s), s.slot)
		}
	}
	c.heal()
}

// vacate empties the slot of a seat whose worker is lost, if it has one.
func (c *Coordinator) vacate(l *link, state, reason string) {
	if l.slot < 0 {
		return
	}
	when := "at"
	if c.step == c.applied {
		when = "after"
	}
	why := fmt.Sprintf("%s (%s %s step %d", l.name, state, when, c.step)
	if reason != "" {
		why += ": " + reason
	}
	c.missing[l.slot] = why + ")"
	c.mark(l.slot, func(layer string) bool { return state == StateFailed && l.shards[layer] != nil && l.shards[layer].held })
	c.slots[l.slot] = nil
}

// heal starts what a change of the cluster calls for: repairs, fetches from
// others, the end of rounds that have become impossible.
func (c *Coordinator) heal() {
	if c.closed {
		return
	}
	c.mend()
	for _, f := range c.fetches {
		c.ask(f)
	}
	for _, r := range slices.Clone(c.rounds) {
		if !r.over {
			c.checkRound(r)
		}
	}
	c.checkLow()
	c.broadcast()
	c.wakeAll()
}
