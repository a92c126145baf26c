package dist

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A worker that the gossip loses and finds again keeps its connection; one whose
// connection breaks is connected anew.
func TestAttachKeepsWhatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 1})
		w := cl.launch("worker-1")
		cl.workers["worker-1"] = w
		roster := newTestRoster()
		member := Member{ID: "worker-1-a", Name: "worker-1", Addr: "worker-1", Role: RoleWorker}
		ctx, cancel := context.WithCancelCause(t.Context())
		attached := make(chan error, 1)
		go func() { attached <- cl.c.Attach(ctx, roster, cl.net.dial) }()
		roster.set(member)
		cl.await("worker-1", StateJoined)
		for range 3 {
			roster.set()
			synctest.Wait()
			roster.set(member)
			time.Sleep(time.Minute)
		}
		select {
		case e := <-cl.events:
			t.Errorf("event %v, although the connection works", e)
		default:
		}
		w.node.sever()
		cl.await("worker-1", StateFailed)
		cl.await("worker-1", StateJoined)
		over := errors.New("test is over")
		cancel(over)
		if err := <-attached; !errors.Is(err, over) {
			t.Errorf("attach ends with %v", err)
		}
	})
}

// Who waits for workers hears why one that is there could not be had.
func TestAwaitWorkersTellsOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 1})
		cl.start(0, 1)
		other, err := NewCoordinator(CoordinatorConfig{Slots: 1, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		roster := newTestRoster()
		roster.set(Member{ID: "worker-1-a", Name: "worker-1", Addr: "worker-1", Role: RoleWorker})
		attached := make(chan error, 1)
		go func() { attached <- other.Attach(t.Context(), roster, cl.net.dial) }()
		wait, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = other.AwaitWorkers(wait, 1)
		if !errors.Is(err, ErrRefused) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0 of 1 workers have joined") ||
			!strings.Contains(err.Error(), "worker-1 serves another coordinator") {
			t.Errorf("waiting ends with %v, want how many have joined and why worker-1 has not", err)
		}
		if err := errors.Join(other.Close(), cl.c.Close()); err != nil {
			t.Error(err)
		}
		if err := <-attached; !errors.Is(err, ErrClosed) {
			t.Errorf("attach ends with %v", err)
		}
	})
}
