package dist

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// A frozen worker's kernel takes the goodbye, and nobody answers: Close leaves
// the worker behind after its grace.
func TestCloseLeavesASilentWorkerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := NewCoordinator(CoordinatorConfig{Name: "coordinator", Slots: 1, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		worker := NewConn(there)
		defer worker.Close()
		taken := make(chan error, 1)
		go func() {
			var m Message
			for _, want := range []Kind{KindHello, KindBye} {
				err := worker.Recv(&m)
				if err == nil && m.Kind != want {
					t.Errorf("message of kind %d, want %d", m.Kind, want)
				}
				if err == nil && want == KindHello {
					err = worker.Send(t.Context(), &Message{Header: Header{Kind: KindHello, Run: m.Run, From: "worker-1", Role: RoleWorker}})
				}
				if err != nil {
					taken <- err
					return
				}
			}
			taken <- nil
		}()
		if _, err := c.AddWorker(t.Context(), NewConn(here)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := <-taken; err != nil {
			t.Error(err)
		}
	})
}

// Rounds under way fail at once when the coordinator is closed, and say which.
func TestCloseEndsRounds(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	block, entered := make(chan struct{}), make(chan struct{}, 100)
	cl.start(0, 6, hooked(func(coded.Product, int) error { entered <- struct{}{}; <-block; return nil }, nil))
	m := newFC1()
	cl.place(m)
	var rounds []coded.Pending
	for _, p := range []coded.Product{coded.Forward, coded.Backward} {
		r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: p, Step: 3, Operand: m.operand(p)})
		if err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, r)
	}
	receive(t, entered)
	waited := make(chan error)
	go func() {
		_, err := rounds[0].Wait(context.Background())
		waited <- err
	}()
	closed := make(chan error)
	go func() { closed <- cl.c.Close() }()
	if err := receive(t, waited); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "layer fc1: step 3: forward product") {
		t.Errorf("the round that was waited for ends with %v", err)
	}
	if _, err := rounds[1].Wait(cl.ctx()); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "backward") {
		t.Errorf("the other round ends with %v", err)
	}
	close(block)
	if err := receive(t, closed); err != nil {
		t.Error(err)
	}
	for _, r := range rounds {
		r.Release()
	}
}
