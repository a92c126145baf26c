package dist

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

var errBye = errors.New("goodbye")

// receive handles what a worker sends until its connection ends.
func (c *Coordinator) receive(l *line) error {
	var m Message
	for {
		if err := l.conn.Recv(&m); err != nil {
			c.recycle(m.Tensors)
			return err
		}
		wrong := c.verify(l, &m)
		c.mu.Lock()
		var err error
		if wrong == nil {
			err = c.handle(l, &m)
		} else {
			err = c.judged(l, &m, wrong)
		}
		var answer *batch
		if err == nil {
			answer = c.reply(l)
		}
		c.mu.Unlock()
		c.recycle(m.Tensors)
		if answer != nil {
			err = c.write(l, answer)
		}
		if err != nil {
			return err
		}
	}
}

// recycle gives the memory of tensors back; those that somebody has kept must
// have been taken out.
func (c *Coordinator) recycle(tensors []coded.Tensor) {
	for i, t := range tensors {
		c.buffers.give(t.Data)
		tensors[i] = coded.Tensor{}
	}
}

// handle does what a message calls for. An error breaks the protocol and ends
// the line.
func (c *Coordinator) handle(l *line, m *Message) error {
	if l.gone {
		return ErrClosed
	}
	switch m.Kind {
	case KindResult, KindApplied, KindState, KindDonate:
		return c.handleOf(l, m)
	case KindPing:
		if !slices.ContainsFunc(l.urgent, func(m *Message) bool { return m.Kind == KindPong }) {
			l.say(&Message{Header: Header{Kind: KindPong}})
		}
		return nil
	case KindPong:
		l.pongs++
		c.broadcast()
		return nil
	case KindBye:
		if m.Error != "" {
			return errors.New(m.Error)
		}
		return errBye
	}
	return fmt.Errorf("unexpected message of kind %d", m.Kind)
}

// handleOf does what a message of the seat that has a slot calls for. If none has it
// any more, the message comes too late.
func (c *Coordinator) handleOf(at *line, m *Message) error {
	if m.Slot < 0 || m.Slot >= len(c.slots) || m.Flops < 0 || m.Nanos < 0 {
		return fmt.Errorf("layer %s: message about slot %d of %d, with %g flops in %d ns", m.Layer, m.Slot, len(c.slots), m.Flops, m.Nanos)
	}
	l := c.seatAt(at, m.Slot)
	switch {
	case m.Kind == KindResult && l == nil:
		if m.Error == "" {
			w, _ := c.answered(at.seats[0], m)
			c.waste(at.seats[0], w)
		}
		return nil
	case l == nil:
		return nil
	case m.Kind == KindResult:
		return c.onResult(l, m)
	case m.Kind == KindApplied:
		return c.onApplied(l, m)
	case m.Kind == KindState:
		return c.onState(l, m)
	}
	c.onDonationFailed(l, m)
	return nil
}

// asked tells whether a result is the answer to a task that the seat has in hand.
func (l *link) asked(m *Message) bool {
	_, asked := l.tasks[taskKey{m.Round, m.Chunk}]
	return asked
}

// onResult takes a chunk. Late and cancelled ones count as wasted work.
func (c *Coordinator) onResult(l *link, m *Message) error {
	if m.Error != "" {
		return errors.New(m.Error)
	}
	key := taskKey{m.Round, m.Chunk}
	task, asked := l.tasks[key]
	w, took := c.answered(l, m)
	r := c.active(m.Round)
	if !asked || r == nil {
		c.waste(l, w)
		if r != nil {
			r.cover.finish(l.slot, m.Chunk, r.elapsed()) // it is free again
			c.spare(l, r, m)
		}
		return nil
	}
	if len(m.Tensors) != 1 {
		return fmt.Errorf("result with %d tensors, want 1", len(m.Tensors))
	}
	if task.lost {
		r.cover.start(l.slot, m.Chunk, r.elapsed())
	}
	r.place.turnarounds.observe(r.Product, time.Since(task.began))
	r.place.cost[r.Product] = w
	useful, ready := r.cover.finish(l.slot, m.Chunk, r.elapsed())
	if r.place.verifier != nil {
		c.noteResidual(l, r, m.residual)
	}
	if !useful {
		c.takeBack(l, key, TaskWasted, took)
		c.waste(l, w)
		return nil
	}
	c.takeBack(l, key, TaskUsed, took)
	c.trust(l)
	r.results[m.Chunk][l.slot] = c.buffers.adopt(m.Tensors[0])
	m.Tensors[0] = coded.Tensor{}
	r.spent = append(r.spent, spent{l, m.Chunk, l.slot, w, m.Nanos})
	if ready {
		c.endChunk(r, m.Chunk)
	}
	c.lookAt(r, m.Chunk)
	return nil
}

// answered counts the work on a result, used or not.
func (c *Coordinator) answered(l *link, m *Message) (w float64, took time.Duration) {
	w, took = work(m.Flops), time.Duration(m.Nanos)
	c.stats.Work += w
	l.stats.Work += w
	l.stats.Answered++
	l.stats.Compute += took
	if m.Flops > 0 || len(m.Tensors) > 0 { // else a part of a chunk of unknown cost
		c.measure(l.host, w, took)
	}
	return w, took
}

// onApplied notes the version of a shard.
func (c *Coordinator) onApplied(l *link, m *Message) error {
	if m.Flops > 0 {
		c.measure(l.host, m.Flops, time.Duration(m.Nanos))
	}
	h := l.shards[m.Layer]
	if h == nil || m.Round != h.source {
		return nil // of a shard that has been replaced
	}
	if m.Error != "" {
		l.dropLayer(m.Layer)
		c.heal()
		return nil
	}
	if m.State < h.applied || m.State > c.version {
		return fmt.Errorf("layer %s: shard at update %d, want %d to %d", m.Layer, m.State, h.applied, c.version)
	}
	h.applied = m.State
	first := !h.held
	h.held = true
	if m.Flops > 0 {
		c.layers[m.Layer].updateCost = m.Flops
	}
	if h.fresh(c.version) {
		h.mending = false
	}
	switch {
	case first:
		c.repaired(l, m.Layer)
	case c.wanting && h.fresh(c.version):
		c.heal()
	}
	for _, f := range c.fetches {
		c.ask(f)
	}
	c.broadcast()
	c.wakeAll()
	return nil
}
