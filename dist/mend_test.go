package dist

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// dialler lets a worker's donations through when the gate says so.
func dialler(cl *cluster, gate func(ctx context.Context) error) func(*WorkerConfig) {
	return func(cfg *WorkerConfig) {
		cfg.Dial = func(ctx context.Context, addr string) (*Conn, error) {
			if err := gate(ctx); err != nil {
				return nil, err
			}
			return cl.net.dial(ctx, addr)
		}
	}
}

// A repair may take many more steps than the log reaches back, and then leaves
// no donation in memory.
func TestRepairOutlastsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 4})
		open := make(chan struct{})
		cl.start(0, 6, dialler(cl, func(context.Context) error { <-open; return nil }))
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 3)
		cl.kill("worker-3")
		back := cl.add("worker-3")
		for step := 4; step <= 40; step++ {
			cl.train(m, step, step)
			synctest.Wait() // everybody has been sent everything
		}
		begin := time.Now()
		close(open)
		cl.await("worker-3", StateRepaired)
		if took := time.Since(begin); took != 0 {
			t.Errorf("the repair was begun anew: it came %v after its donations could pass", took)
		}
		synctest.Wait()
		s := back.w.current(cl.c.Run())
		if inboxes, waiting := len(s.inboxes), s.queued.Load(); inboxes != 0 || waiting != 0 {
			t.Errorf("%d inboxes and %d bytes of operands are left after the repair", inboxes, waiting)
		}
		cl.kill("worker-1")
		cl.kill("worker-2")
		cl.train(m, 41, 43) // needs worker-3
	})
}

// However many workers come at once, few get their shards at a time.
func TestFewRepairsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 9, Repairs: 2})
		open := make(chan struct{})
		cl.start(0, 9, dialler(cl, func(context.Context) error { <-open; return nil }))
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 9, K: 4}, 3, 12, 24), 1)
		cl.place(m)
		cl.train(m, 1, 2)
		back := []string{"worker-2", "worker-4", "worker-6", "worker-8"}
		for _, name := range back {
			cl.kill(name)
		}
		for _, name := range back {
			cl.add(name)
		}
		cl.train(m, 3, 4)
		synctest.Wait()
		cl.c.mu.Lock()
		n := len(cl.c.repairs)
		cl.c.mu.Unlock()
		if n != 2 {
			t.Errorf("%d repairs at a time, want 2", n)
		}
		close(open)
		cl.awaitEach(StateRepaired, back...)
		cl.train(m, 5, 6)
	})
}

// A repair for which too many donors lag begins when they have caught up, also
// if the training has paused.
func TestRepairWaitsForDonorsThatLag(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	block := make(chan struct{})
	cl.start(0, 3, hooked(nil, func() { <-block }))
	cl.start(3, 6)
	m := newFC1()
	cl.place(m)
	const lr = 0.05
	for step := 1; step <= 3; step++ {
		x, dy := m.operand(coded.Forward), m.operand(coded.Backward)
		cl.discard(coded.Forward, step, x)
		cl.discard(coded.Backward, step, dy)
		if err := cl.c.Update(cl.ctx(), coded.Update{Step: step, LR: lr, Scale: 1}); err != nil {
			t.Fatal(err)
		}
		m.step(x, dy, lr)
	}
	cl.kill("worker-6")
	cl.add("worker-6")
	if n := cl.c.Stats().Repairs; n != 0 {
		t.Fatalf("%d repairs from two workers", n)
	}
	close(block)
	cl.await("worker-6", StateRepaired)
	if n := cl.c.Stats().Rebuilds; n != 0 {
		t.Errorf("%d rebuilds, although the donors had only to catch up", n)
	}
	if _, _, err := cl.product(m, coded.Forward, 4, false); err != nil {
		t.Fatal(err)
	}
}

// discard hands a kept operand over.
func (cl *cluster) discard(p coded.Product, step int, operand coded.Tensor) {
	cl.t.Helper()
	r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: p, Step: step, Operand: operand, Keep: true, Discard: true})
	if err != nil {
		cl.t.Fatal(err)
	}
	r.Release()
}

// A repair that is begun anew while a round is under way sends the round's
// operand again, for the gradient; the worker has it for its products already.
func TestRepairBegunAnewDuringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Pointer[[]int]
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Wait: 15 * time.Second, Select: func(RoundInfo) [][]int {
			if s := set.Load(); s != nil {
				return [][]int{*s}
			}
			return nil
		}})
		fail, failed := make(chan struct{}), atomic.Bool{}
		cl.start(0, 6, dialler(cl, func(context.Context) error {
			<-fail
			if failed.CompareAndSwap(false, true) {
				return errors.New("no route")
			}
			return nil
		}))
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		synctest.Wait()
		cl.kill("worker-1")
		cl.add("worker-1")
		synctest.Wait()
		set.Store(&[]int{0, 1, 2, 3})
		done := make(chan error)
		go func() {
			_, err := cl.trainStep(m, 3)
			done <- err
		}()
		synctest.Wait()
		close(fail)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		cl.train(m, 4, 5)
		cl.await("worker-1", StateRepaired)
		if !failed.Load() || cl.c.Stats().Repairs != 1 {
			t.Errorf("%d repairs, of which the first failed: %v", cl.c.Stats().Repairs, failed.Load())
		}
	})
}

// A line that is gone gets no task: its slot may be another's already.
func TestNoTaskForTheGone(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.c.mu.Lock()
	gone := cl.c.slots[0]
	cl.c.mu.Unlock()
	cl.kill("worker-1")
	r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward, Operand: m.operand(coded.Forward)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	if b := cl.c.next(gone.line); b != nil {
		t.Errorf("a line that is gone is given a message of kind %d", b.messages[0].Kind)
	}
}
