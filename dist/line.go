package dist

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/coda-ml/coda/coded"
)

// maxSeats bounds the seats of a worker.
const maxSeats = 64

// line is the connection of a worker as the coordinator sees it, with a sender and a
// reader of its own, so that no worker can hold up another. All seats of the worker
// share it: whatever they need of the log goes over it once. What is not in the first
// group is guarded by Coordinator.mu.
type line struct {
	host, addr string  // the worker's name, and where its peers reach it
	seats      []*link // in their order
	conn       *Conn
	ctx        context.Context // ends with the connection
	cancel     context.CancelFunc
	wake       chan struct{} // capacity 1: the sender looks again
	later      *time.Timer   // wakes it when it can double up on others
	done       chan struct{} // closed when both goroutines have returned

	gone    bool
	sending bool       // a batch is being written, or is left
	again   bool       // somebody wanted to send meanwhile
	left    *batch     // for the sender, by the reader
	cursor  uint64     // position in the log of the next entry to look at
	urgent  []*Message // go out before anything else
	ordered []orderedMessage
	open    map[uint64][]int // rounds whose operands the worker keeps for tasks: those of these slots, nil where all have the same
	turn    int              // seat that is asked first for what it can do
	pongs   int              // answers to pings

	healLater bool // heal when the sender has written its message
}

// orderedMessage goes out when the cursor has reached its position.
type orderedMessage struct {
	pos uint64
	of  *link // whom it is about
	m   *Message
}

// seatName is the coordinator's name for a seat of a worker: w1, w1/2, w1/3. A
// member's name has no slash.
func seatName(worker string, seat int) string {
	if seat == 0 {
		return worker
	}
	return worker + "/" + strconv.Itoa(seat+1)
}

// newLine makes the line of a worker that has said hello, and its seats.
func newLine(conn *Conn, hello Header) *line {
	l := &line{
		host: hello.From, addr: hello.Addr, conn: conn,
		wake: make(chan struct{}, 1),
		done: make(chan struct{}),
		open: map[uint64][]int{},
	}
	for i := range max(1, hello.Seats) {
		l.seats = append(l.seats, &link{
			line: l, name: seatName(l.host, i), seat: i, slot: -1,
			shards: map[string]*holding{},
			saved:  map[string]Held{},
			tasks:  map[taskKey]handout{},
		})
	}
	return l
}

// lines gives the connection of every worker once.
func (c *Coordinator) lines() iter.Seq[*line] {
	return func(yield func(*line) bool) {
		seen := map[*line]bool{}
		for l := range c.links() {
			if !seen[l.line] && !yield(l.line) {
				return
			}
			seen[l.line] = true
		}
	}
}

// slotOf returns the slot whose shards a seat has or is being given; -1 if none.
func (c *Coordinator) slotOf(l *link) int {
	if c.move != nil && c.move.to == l {
		return c.move.slot
	}
	return l.slot
}

// seatAt returns the seat of a worker that has, or is being given, the shards of a
// slot; nil if none does any more.
func (c *Coordinator) seatAt(l *line, slot int) *link {
	at := slices.IndexFunc(l.seats, func(s *link) bool { return c.slotOf(s) == slot })
	if slot < 0 || at < 0 {
		return nil
	}
	return l.seats[at]
}

// oldest returns the least version among the shards of seats.
func oldest(otherwise int, seats ...*link) int {
	version, any := 0, false
	for _, l := range seats {
		for _, h := range l.shards {
			if !any || h.applied < version {
				version, any = h.applied, true
			}
		}
	}
	if !any {
		return otherwise
	}
	return version
}

// load is how many tasks the worker is waited for.
func (l *line) load() (n int) {
	for _, s := range l.seats {
		for _, t := range s.tasks {
			if !t.lost {
				n++
			}
		}
	}
	return n
}

// say queues a message that goes out next.
func (l *line) say(m *Message) {
	l.urgent = append(l.urgent, m)
	signal(l.wake)
}

// forget tells the worker to give a shard up.
func (l *line) forget(layer string, slot int) {
	l.say(&Message{Header: Header{Kind: KindForget, Layer: layer, Slot: slot}})
}

// order queues a message about a seat for when everything before pos has been sent.
func (l *link) order(pos uint64, m *Message) {
	l.ordered = append(l.ordered, orderedMessage{pos, l, m})
	slices.SortStableFunc(l.ordered, func(a, b orderedMessage) int { return cmp.Compare(a.pos, b.pos) })
	signal(l.wake)
}

// choose decides what a worker is sent next, nil for nothing now. sent is called
// when the message has gone out, or failed to.
//
// Cancellations come first. Then a task, if the worker has room for one and
// what the task needs has been sent; else the operations that everyone must be
// told. So an operand always precedes its tasks, and the way to the next task's
// operand is never blocked by anything but the log itself.
func (c *Coordinator) choose(l *line) (m *Message, sent func()) {
	if l.gone {
		return nil, nil // its slots may be others' already
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
		if !slices.ContainsFunc(l.seats, c.follows) || c.closed {
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

// nextTask hands out a task, or the operand of a round that is not in the log. The
// seats take turns; what a worker has in hand is counted for all of them, since it
// computes one thing at a time.
func (c *Coordinator) nextTask(l *line) (*Message, func()) {
	load := l.load()
	if load >= c.cfg.Queue {
		return nil, nil
	}
	soonest := 0.0 // seconds until there may be something; 0: nothing to wait for
	for _, r := range c.rounds {
		if l.cursor < r.pos {
			continue
		}
		for i := range l.seats {
			s := l.seats[(l.turn+i)%len(l.seats)]
			if !s.shards[r.layer.Name].fresh(r.version) {
				continue
			}
			chunk, after, ok := r.cover.next(s.slot, load == 0, r.elapsed())
			if !ok {
				if after > 0 && (soonest == 0 || after < soonest) {
					soonest = after
				}
				continue
			}
			if !l.has(r, s.slot) {
				if r.Keep {
					break // it lies ahead in the log
				}
				l.opens(r, s.slot)
				if !r.layer.ByBatch {
					return r.operandMessage(s.slot)
				}
			}
			l.turn = (s.seat + 1) % len(l.seats)
			m, sent := r.taskMessage(s.slot, chunk)
			r.cover.start(s.slot, chunk, r.elapsed())
			c.handOut(s, r, chunk)
			return m, sent
		}
	}
	if soonest > 0 {
		l.later.Reset(max(time.Duration(soonest*float64(time.Second)), time.Microsecond)) // rounded down, it may be now
	}
	return nil, nil
}

// opens notes that the worker is sent the operand of a round, for a slot if those have
// their own.
func (l *line) opens(r *round, slot int) {
	if r.slots == nil {
		l.open[r.id] = nil
		return
	}
	l.open[r.id] = append(l.open[r.id], slot)
}

// has tells whether the worker has the operand of a round for a slot.
func (l *line) has(r *round, slot int) bool {
	slots, open := l.open[r.id]
	return open && (slots == nil || slices.Contains(slots, slot))
}

// mayPass tells whether a worker's cursor may go past an entry. An update
// waits until the worker has applied enough of those before it, and until no
// round needs a shard that has not applied it.
func (c *Coordinator) mayPass(l *line, e *entry) bool {
	return !e.isUpdate() || e.version <= oldest(e.version, l.seats...)+c.window(l) && !c.undecided(e.version)
}

// The updates that a worker under repair is sent ahead: it cannot begin with
// them, and the log does not wait for it.
const (
	mendWindow = 256       // updates
	mendBytes  = 256 << 20 // of their operands
)

// window returns how many updates a worker is sent ahead of those that it has
// applied.
func (c *Coordinator) window(l *line) int {
	for _, s := range l.seats {
		for _, h := range s.shards {
			if h.mending {
				return max(c.cfg.Window, min(mendWindow, mendBytes/max(1, c.log.bytes)))
			}
		}
	}
	return c.cfg.Window
}

// tell gives the message for the entry that the cursor has just passed, nil if
// the worker has no use for it. An operand names the slots that have it to learn: a
// seat that is repaired is told again what the others know.
func (c *Coordinator) tell(l *line, e *entry) (*Message, func()) {
	var slots []int
	for _, s := range l.seats {
		told := false
		for name, h := range s.shards {
			if (e.isUpdate() || name == e.layer) && l.cursor > h.next {
				h.next, told = l.cursor, true
			}
		}
		if told {
			slots = append(slots, c.slotOf(s))
		}
	}
	switch {
	case slots == nil:
		return nil, nil
	case e.isUpdate():
		u := e.update
		return &Message{Header: Header{Kind: KindUpdate, Update: &u, Step: u.Step, State: e.version}}, nil
	}
	m := &Message{
		Header:  Header{Kind: KindOperand, Layer: e.layer, Product: e.product, Step: e.step, State: e.version, Keep: true, Slots: slots},
		Tensors: []coded.Tensor{e.operand.tensor},
	}
	// After a repair that was begun anew the worker may have it for its tasks.
	if _, open := l.open[e.round]; !open && c.active(e.round) != nil {
		m.Round = e.round
		l.open[e.round] = nil
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
