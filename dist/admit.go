package dist

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// admission bounds the connections whose peers have proved nothing yet. When
// it is full, the oldest one that has had its grace is closed to make room: an
// honest peer needs milliseconds, one that says nothing keeps its place only
// until somebody else wants it.
type admission struct {
	grace time.Duration
	slots chan struct{} // capacity: connections at a time
	done  chan struct{} // closed by stop

	mu      sync.Mutex
	waiting list.List // of *entrant, oldest first
	stopped bool
}

type entrant struct {
	conn  net.Conn
	since time.Time
	place *list.Element
}

func newAdmission(size int, grace time.Duration) *admission {
	return &admission{grace: grace, slots: make(chan struct{}, size), done: make(chan struct{})}
}

// enter waits for a place; it gives nil, and closes c, once stopped. The
// entrant leaves the queue of those who can be closed by passed, and gives its
// place back by leave.
func (a *admission) enter(c net.Conn) *entrant {
	for {
		select {
		case a.slots <- struct{}{}:
			return a.add(c)
		case <-a.done:
			c.Close()
			return nil
		default:
		}
		timer := time.NewTimer(a.evict())
		select {
		case a.slots <- struct{}{}:
			timer.Stop()
			return a.add(c)
		case <-a.done:
			timer.Stop()
			c.Close()
			return nil
		case <-timer.C:
		}
	}
}

func (a *admission) add(c net.Conn) *entrant {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		<-a.slots
		c.Close()
		return nil
	}
	e := &entrant{conn: c, since: time.Now()}
	e.place = a.waiting.PushBack(e)
	return e
}

// evict closes the oldest entrant if its grace is over, and says after how
// long it is worth coming back.
func (a *admission) evict() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	oldest := a.waiting.Front()
	if oldest == nil {
		return a.grace
	}
	e := oldest.Value.(*entrant)
	if left := a.grace - time.Since(e.since); left > 0 {
		return left
	}
	a.unlist(e)
	e.conn.Close() // its owner notices and leaves
	return a.grace
}

// passed says that e has proved itself: it can no longer be evicted.
func (a *admission) passed(e *entrant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unlist(e)
}

// leave gives e's place to the next.
func (a *admission) leave(e *entrant) {
	a.passed(e)
	<-a.slots
}

func (a *admission) unlist(e *entrant) {
	if e.place != nil {
		a.waiting.Remove(e.place)
		e.place = nil
	}
}

// stop closes all that have not passed and refuses the others from now on.
func (a *admission) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.stopped = true
	close(a.done)
	for place := a.waiting.Front(); place != nil; place = place.Next() {
		place.Value.(*entrant).conn.Close()
	}
}
