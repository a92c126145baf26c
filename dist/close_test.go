package dist

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
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
