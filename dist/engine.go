package dist

import (
	"slices"
	"sync"
	"time"
)

// engine is the device of a worker: it computes one thing at a time, for whichever
// of the worker's seats has the turn. Turns go to the most urgent work, and among
// equals round the seats.
type engine struct {
	mu      sync.Mutex
	taken   bool
	waiting []*turn // in the order in which they came

	busy time.Time // until when the device that the worker is like has worked; of whoever has the turn
}

// urgency is how much what a seat has to do matters: the least comes first.
type urgency uint8

const (
	urgentProduct   urgency = iota // a product that can be computed: the coordinator waits for it
	urgentOperation                // what a product waits for
	otherOperation
	nothing
)

// turn is a seat's place in the queue of its engine. It belongs to one goroutine;
// what is not its channel is guarded by engine.mu.
type turn struct {
	urgency urgency
	given   bool
	ready   chan struct{} // capacity 1: the turn has been given
}

func newTurn() *turn { return &turn{urgency: nothing, ready: make(chan struct{}, 1)} }

// want says what t is wanted for now. Who has been given the turn keeps it until
// leave, whatever it wants.
func (e *engine) want(t *turn, u urgency) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.urgency = u
	switch queued := slices.Contains(e.waiting, t); {
	case t.given:
		return
	case u == nothing:
		e.remove(t)
	case !queued:
		e.waiting = append(e.waiting, t)
	}
	e.give()
}

// leave gives the turn to the next; t may also only wait, or have none.
func (e *engine) leave(t *turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(t)
	if !t.given {
		return
	}
	select {
	case <-t.ready: // it was given and never taken up
	default:
	}
	t.given, e.taken = false, false
	e.give()
}

func (e *engine) remove(t *turn) {
	e.waiting = slices.DeleteFunc(e.waiting, func(o *turn) bool { return o == t })
}

// give needs mu.
func (e *engine) give() {
	if e.taken || len(e.waiting) == 0 {
		return
	}
	next := slices.MinFunc(e.waiting, func(a, b *turn) int { return int(a.urgency) - int(b.urgency) })
	e.remove(next)
	e.taken, next.given = true, true
	next.ready <- struct{}{}
}
