package dist

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// link is a seat of a worker as the coordinator sees it: a connection with a sender and
// a reader of its own, so that no worker can hold up another. Everything but
// the first group is guarded by Coordinator.mu.
type link struct {
	name, addr string // the name is that of the seat
	host       string // the worker's
	seat       int    // its number, from 0
	seats      int    // of the worker
	conn       *Conn
	ctx        context.Context // ends with the connection
	cancel     context.CancelFunc
	wake       chan struct{} // capacity 1: the sender looks again
	later      *time.Timer   // wakes it when it can double up on others
	done       chan struct{} // closed when both goroutines have returned

	slot    int // -1: a spare
	gone    bool
	sending bool   // the sender is writing
	cursor  uint64 // position in the log of the next entry to look at
	shards  map[string]*holding
	saved   map[string]Held // by layer: copies that the worker has kept
	urgent  []*Message      // go out before anything else
	ordered []orderedMessage
	tasks   map[taskKey]handout // handed out and not answered
	stats   LinkStats           // but for what LinkStats fills in
	open    map[uint64]struct{} // rounds whose operand the worker keeps for tasks
	pongs   int                 // answers to pings
	stale   bool                // reported as stale or new, and not yet as repaired

	healLater bool        // heal when the sender has written its message
	restUntil time.Time   // no repair of this worker begins before
	rest      *time.Timer // begins the next one
}

// orderedMessage goes out when the cursor has reached its position.
type orderedMessage struct {
	pos uint64
	m   *Message
}

type taskKey struct {
	round uint64
	chunk int
}

// holding is what a worker has, or is about to have, of one layer.
type holding struct {
	held    bool   // the worker has acknowledged it
	source  uint64 // the placement or the repair that it came by
	base    int    // version that it came with
	applied int    // version that the worker has reported
	next    uint64 // position in the log from which it is told everything
	mending bool   // under repair, or working through what came meanwhile
}

// fresh tells whether a holding can serve a product at a version, or will when
// one more update is applied.
func (h *holding) fresh(version int) bool {
	return h != nil && h.held && h.base <= version && h.applied >= version-1
}

// oldest returns the least version among the worker's shards.
func (l *link) oldest(otherwise int) int {
	version, any := 0, false
	for _, h := range l.shards {
		if !any || h.applied < version {
			version, any = h.applied, true
		}
	}
	if !any {
		return otherwise
	}
	return version
}

// order queues a message for when everything before pos has been sent.
func (l *link) order(pos uint64, m *Message) {
	l.ordered = append(l.ordered, orderedMessage{pos, m})
	slices.SortStableFunc(l.ordered, func(a, b orderedMessage) int { return cmp.Compare(a.pos, b.pos) })
	signal(l.wake)
}

// say queues a message that goes out next.
func (l *link) say(m *Message) {
	l.urgent = append(l.urgent, m)
	signal(l.wake)
}

// dropLayer forgets what the worker holds of a layer, and what it was about to
// be given. What others are waiting for stays in the queue.
func (l *link) dropLayer(layer string) {
	delete(l.shards, layer)
	l.ordered = slices.DeleteFunc(l.ordered, func(o orderedMessage) bool {
		return o.m.Layer == layer && o.m.Kind == KindReceive
	})
}

// send writes what the worker needs until the connection ends.
func (c *Coordinator) send(l *link) error {
	for {
		m, sent := c.nextMessage(l)
		if m == nil {
			select {
			case <-l.wake:
				continue
			case <-l.ctx.Done():
				return context.Cause(l.ctx)
			}
		}
		err := l.conn.Send(l.ctx, m)
		if sent != nil {
			sent()
		}
		c.sentOne(l)
		if err != nil {
			return err
		}
		if m.Kind == KindBye {
			return nil
		}
	}
}

// nextMessage decides what a worker is sent next, nil for nothing now. sent is
// called when the message has gone out, or failed to.
//
// Cancellations come first. Then a task, if the worker has room for one and
// what the task needs has been sent; else the operations that everyone must be
// told. So an operand always precedes its tasks, and the way to the next task's
// operand is never blocked by anything but the log itself.
func (c *Coordinator) nextMessage(l *link) (m *Message, sent func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, sent = c.choose(l)
	l.sending = m != nil
	return m, sent
}

// sentOne notes that the worker has taken a message.
func (c *Coordinator) sentOne(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.sending = false
	if l.healLater {
		l.healLater = false
		c.heal()
	}
}

func (c *Coordinator) choose(l *link) (m *Message, sent func()) {
	if l.gone {
		return nil, nil // its slot may be another's already
	}
	for {
		if len(l.urgent) > 0 {
			m, l.urgent = l.urgent[0], l.urgent[1:]
			return m, nil
		}
		if len(l.ordered) > 0 && l.ordered[0].pos <= l.cursor {
			m, l.ordered = l.ordered[0].m, l.ordered[1:]
			return m, nil
		}
		if !c.follows(l) || c.closed {
			return nil, nil
		}
		if m, sent = c.nextTask(l); m != nil {
			return m, sent
		}
		e := c.log.at(l.cursor)
		if e == nil || !c.mayPass(l, e) {
			return nil, nil
		}
		l.cursor++
		if m, sent = c.tell(l, e); m != nil {
			return m, sent
		}
	}
}

// nextTask hands out a task, or the operand of a round that is not in the log.
func (c *Coordinator) nextTask(l *link) (*Message, func()) {
	load := l.load()
	if load >= c.cfg.Queue {
		return nil, nil
	}
	for _, r := range c.rounds {
		h := l.shards[r.layer.Name]
		if !h.fresh(r.version) || l.cursor < r.pos {
			continue
		}
		chunk, after, ok := r.cover.next(l.slot, load == 0, r.elapsed())
		if !ok {
			if after > 0 {
				l.later.Reset(max(time.Duration(after*float64(time.Second)), time.Microsecond)) // rounded down, it may be now
			}
			continue
		}
		_, open := l.open[r.id]
		switch {
		case open:
		case r.Keep:
			continue // it lies ahead in the log
		default:
			l.open[r.id] = struct{}{}
			if !r.layer.ByBatch {
				return r.operandMessage(l.slot)
			}
		}
		m, sent := r.taskMessage(l.slot, chunk)
		r.cover.start(l.slot, chunk, r.elapsed())
		c.handOut(l, r, chunk)
		return m, sent
	}
	return nil, nil
}

// mayPass tells whether a worker's cursor may go past an entry. An update
// waits until the worker has applied enough of those before it, and until no
// round needs a shard that has not applied it.
func (c *Coordinator) mayPass(l *link, e *entry) bool {
	return !e.isUpdate() || e.version <= l.oldest(e.version)+c.window(l) && !c.undecided(e.version)
}

// The updates that a worker under repair is sent ahead: it cannot begin with
// them, and the log does not wait for it.
const (
	mendWindow = 256       // updates
	mendBytes  = 256 << 20 // of their operands
)

// window returns how many updates a worker is sent ahead of those that it has
// applied.
func (c *Coordinator) window(l *link) int {
	for _, h := range l.shards {
		if h.mending {
			return max(c.cfg.Window, min(mendWindow, mendBytes/max(1, c.log.bytes)))
		}
	}
	return c.cfg.Window
}

// tell gives the message for the entry that the cursor has just passed, nil if
// the worker has no use for it.
func (c *Coordinator) tell(l *link, e *entry) (*Message, func()) {
	if e.isUpdate() {
		told := false
		for _, h := range l.shards {
			if l.cursor > h.next {
				h.next, told = l.cursor, true
			}
		}
		if !told {
			return nil, nil
		}
		u := e.update
		return &Message{Header: Header{Kind: KindUpdate, Update: &u, Step: u.Step, State: e.version}}, nil
	}
	h := l.shards[e.layer]
	if h == nil || l.cursor <= h.next {
		return nil, nil
	}
	h.next = l.cursor
	m := &Message{
		Header:  Header{Kind: KindOperand, Layer: e.layer, Product: e.product, Step: e.step, State: e.version, Keep: true},
		Tensors: []coded.Tensor{e.operand.tensor},
	}
	// After a repair that was begun anew the worker may have it for its tasks.
	if _, open := l.open[e.round]; !open && c.active(e.round) != nil {
		m.Round = e.round
		l.open[e.round] = struct{}{}
	}
	return m, e.operand.retain().release
}

// undecided tells whether a round at a version before the given one still
// wants results: a shard that went on could not give them any more.
func (c *Coordinator) undecided(version int) bool {
	for _, r := range c.rounds {
		if r.version < version {
			return true
		}
	}
	return false
}
