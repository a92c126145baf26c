package sim

import (
	"context"
	"math"
)

// Link is what a message costs. Times are in units of a shard's time; the zero
// value is a network that costs nothing.
type Link struct {
	Latency float64 // of a message, either way
	Operand float64 // time that the round's operand takes to pass to a worker
	Result  float64 // time that the result of a whole shard takes to pass back
	// Message is how long the coordinator is at work for a message. It gives out the
	// operands first, worker by worker, and then takes answers in the order in which they
	// come, one after another.
	Message float64
}

// Round is what became of a round.
type Round struct {
	Time  float64 // until the coordinator could decode; +Inf if it never could
	Ideal float64 // see Ideal
	Spent float64 // work done by then, in shards, finished or not
	Used  float64 // of it, work whose result decoding uses
}

// engine runs rounds of a plan in virtual time. The coordinator tops each
// worker's queue up whenever it hears of something; workers do what they have
// been given in order, and give up what has been called off when they hear of it.
type engine struct {
	plan     *Plan
	schedule Schedule
	link     Link
	room     int // tasks that a worker is given ahead
	paces    []Pace
	workers  []worker
	events   events
	now      float64
	desk     float64 // when the coordinator is done with the messages so far
	round    Round
}

type worker struct {
	queue []task  // given and not answered; if busy, the first is being done
	owed  int     // tasks that the coordinator still wants
	busy  bool    // its next result is on the way, or never comes
	due   float64 // when that reaches the coordinator: other events of it are void
	began float64 // the task at work
	short bool    // it has given that up
	taken bool    // the coordinator is at its answer, until due
	free  float64 // when it is done with that
	sent  float64 // when the result has left
	wire  float64 // when its link is free for the next
	wake  float64 // when it is to be looked after although no result comes; 0: never
}

type task struct {
	chunk   int32
	dropped bool // it is not wanted any more,
	arrives float64
	drop    float64 // and that is known to the worker from then on
}

// drop takes the first task out of the queue.
func (w *worker) drop() {
	if len(w.queue) > 1 {
		copy(w.queue, w.queue[1:])
	}
	w.queue = w.queue[:len(w.queue)-1]
}

func newEngine(plan *Plan, link Link, room int) *engine {
	n := len(plan.Load)
	e := &engine{
		plan: plan, schedule: plan.Schedule(), link: link, room: room,
		paces: make([]Pace, n), workers: make([]worker, n), events: make(events, 0, n),
	}
	// The queues lie side by side. A task that has been called off may be in the way
	// of one more.
	size := min(room+1, 4)
	tasks := make([]task, n*size)
	for i := range e.workers {
		e.workers[i].queue = tasks[i*size : i*size : (i+1)*size]
	}
	return e
}

// heed is the number of events after which the context is looked at.
const heed = 256

// run runs a round at the engine's paces. What it returns is of no use if the
// context has ended.
func (e *engine) run(ctx context.Context) Round {
	e.schedule.Reset()
	e.events = e.events[:0]
	e.round = Round{Time: math.Inf(1)}
	e.now, e.desk = 0, 0
	for i := range e.workers {
		w := &e.workers[i]
		e.desk += e.link.Message
		*w = worker{queue: w.queue[:0], free: e.desk + e.link.Latency + e.link.Operand}
	}
	for i := range e.workers {
		e.fill(i)
	}
	for n := 1; len(e.events) > 0 && !e.schedule.Done(); n++ {
		if n%heed == 0 && ctx.Err() != nil {
			return Round{}
		}
		first := e.events[0]
		e.now = max(e.now, first.at) // an answer may have come while the coordinator was at others
		switch n := int32(len(e.workers)); {
		case first.worker >= n:
			e.events.pop()
			e.look(int(first.worker - n))
		case !e.workers[first.worker].busy || e.workers[first.worker].due != first.at:
			e.events.pop() // that task was given up
		case e.link.Message > 0 && !e.workers[first.worker].taken:
			e.take(int(first.worker))
		default:
			e.arrive(int(first.worker))
		}
	}
	if e.schedule.Done() {
		e.round.Time = e.now
	} else {
		e.round.Used = 0
	}
	for i := range e.workers {
		e.settle(i)
	}
	return e.round
}

// look gives a worker something to do that had to wait for it.
func (e *engine) look(i int) {
	if w := &e.workers[i]; w.wake == e.now {
		w.wake = 0
		e.fill(i)
	}
}

// take handles the first event: an answer comes, and waits for its turn.
func (e *engine) take(i int) {
	e.desk = max(e.desk, e.now) + e.link.Message
	e.workers[i].taken, e.workers[i].due = true, e.desk
	e.events.replace(event{e.desk, int32(i)})
}

// arrive handles the first event: the coordinator has a result.
func (e *engine) arrive(i int) {
	w := &e.workers[i]
	t := w.queue[0]
	w.drop()
	w.busy = false
	if !t.dropped {
		w.owed--
	}
	chunk, load := int(t.chunk), e.plan.Load[i]
	useful, ready := e.schedule.Finish(i, chunk, e.now)
	if w.short {
		e.round.Spent += e.paces[i].Work(w.began, w.free)
	} else {
		e.round.Spent += load
		w.wire = w.sent
	}
	if useful {
		e.round.Used += load
	}
	if e.schedule.Done() {
		return
	}
	if at, ok := e.begin(i); ok {
		e.events.replace(event{at, int32(i)})
	} else {
		e.events.pop()
	}
	e.fill(i)
	if ready {
		e.call(chunk)
	}
}

// call takes back what has been given out of a chunk that is ready, and gives
// everyone who has room now, or who may do now what it could not before.
func (e *engine) call(chunk int) {
	for i := range e.workers {
		w := &e.workers[i]
		for j := range w.queue {
			if t := &w.queue[j]; int(t.chunk) == chunk && !t.dropped {
				t.dropped, t.drop = true, e.now+e.link.Latency
				w.owed--
			}
		}
		if w.busy && !w.short && !w.taken && w.queue[0].dropped {
			e.giveUp(i)
		}
		e.fill(i)
	}
}

// giveUp lets a worker stop what it is at, which it hears to have been called off,
// unless it stands still, and say so.
func (e *engine) giveUp(i int) {
	w := &e.workers[i]
	stop := e.paces[i].awake(max(w.queue[0].drop, w.began))
	if stop >= w.free {
		return
	}
	w.free, w.short = stop, true
	w.due = stop + e.link.Latency
	e.events.push(event{w.due, int32(i)})
}

// next has a worker begin its next task, if there is one.
func (e *engine) next(i int) {
	if at, ok := e.begin(i); ok {
		e.events.push(event{at, int32(i)})
	}
}

// fill gives a worker as much to do as it has room for.
func (e *engine) fill(i int) {
	if e.plan.Load[i] == 0 {
		return
	}
	for w := &e.workers[i]; w.owed < e.room; { // chunks fit in 32 bits, see maxCells
		chunk, after, ok := e.schedule.Next(i, w.owed == 0, e.now)
		if !ok {
			if at := e.now + after; after > 0 && (w.wake == 0 || at < w.wake) {
				w.wake = at
				e.events.push(event{at, int32(i + len(e.workers))})
			}
			return
		}
		e.schedule.Start(i, chunk, e.now)
		w.queue = append(w.queue, task{chunk: int32(chunk), arrives: e.now + e.link.Latency})
		w.owed++
		if !w.busy {
			e.next(i)
		}
	}
}

// begin lets a worker begin the next task of its queue, if there is one, and
// returns when the result reaches the coordinator, if it ever does. The
// coordinator's time may be past the worker's beginning by a latency: what has
// been called off since could not have reached it.
func (e *engine) begin(i int) (at float64, ok bool) {
	w := &e.workers[i]
	for len(w.queue) > 0 {
		t := w.queue[0]
		start := max(w.free, t.arrives)
		if t.dropped && t.drop <= start {
			w.drop()
			continue
		}
		w.busy, w.short, w.taken, w.began = true, false, false, start
		w.free = e.paces[i].Finish(start, e.plan.Load[i])
		w.sent = max(w.free, w.wire) + e.link.Result*e.plan.Load[i]
		w.due = w.sent + e.link.Latency
		return w.due, !math.IsInf(w.due, 1)
	}
	return 0, false
}

// settle counts what a worker has done of tasks whose results have not come.
func (e *engine) settle(i int) {
	w := &e.workers[i]
	if !w.busy {
		return
	}
	start, free := w.began, w.free
	for j, t := range w.queue {
		if j > 0 {
			start = max(free, t.arrives)
			if t.dropped && t.drop <= start {
				continue
			}
			free = e.paces[i].Finish(start, e.plan.Load[i])
		}
		if !(start < e.round.Time) {
			return
		}
		e.round.Spent += e.paces[i].Work(start, min(free, e.round.Time))
	}
}
