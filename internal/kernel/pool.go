package kernel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Pool runs parts of a computation on a fixed number of goroutines, of which
// the caller's is one. A nil *Pool runs everything on the caller's goroutine.
//
// All methods but Close may be called by several goroutines at a time, and Run
// may be called from inside a function that Run is running: a caller never
// waits for a part that nobody has begun.
type Pool struct {
	threads int
	spin    bool          // waiting is worth a short spin: there is a processor for each goroutine
	posted  atomic.Uint32 // counts jobs; watched by goroutines that spin
	wake    chan struct{} // one token for each goroutine that is to get up; never closed
	workers sync.WaitGroup

	mu     sync.Mutex
	jobs   []*job // jobs that may have parts left, oldest first
	free   []*job // jobs to use again
	asleep int    // goroutines that wait on the channel and have no token coming
	closed bool
}

// NewPool returns a pool that computes on the given number of goroutines, the
// caller's included; less than 1 counts as 1. Close it to end its goroutines.
func NewPool(threads int) *Pool {
	threads = max(threads, 1)
	p := &Pool{
		threads: threads,
		spin:    runtime.GOMAXPROCS(0) >= threads,
		wake:    make(chan struct{}, threads),
	}
	for range threads - 1 {
		p.workers.Go(p.work)
	}
	return p
}

// Threads returns the number of goroutines that the pool computes on.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// Close ends the pool's goroutines and waits for them. No Run may be under way.
// A pool that is closed runs everything on the caller's goroutine.
func (p *Pool) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	p.signal(p.asleep)
	p.mu.Unlock()
	p.posted.Add(1)
	p.workers.Wait()
}

// Run calls f(0) .. f(n-1), each once, in any order, on the pool's goroutines,
// and returns when all have returned. It allocates nothing itself (a closure
// that captures variables is an allocation of its caller).
//
// If a call panics, the calls not yet begun are dropped, those under way are
// awaited, and Run panics: with the same value if it was the caller's own
// goroutine that panicked, with a *Panic otherwise.
func (p *Pool) Run(n int, f func(i int)) { p.run(n, taskFunc(f)) }

// task is a computation in parts. Pointers to reused structs make tasks that
// cost no allocation.
type task interface{ part(i int) }

type taskFunc func(i int)

func (f taskFunc) part(i int) { f(i) }

// Panic is what Run panics with when a call panicked on another goroutine.
type Panic struct {
	Value any    // the value of the first panic
	Stack []byte // the stack of the goroutine that panicked
}

func (e *Panic) Error() string {
	return fmt.Sprintf("kernel: panic in a pool's goroutine: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the panic's value if it is an error.
func (e *Panic) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// job is one call of Run. Its parts are handed out by counting up next.
type job struct {
	task   task
	n      int64
	next   atomic.Int64
	guests atomic.Int32  // pool goroutines inside the job; it only grows under Pool.mu while the job is listed
	done   chan struct{} // capacity 1: a token when the last guest leaves a caller that waits
	waits  bool          // guarded by Pool.mu: the caller wants that token
	failed atomic.Pointer[Panic]
}

func (j *job) left() bool { return j.next.Load() < j.n }

// drain runs parts until none is left.
func (j *job) drain() {
	for {
		i := j.next.Add(1) - 1
		if i >= j.n {
			return
		}
		j.task.part(int(i))
	}
}

func (p *Pool) run(n int, t task) {
	if n <= 0 {
		return
	}
	if p == nil || p.threads == 1 || n == 1 {
		for i := range n {
			t.part(i)
		}
		return
	}
	j := p.post(n, t)
	whole := false
	defer func() {
		// When the caller's own goroutine panicked, that panic goes on.
		if failed := p.finish(j); failed != nil && whole {
			panic(failed)
		}
	}()
	j.drain()
	whole = true
}

// post lists a job and wakes as many goroutines as can help with it.
func (p *Pool) post(n int, t task) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	var j *job
	if last := len(p.free) - 1; last >= 0 {
		j = p.free[last]
		p.free = p.free[:last]
	} else {
		j = &job{done: make(chan struct{}, 1)}
	}
	j.task, j.n = t, int64(n)
	j.next.Store(0)
	p.jobs = append(p.jobs, j)
	p.posted.Add(1)
	p.signal(min(p.asleep, n-1))
	return j
}

// signal sends tokens to n of the goroutines asleep. The caller holds mu. It
// never blocks: at most threads-1 tokens are under way.
func (p *Pool) signal(n int) {
	p.asleep -= n
	for range n {
		p.wake <- struct{}{}
	}
}

// finish ends a job: it waits for the guests and returns their first panic.
func (p *Pool) finish(j *job) *Panic {
	j.next.Store(j.n) // after a panic the rest is dropped
	p.mu.Lock()
	for i, q := range p.jobs {
		if q == j {
			p.jobs = append(p.jobs[:i], p.jobs[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	for try := 0; j.guests.Load() > 0 && p.spin && try < spinTurns; try++ {
		spinOnce(try)
	}
	p.mu.Lock()
	if j.guests.Load() > 0 {
		j.waits = true
		p.mu.Unlock()
		<-j.done
		p.mu.Lock()
		j.waits = false
	}
	failed := j.failed.Swap(nil)
	j.task = nil
	p.free = append(p.free, j)
	p.mu.Unlock()
	return failed
}

// work is the life of one of the pool's goroutines.
func (p *Pool) work() {
	for {
		seen := p.posted.Load()
		j, closed := p.join()
		switch {
		case j != nil:
			p.help(j)
		case closed:
			return
		default:
			p.await(seen)
		}
	}
}

// join finds the oldest job with parts left and enters it.
func (p *Pool) join() (j *job, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jobs {
		if j.left() {
			j.guests.Add(1)
			return j, false
		}
	}
	return nil, p.closed
}

// help runs parts of a job that was joined, and leaves it whatever happens: a
// panic is kept for the job's caller, and runtime.Goexit (a test's FailNow)
// counts as one and ends only this goroutine, which is replaced.
func (p *Pool) help(j *job) {
	normal := false
	defer func() {
		if !normal {
			r := recover()
			if r == nil {
				r = "runtime.Goexit called"
				p.workers.Go(p.work)
			}
			j.failed.CompareAndSwap(nil, &Panic{Value: r, Stack: debug.Stack()})
			j.next.Store(j.n)
		}
		p.leave(j)
	}()
	j.drain()
	normal = true
}

func (p *Pool) leave(j *job) {
	p.mu.Lock()
	if j.guests.Add(-1) == 0 && j.waits {
		j.done <- struct{}{}
	}
	p.mu.Unlock()
}

// Waiting spins for about 50 microseconds, since in a network the next job comes
// soon and waking a thread takes as long, and then sleeps: an idle pool costs
// nothing.
const (
	spinTurns = 1000
	spinYield = 16 // turns between two calls of the Go scheduler
)

func spinOnce(try int) {
	if try%spinYield == spinYield-1 {
		runtime.Gosched()
		return
	}
	pause()
}

// await returns when a job may have been posted since the count seen.
func (p *Pool) await(seen uint32) {
	for try := 0; p.spin && try < spinTurns; try++ {
		if p.posted.Load() != seen {
			return
		}
		spinOnce(try)
	}
	p.mu.Lock()
	if p.posted.Load() != seen || p.closed {
		p.mu.Unlock()
		return
	}
	p.asleep++
	p.mu.Unlock()
	<-p.wake
}
