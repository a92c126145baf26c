package dist

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The elder of two workers of one name stays as long as it answers; the event
// names both, once.
func TestTwoWorkersOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 2})
		cl.add("worker-1")
		cl.await("worker-1", StateJoined)
		double := cl.launch("worker-1", func(cfg *WorkerConfig) { cfg.Addr = "elsewhere" })
		defer func() { double.end(); <-double.done }()
		join := func() error {
			conn, err := cl.net.dial(cl.ctx(), "elsewhere")
			if err != nil {
				t.Fatal(err)
			}
			_, err = cl.c.AddWorker(cl.ctx(), conn)
			return err
		}
		const want = "name worker-1 belongs to the worker at worker-1; this one is at elsewhere"
		for range 2 {
			if err := join(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a second worker-1 gets %v, want %q", err, want)
			}
		}
		if e := cl.await("worker-1", StateFailed); e.Slot != -1 || e.Reason != want {
			t.Errorf("event is %+v", e)
		}
		synctest.Wait()
		select {
		case e := <-cl.events:
			t.Errorf("one more event: %v", e)
		case <-cl.workers["worker-1"].gone:
			t.Error("the elder worker is gone")
		default:
		}
		// One that has frozen makes way.
		cl.freeze("worker-1")
		begin := time.Now()
		if err := join(); err != nil {
			t.Errorf("beside a frozen worker-1: %v", err)
		}
		if took := time.Since(begin); took != nameGrace {
			t.Errorf("the frozen one had %v to answer, want %v", took, nameGrace)
		}
		cl.await("worker-1", StateFailed)
		if e := cl.await("worker-1", StateJoined); e.Slot != 0 {
			t.Errorf("the new worker-1 got slot %d, want 0", e.Slot)
		}
		cl.thaw("worker-1")
	})
}

// A worker that only pings does not fill the coordinator's memory.
func TestPongsDoNotPileUp(t *testing.T) {
	cl := newCluster(t, CoordinatorConfig{Slots: 1})
	l := &line{wake: make(chan struct{}, 1)}
	for range 100 {
		if err := cl.c.handle(l, &Message{Header: Header{Kind: KindPing}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.urgent); n != 1 {
		t.Errorf("%d messages wait after 100 pings, want 1", n)
	}
}
