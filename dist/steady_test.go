package dist

import (
	"runtime"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// A training step that goes on like the last one allocates no tensors: neither
// the coordinator nor a worker.
func TestSteadyStateAllocatesNoTensors(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	made := func() (n int) {
		for _, pool := range append([]*bufferPool{&cl.c.buffers}, cl.pools()...) {
			pool.mu.Lock()
			n += pool.made
			pool.mu.Unlock()
		}
		return n
	}
	// How much is under way at a time varies, and the pools grow with the most
	// that ever was: that has an end.
	const steps, most = 30, 5
	grown := most + 1
	for step := 1; grown > most && step < 40*steps; step += steps {
		before := made()
		cl.train(m, step, step+steps-1)
		grown = made() - before
	}
	if grown > most {
		t.Errorf("%d tensors allocated in %d steps of about 60 messages with tensors", grown, steps)
	}
}

// Two thousand rounds leave nothing behind: neither memory nor goroutines, and
// nothing in a worker's books.
func TestSteadyStateGrowsNothing(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 3})
	cl.start(0, 3)
	m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 3, K: 2}, 1, 4, 4), 1)
	cl.place(m)
	cl.train(m, 1, 100)
	cl.settle("fc1")
	heap, goroutines := live()
	cl.train(m, 101, 1100)
	cl.settle("fc1")
	heapAfter, after := live()
	const slack = 2                                                      // a timer's may be about to end
	for ctx := cl.ctx(); after > goroutines+slack && ctx.Err() == nil; { // those of repairs end soon
		runtime.Gosched()
		after = runtime.NumGoroutine()
	}
	const most = 256 << 10 // about 130 bytes a round
	if heapAfter > heap+most || after > goroutines+slack {
		t.Errorf("after 2000 rounds %d bytes and %d goroutines live, before %d and %d", heapAfter, after, heap, goroutines)
	}
	for name, tw := range cl.workers {
		if err := tw.idle(cl.ctx()); err != nil {
			t.Fatal(err)
		}
		s := tw.w.current(cl.c.Run())
		s.mu.Lock()
		if len(s.rounds) > 2 || len(s.inboxes) > 0 {
			t.Errorf("%s keeps %d rounds and %d inboxes", name, len(s.rounds), len(s.inboxes))
		}
		s.mu.Unlock()
	}
}

func live() (heap uint64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc, runtime.NumGoroutine()
}
