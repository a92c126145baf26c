package dist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded"
)

// testRoster is a Roster that tests write.
type testRoster struct {
	mu      sync.Mutex
	members []Member
	changes chan struct{}
}

func newTestRoster() *testRoster { return &testRoster{changes: make(chan struct{}, 1)} }

func (l *testRoster) Members() []Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Member(nil), l.members...)
}

func (l *testRoster) Subscribe() (<-chan struct{}, func()) { return l.changes, func() {} }

func (l *testRoster) set(members ...Member) {
	l.mu.Lock()
	l.members = members
	l.mu.Unlock()
	signal(l.changes)
}

// socketWorker serves on loopback with TLS.
type socketWorker struct {
	member   Member
	listener *Listener
	stop     func()
}

func serveSocket(t testing.TB, wire Wire, name string) *socketWorker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := wire.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorker(WorkerConfig{
		Name: name, Addr: l.Addr(), Dial: wire.Dial, Log: quiet,
		Handlers: map[string]coded.Factory{toyKind: newSomeToyShard},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx, l) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := l.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	t.Cleanup(stop)
	return &socketWorker{Member{ID: name + "-" + l.Addr(), Name: name, Addr: l.Addr(), Role: RoleWorker}, l, stop}
}

// Over real sockets, with workers that come from a roster, leave it and return.
func TestClusterOnSockets(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	roster := newTestRoster()
	ctx, cancel := context.WithCancelCause(context.Background())
	attached := make(chan error, 1)
	go func() { attached <- cl.c.Attach(ctx, roster, Wire{Key: key}.Dial) }()
	t.Cleanup(func() {
		cancel(errors.New("test is over"))
		<-attached
	})
	var members []Member
	var workers []*socketWorker
	for i := range 6 {
		w := serveSocket(t, Wire{Key: key}, fmt.Sprintf("worker-%d", i+1))
		workers, members = append(workers, w), append(members, w.member)
	}
	roster.set(append([]Member{{ID: "c", Role: RoleCoordinator, Addr: "127.0.0.1:1"}}, members...)...)
	if err := cl.c.AwaitWorkers(cl.ctx(), 6); err != nil {
		t.Fatal(err)
	}
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)

	// Gossip is a hint: a worker that it has lost goes on as long as it answers.
	roster.set(members[1:]...)
	cl.train(m, 4, 5)
	if names := cl.c.Workers(); names[0] != "worker-1" {
		t.Errorf("workers are %q, want worker-1 among them", names)
	}

	workers[3].stop()
	cl.await("worker-4", StateLeft)
	cl.train(m, 6, 15)
	back := serveSocket(t, Wire{Key: key}, "worker-4")
	roster.set(append(members[4:], back.member)...)
	if e := cl.await("worker-4", StateRepaired); e.Slot != 3 {
		t.Errorf("worker-4 was repaired in slot %d, want 3", e.Slot)
	}
	workers[4].stop()
	workers[5].stop()
	cl.awaitEach(StateLeft, "worker-5", "worker-6")
	cl.train(m, 16, 18) // needs worker-4
}

func TestAwaitWorkersSaysHowMany(t *testing.T) {
	cl := newCluster(t, CoordinatorConfig{Slots: 2})
	cl.start(0, 1)
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Millisecond, errors.New("not within 10 ms"))
	defer cancel()
	err := cl.c.AwaitWorkers(ctx, 2)
	if err == nil || !strings.Contains(err.Error(), "1 of 2 workers have joined: not within 10 ms") {
		t.Errorf("error is %v", err)
	}
}
