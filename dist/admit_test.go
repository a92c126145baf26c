package dist

import (
	"context"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConn is only ever closed.
type fakeConn struct {
	net.Conn
	closed chan struct{}
}

func newFakeConn() *fakeConn     { return &fakeConn{closed: make(chan struct{})} }
func (c *fakeConn) Close() error { close(c.closed); return nil }
func (c *fakeConn) isClosed() (b bool) {
	select {
	case <-c.closed:
		b = true
	default:
	}
	return b
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace = time.Second
		a := newAdmission(3, grace)
		conns := []*fakeConn{newFakeConn(), newFakeConn(), newFakeConn()}
		var in []*entrant
		for _, c := range conns {
			e := a.enter(c)
			in = append(in, e)
			time.Sleep(100 * time.Millisecond)
		}
		a.passed(in[0]) // the oldest has proved itself: it is safe

		start := time.Now()
		go func() {
			<-conns[1].closed // evicted: its owner notices
			a.leave(in[1])
		}()
		late := newFakeConn()
		e := a.enter(late)
		// in[1] came at 100 ms, and has its grace until 1100 ms; now was 300 ms.
		if took := time.Since(start); e == nil || took != 800*time.Millisecond {
			t.Errorf("entered after %v, expected 800ms", took)
		}
		if conns[0].isClosed() || conns[2].isClosed() || late.isClosed() {
			t.Error("somebody else was closed")
		}

		// A place that is free is given at once.
		a.leave(in[0])
		start = time.Now()
		if last := a.enter(newFakeConn()); last == nil || time.Since(start) != 0 {
			t.Errorf("a free place took %v", time.Since(start))
		}
	})
}

func TestAdmissionStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, time.Hour)
		first := newFakeConn()
		e := a.enter(first)
		waiting, refused := newFakeConn(), make(chan *entrant)
		go func() { refused <- a.enter(waiting) }()
		synctest.Wait()
		a.stop()
		a.stop()
		if e := <-refused; e != nil || !waiting.isClosed() || !first.isClosed() {
			t.Error("the waiting one, or the one inside, is still open")
		}
		a.leave(e)
		if late := newFakeConn(); a.enter(late) != nil || !late.isClosed() {
			t.Error("somebody entered after the end")
		}
	})
}

// failingListener gives what it is told, and then that it is closed.
type failingListener struct {
	net.Listener
	results []error // nil: a connection
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.results) == 0 {
		return nil, net.ErrClosed
	}
	err := l.results[0]
	l.results = l.results[1:]
	return newFakeConn(), err
}

// Running out of file descriptors is not the end of a server.
func TestAcceptAllOutlastsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var times []time.Duration
		l := &failingListener{results: []error{syscall.EMFILE, syscall.EMFILE, syscall.ECONNABORTED, nil, syscall.EMFILE, nil}}
		acceptAll(t.Context(), l, func(net.Conn) { times = append(times, time.Since(start)) })
		if want := []time.Duration{35 * time.Millisecond, 40 * time.Millisecond}; !slices.Equal(times, want) {
			t.Errorf("connections after %v, expected %v", times, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		acceptAll(ctx, &failingListener{results: slices.Repeat([]error{syscall.EMFILE}, 100)}, nil)
	})
}
