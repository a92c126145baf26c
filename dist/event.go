package dist

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// The states that an Event reports.
const (
	StateJoined      = "joined"      // connected; in a slot, or a spare
	StateLeft        = "left"        // said goodbye
	StateFailed      = "failed"      // its connection broke, or it broke the protocol
	StateStale       = "stale"       // fell behind the operation log; its shards are useless
	StateRepaired    = "repaired"    // holds every layer's shard again
	StateQuarantined = "quarantined" // gave wrong results
	StateMoved       = "moved"       // has taken over a slot, with its shards, from a slower worker
	StateRelieved    = "relieved"    // has lost a slot, which is left out: it was too slow for it
)

// Event is a change of a worker.
type Event struct {
	Time   time.Time
	Worker string // its name
	Slot   int    // its slot, -1 for a spare
	State  string // one of the State constants
	Step   int    // the training step under way
	Reason string // why, where there is more to say
}

func (e Event) String() string {
	s := fmt.Sprintf("%s %s at step %d", e.Worker, e.State, e.Step)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// log writes the event; what costs a worker is a warning.
func (e Event) log(to *slog.Logger) {
	level := slog.LevelInfo
	if e.State == StateFailed || e.State == StateStale || e.State == StateQuarantined {
		level = slog.LevelWarn
	}
	to.Log(context.Background(), level, "worker "+e.State, "worker", e.Worker, "slot", e.Slot, "step", e.Step, "reason", e.Reason)
}

// notices runs callbacks one after the other on a goroutine of its own, so
// that they may be posted under a lock and may themselves call the coordinator.
type notices struct {
	mu     sync.Mutex
	queue  []func()
	closed bool
	wake   chan struct{} // capacity 1; never closed
	done   chan struct{} // closed when run returns
}

func newNotices() *notices {
	n := &notices{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go n.run()
	return n
}

// post queues f. After close it does nothing.
func (n *notices) post(f func()) {
	n.mu.Lock()
	if !n.closed {
		n.queue = append(n.queue, f)
	}
	n.mu.Unlock()
	signal(n.wake)
}

func (n *notices) run() {
	defer close(n.done)
	for {
		n.mu.Lock()
		batch, closed := n.queue, n.closed
		n.queue = nil
		n.mu.Unlock()
		for _, f := range batch {
			f()
		}
		if len(batch) == 0 {
			if closed {
				return
			}
			<-n.wake
		}
	}
}

// close waits until everything posted before has run.
func (n *notices) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	signal(n.wake)
	<-n.done
}

// signal wakes the goroutine that waits on a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
