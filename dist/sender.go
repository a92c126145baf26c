package dist

import "context"

// batch is what goes to a worker in one write.
type batch struct {
	messages []*Message
	sent     []func()
	bytes    int // of their tensors
}

// A batch takes no more messages when it has so many, or so many bytes of tensors:
// what is chosen later is chosen better.
const (
	batchMessages = 16
	batchBytes    = 64 << 10
	// The reader writes itself what has at most so many.
	replyBytes = 16 << 10
)

// full tells whether nothing is to follow in the batch.
func (b *batch) full() bool {
	n := len(b.messages)
	return n == batchMessages || b.bytes >= batchBytes || b.ends()
}

// ends tells whether the batch takes leave of the worker.
func (b *batch) ends() bool {
	n := len(b.messages)
	return n > 0 && b.messages[n-1].Kind == KindBye
}

func (b *batch) add(m *Message, sent func()) {
	b.messages = append(b.messages, m)
	if sent != nil {
		b.sent = append(b.sent, sent)
	}
	for _, t := range m.Tensors {
		b.bytes += 4 * len(t.Data)
	}
}

// settle tells whoever gave the messages that they are through with.
func (b *batch) settle() {
	for _, sent := range b.sent {
		sent()
	}
}

// gather decides what a worker is sent next, nil for nothing now. Whoever gets a
// batch writes it, or leaves it to the sender; nobody else gets one before.
func (c *Coordinator) gather(l *line) *batch {
	if l.sending {
		l.again = true
		return nil
	}
	var b batch
	for !b.full() {
		m, sent := c.choose(l)
		if m == nil {
			break
		}
		b.add(m, sent)
	}
	if len(b.messages) == 0 {
		return nil
	}
	l.sending = true
	return &b
}

// send writes what the worker needs until the connection ends.
func (c *Coordinator) send(l *line) error {
	for {
		b := c.next(l)
		if b == nil {
			select {
			case <-l.wake:
				continue
			case <-l.ctx.Done():
				return context.Cause(l.ctx)
			}
		}
		if err := c.write(l, b); err != nil {
			return err
		}
		if b.ends() {
			return nil
		}
	}
}

// next gives the sender what has been left to it, or what is next.
func (c *Coordinator) next(l *line) *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := l.left; b != nil {
		l.left = nil
		return b
	}
	return c.gather(l)
}

// reply gives the reader what is to be sent after a message of the worker's, if
// it is short: no other goroutine has to be woken before the worker has it. What a
// slow network would take long for is left to the sender. As the reader reads
// nothing meanwhile, a worker reads whatever becomes of what it sends.
func (c *Coordinator) reply(l *line) *batch {
	if l.gone || c.closed {
		return nil
	}
	b := c.gather(l)
	if b == nil || b.bytes <= replyBytes {
		return b
	}
	l.left = b
	signal(l.wake)
	return nil
}

// write sends a batch. The end of the line closes the connection, and so ends the
// wait.
func (c *Coordinator) write(l *line, b *batch) error {
	err := l.conn.Send(context.Background(), b.messages...)
	b.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	l.sending = false
	if l.again {
		l.again = false
		signal(l.wake)
	}
	if l.healLater {
		l.healLater = false
		c.heal()
	}
	return err
}

// forgo settles the batch that nobody will write any more.
func (c *Coordinator) forgo(l *line) {
	c.mu.Lock()
	b := l.left
	l.left = nil
	c.mu.Unlock()
	if b != nil {
		b.settle()
	}
}
