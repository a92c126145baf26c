package dist

import (
	"sync/atomic"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// hooks wraps toy shards, to hold them up or make them fail.
type hooks struct {
	coded.Shard
	multiply   func(p coded.Product, chunk int) error
	accumulate func()
}

func (h *hooks) Multiply(p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	if h.multiply != nil {
		if err := h.multiply(p, chunk); err != nil {
			return coded.Tensor{}, err
		}
	}
	return h.Shard.Multiply(p, x, chunk)
}

func (h *hooks) Accumulate(x, dy coded.Tensor) error {
	if h.accumulate != nil {
		h.accumulate()
	}
	return h.Shard.Accumulate(x, dy)
}

func hooked(multiply func(coded.Product, int) error, accumulate func()) func(*WorkerConfig) {
	return func(cfg *WorkerConfig) {
		cfg.Handlers = map[string]coded.Factory{toyKind: func(l coded.Layer, slot int) (coded.Shard, error) {
			s, err := newToyShard(l, slot)
			return &hooks{s, multiply, accumulate}, err
		}}
	}
}

func TestKillInTheMiddleOfARound(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	m := newFC1()
	var begun atomic.Int32
	reached := make(chan struct{})
	block := make(chan struct{})
	slow := hooked(func(coded.Product, int) error {
		if begun.Add(1) == 2 {
			close(reached)
		}
		<-block
		return nil
	}, nil)
	// The others could finish the round before both have begun.
	patient := hooked(func(coded.Product, int) error {
		<-reached
		return nil
	}, nil)
	cl.start(0, 2, slow)
	cl.start(2, 6, patient)
	cl.place(m)
	x := m.operand(coded.Forward)
	r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward, Step: 1, Operand: x})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	receive(t, reached)
	close(block)
	cl.kill("worker-1")
	cl.kill("worker-2")
	answers, err := r.Wait(cl.ctx())
	if err != nil {
		t.Fatal(err)
	}
	y, err := m.decode(coded.Forward, answers, x.Shape[0])
	if err != nil {
		t.Fatal(err)
	}
	if d := distance(y, m.want(coded.Forward, x)); d > toyTolerance {
		t.Errorf("product differs by %g", d)
	}
}

func TestRestartedWorkerIsRepaired(t *testing.T) {
	noLeaks(t)
	forced := atomic.Pointer[[]int]{}
	cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 12, Select: func(RoundInfo) [][]int {
		if set := forced.Load(); set != nil {
			return [][]int{*set}
		}
		return nil
	}})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.kill("worker-3")
	cl.await("worker-3", StateFailed)
	cl.train(m, 4, 20) // beyond what the log remembers
	cl.add("worker-3")
	if e := cl.await("worker-3", StateJoined); e.Slot != 2 {
		t.Errorf("worker-3 came back into slot %d, want 2", e.Slot)
	}
	cl.train(m, 21, 22)
	cl.await("worker-3", StateRepaired)
	cl.settle("fc1")
	forced.Store(&[]int{0, 2, 3, 4})
	cl.train(m, 23, 25)
	// A busy machine may starve another worker until it is stale.
	if s := cl.c.Stats(); s.Repairs < 1 {
		t.Errorf("%d repairs, want one at least", s.Repairs)
	}
}

func TestRepairBetweenForwardAndBackward(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.kill("worker-1")
	x, _, err := cl.product(m, coded.Forward, 4, true)
	if err != nil {
		t.Fatal(err)
	}
	// The repair is of the state after update 3; the operand of step 4 must reach it too.
	cl.add("worker-1")
	cl.await("worker-1", StateRepaired)
	dy, _, err := cl.product(m, coded.Backward, 4, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.c.Update(cl.ctx(), coded.Update{Step: 4, LR: 0.05, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	m.step(x, dy, 0.05)
	cl.settle("fc1")
	cl.kill("worker-6")
	cl.kill("worker-5")
	cl.train(m, 5, 6) // needs worker-1
}

func TestBrokenConnectionIsTakenUpAgain(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 100})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 5)
	cl.cut("worker-2")
	cl.train(m, 6, 7)
	cl.connect(cl.workers["worker-2"])
	cl.await("worker-2", StateRepaired)
	cl.settle("fc1")
	cl.kill("worker-5")
	cl.kill("worker-6")
	cl.train(m, 8, 10) // needs worker-2
	if s := cl.c.Stats(); s.Repairs != 0 {
		t.Errorf("%d repairs of a worker that had only missed a few updates", s.Repairs)
	}
}

func TestSlowWorkerGoesStaleAndIsRepaired(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 3})
	block := make(chan struct{})
	cl.start(0, 1, hooked(nil, func() { <-block }))
	cl.start(1, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 8)
	if e := cl.await("worker-1", StateStale); e.Step < 4 {
		t.Errorf("stale at step %d with a log of 3 updates", e.Step)
	}
	cl.train(m, 9, 12)
	close(block)
	cl.await("worker-1", StateRepaired)
	cl.settle("fc1")
	cl.kill("worker-5")
	cl.kill("worker-6")
	cl.train(m, 13, 15) // needs worker-1
}

func TestFrozenWorkerHoldsUpNobody(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 4})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.freeze("worker-2")
	cl.freeze("worker-4")
	cl.train(m, 4, 15)
	if held := len(cl.c.log.entries); held > 3*5 {
		t.Errorf("the log holds %d entries for 4 updates of 3 entries", held)
	}
	cl.thaw("worker-2")
	cl.thaw("worker-4")
	for step, repaired := 16, 0; repaired < 2; step++ {
		cl.train(m, step, step)
		select {
		case e := <-cl.events:
			if e.State == StateRepaired {
				repaired++
			}
		default:
		}
		if step > 2000 {
			t.Fatal("frozen workers were not repaired in 2000 steps")
		}
	}
}

func TestCancelledTasksAreNotComputed(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Queue: 3})
	var calls atomic.Int32
	block, entered := make(chan struct{}), make(chan struct{}, 100)
	cl.start(0, 1, hooked(func(coded.Product, int) error {
		calls.Add(1)
		entered <- struct{}{}
		<-block
		return nil
	}, nil))
	m := newFC1()
	cl.start(1, 6)
	cl.place(m)
	if _, _, err := cl.product(m, coded.Forward, 1, false); err != nil {
		t.Fatal(err)
	}
	// The worker has had three tasks at most and has begun at most one of them.
	if err := cl.workers["worker-1"].idle(cl.ctx()); err != nil {
		t.Fatal(err)
	}
	close(block)
	// A fetch is answered after what was queued before it.
	if _, err := cl.c.Fetch(cl.ctx(), "fc1"); err != nil {
		t.Fatal(err)
	}
	if n := calls.Load(); n > 1 {
		t.Errorf("%d chunks computed, of which all but one were cancelled", n)
	}
}
