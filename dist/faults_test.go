package dist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// A round that waits for frozen workers ends at its deadline, in an error that
// names them. Time is synctest's.
func TestDeadlineNamesTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, FirstDeadline: 7 * time.Second})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
			cl.freeze(name)
		}
		begin := time.Now()
		_, err := cl.trainStep(m, 3)
		if took := time.Since(begin); took != 7*time.Second {
			t.Errorf("the round took %v, want its deadline of 7 s", took)
		}
		var few *coded.TooFewError
		if !errors.As(err, &few) {
			t.Fatalf("error is %v, want a TooFewError", err)
		}
		for i, name := range []string{"worker-1", "worker-2", "worker-3"} {
			if !strings.HasPrefix(few.Missing[i], name+" (no answer within 7s)") {
				t.Errorf("missing %d is %q, want %s", i, few.Missing[i], name)
			}
			cl.thaw(name)
		}
		cl.train(m, 4, 5)
	})
}

func TestWaitForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Wait: 15 * time.Second})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		cl.kill("worker-1")
		cl.kill("worker-2")
		cl.cut("worker-3")
		done := make(chan error, 1)
		go func() {
			_, err := cl.trainStep(m, 3)
			done <- err
		}()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("the round ended before its time, with error %v", err)
		default:
		}
		// Its shard is still good, so that the round can go on where it stands.
		cl.connect(cl.workers["worker-3"])
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		cl.cut("worker-3")
		begin := time.Now()
		if _, err := cl.trainStep(m, 4); !errors.Is(err, coded.ErrTooFewResults) {
			t.Errorf("error is %v, want too few results", err)
		}
		if took := time.Since(begin); took != 15*time.Second {
			t.Errorf("too few workers were waited for %v, want 15 s", took)
		}
	})
}

// With Wait, workers that thaw in time save the round.
func TestFrozenWorkersComeBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, FirstDeadline: 5 * time.Second, Wait: 10 * time.Second})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		frozen := []string{"worker-1", "worker-3", "worker-4"}
		for _, name := range frozen {
			cl.freeze(name)
		}
		time.AfterFunc(12*time.Second, func() {
			for _, name := range frozen {
				cl.thaw(name)
			}
		})
		begin := time.Now()
		cl.train(m, 3, 4)
		if took := time.Since(begin); took != 12*time.Second {
			t.Errorf("two steps with workers frozen for 12 s took %v", took)
		}
	})
}

// A worker that takes nothing for longer than a connection may stall is lost,
// with that reason, and is repaired when it comes back.
func TestFrozenBeyondTheStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		cl.freeze("worker-2")
		begin := time.Now()
		cl.train(m, 3, 15)
		if took := time.Since(begin); took != 0 {
			t.Errorf("a frozen worker of six held the others up for %v", took)
		}
		cl.await("worker-2", StateStale)
		<-cl.workers["worker-2"].gone
		// What it does not take is a task, or if it was not sent one before it was stale, the
		// order to be repaired.
		if took := time.Since(begin); took != DefaultStall && took != repairPause+DefaultStall {
			t.Errorf("the connection was given up after %v, want %v, and %v more at most", took, DefaultStall, repairPause)
		}
		// The goroutine that sends finds the timeout and closes the connection; the
		// one that receives may be the first to report it.
		if e := cl.await("worker-2", StateFailed); !strings.Contains(e.Reason, "timeout") && !strings.Contains(e.Reason, "closed") {
			t.Errorf("reason is %q, want a timeout or a closed connection", e.Reason)
		}
		cl.thaw("worker-2")
		cl.connect(cl.workers["worker-2"])
		cl.await("worker-2", StateRepaired)
		cl.settle("fc1")
		cl.kill("worker-5")
		cl.kill("worker-6")
		cl.train(m, 16, 17) // needs worker-2
	})
}

// When every worker's handler fails, the round's error has each with its reason.
func TestEveryHandlerFails(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6, hooked(func(coded.Product, int) error { return errors.New("out of memory") }, nil))
	m := newFC1()
	cl.place(m)
	_, _, err := cl.product(m, coded.Backward, 4, false)
	var few *coded.TooFewError
	if !errors.As(err, &few) || len(few.Missing) < 3 || few.Need != 4 {
		t.Fatalf("error is %v, want a TooFewError with three missing at least", err)
	}
	for _, missing := range few.Missing {
		if !strings.HasPrefix(missing, "worker-") || !strings.Contains(missing, "failed at step 4: layer fc1: step 4: backward product, chunk ") ||
			!strings.Contains(missing, "out of memory") {
			t.Errorf("missing is %q, want worker, layer, step, chunk and reason", missing)
		}
	}
}

func TestWorkerThatPanicsIsRepaired(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 1, hooked(func(p coded.Product, _ int) error {
		if p == coded.Backward {
			panic("a bug in a handler")
		}
		return nil
	}, nil))
	cl.start(1, 6)
	m := newFC1()
	cl.place(m)
	for step := 1; ; step++ {
		cl.train(m, step, step)
		select {
		case <-cl.workers["worker-1"].gone:
		default:
			continue
		}
		break
	}
	if e := cl.await("worker-1", StateFailed); !strings.Contains(e.Reason, "fc1") || !strings.Contains(e.Reason, "a bug in a handler") {
		t.Errorf("reason is %q, want the layer and the panic", e.Reason)
	}
}

func TestWorkerLeaves(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 2)
	cl.workers["worker-6"].end()
	receive(t, cl.workers["worker-6"].done)
	cl.await("worker-6", StateLeft)
	cl.train(m, 3, 4)
}

func TestSpareTakesOver(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 7)
	if e := cl.await("worker-7", StateJoined); e.Slot != -1 {
		t.Errorf("worker-7 of six slots got slot %d", e.Slot)
	}
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.kill("worker-4")
	if e := cl.await("worker-7", StateRepaired); e.Slot != 3 {
		t.Errorf("worker-7 was repaired in slot %d, want 3", e.Slot)
	}
	cl.settle("fc1")
	cl.kill("worker-1")
	cl.kill("worker-2")
	cl.train(m, 4, 6)
	if names := cl.c.Workers(); !slices.Equal(names, []string{"", "", "worker-3", "worker-7", "worker-5", "worker-6"}) {
		t.Errorf("workers are %q", names)
	}
}

func TestNamesKeepTheirSlots(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 3})
	for _, name := range []string{"worker-9", "worker-3", "worker-1", "worker-2"} {
		cl.add(name)
	}
	if names := cl.c.Workers(); !slices.Equal(names, []string{"worker-1", "worker-2", "worker-3", "worker-9"}) {
		t.Errorf("workers are %q, want each in the slot of its number", names)
	}
	// The same name again replaces the old connection.
	cl.connect(cl.workers["worker-2"])
	cl.await("worker-2", StateFailed)
	if names := cl.c.Workers(); names[1] != "worker-2" || len(names) != 4 {
		t.Errorf("workers are %q, want worker-2 in its slot again", names)
	}
}

func TestDonorDiesDuringRepair(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	stuck := make(chan struct{}, 10)
	deaf := func(cfg *WorkerConfig) {
		cfg.Dial = func(ctx context.Context, addr string) (*Conn, error) {
			stuck <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	cl.start(0, 1, deaf)
	cl.start(1, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.settle("fc1") // worker-1 is no donor while it lags
	cl.kill("worker-3")
	cl.add("worker-3")
	receive(t, stuck)
	cl.kill("worker-1")
	cl.await("worker-3", StateRepaired)
	cl.settle("fc1")
	cl.kill("worker-6")
	cl.train(m, 4, 5)
}

func TestSecondCoordinatorIsRefused(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 1})
	cl.start(0, 1)
	other, err := NewCoordinator(CoordinatorConfig{Slots: 1, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := cl.net.dial(cl.ctx(), "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.AddWorker(cl.ctx(), conn); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "worker-1 serves another coordinator") {
		t.Errorf("a second coordinator gets %v, want a refusal with its reason", err)
	}
	if err := cl.c.Close(); err != nil {
		t.Fatal(err)
	}
	receive(t, cl.workers["worker-1"].gone)
	for {
		if conn, err = cl.net.dial(cl.ctx(), "worker-1"); err != nil {
			t.Fatal(err)
		}
		// The worker may still be busy with the goodbye.
		if _, err = other.AddWorker(cl.ctx(), conn); !errors.Is(err, ErrRefused) {
			break
		}
	}
	if err != nil {
		t.Errorf("after the first coordinator's goodbye the second gets %v", err)
	}
}

func TestClosedCoordinator(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	if err := cl.c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward}); !errors.Is(err, ErrClosed) {
		t.Errorf("start gives %v", err)
	}
	if err := cl.c.Update(cl.ctx(), coded.Update{Step: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("update gives %v", err)
	}
	if _, err := cl.c.Fetch(cl.ctx(), "fc1"); !errors.Is(err, ErrClosed) {
		t.Errorf("fetch gives %v", err)
	}
	if err := cl.c.Place(cl.ctx(), m.layer, m.state); !errors.Is(err, ErrClosed) {
		t.Errorf("place gives %v", err)
	}
}

func TestPaceAndSlowness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 1, 10, 10), 1)
		var took time.Duration
		cl := newCluster(t, CoordinatorConfig{Slots: 1, OnRound: func(s RoundStats) { took = s.Compute }})
		cl.start(0, 1, func(cfg *WorkerConfig) {
			cfg.Pace = 600e-9 // 600 flops a second, as many as the product has
			cfg.Slow = func(i ProductInfo) float64 {
				if i.Product == coded.Backward {
					return 3
				}
				return 1
			}
		})
		cl.place(m)
		if _, _, err := cl.product(m, coded.Forward, 1, false); err != nil {
			t.Fatal(err)
		}
		if took != time.Second {
			t.Errorf("600 flops at 600 flops a second took %v", took)
		}
		if _, _, err := cl.product(m, coded.Backward, 1, false); err != nil {
			t.Fatal(err)
		}
		if took != 3*time.Second {
			t.Errorf("three times as slow took %v", took)
		}
		if s := cl.c.Stats(); s.Work != 1200 || s.Wasted != 0 {
			t.Errorf("work is %g flops of which %g wasted, want 1200 and 0", s.Work, s.Wasted)
		}
	})
}
