package dist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// cutPipe is a connection whose far end has a cut before it.
func cutPipe() (cut *Cut, near, far net.Conn) {
	cut = &Cut{}
	near, far = net.Pipe()
	return cut, near, cut.conn(far)
}

func TestNilCutIsNoCut(t *testing.T) {
	var cut *Cut
	near, far := net.Pipe()
	defer near.Close()
	if cut.conn(far) != far || cut.over() != nil || cut.await(t.Context()) != nil {
		t.Error("a nil Cut gets in the way")
	}
}

// What is written during a cut arrives when it is over, and not before; both ways.
func TestCutHoldsBackUntilHealed(t *testing.T) {
	for _, inward := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cut, near, far := cutPipe()
			from, to := far, near
			if inward {
				from, to = near, far
			}
			cut.Begin(3 * time.Second)
			begin := time.Now()
			go from.Write([]byte("hello"))
			b := make([]byte, 5)
			if _, err := io.ReadFull(to, b); err != nil || string(b) != "hello" {
				t.Errorf("read %q, %v", b, err)
			}
			if took := time.Since(begin); took != 3*time.Second {
				t.Errorf("inward %v: arrived after %v, want 3 s", inward, took)
			}
		})
	}
}

// A Read under way when the cut begins gives what then arrives only after it,
// bytes and ends alike.
func TestCutOvertakesARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut, near, far := cutPipe()
		type got struct {
			text string
			err  error
			at   time.Duration
		}
		begin := time.Now()
		reads := make(chan got)
		go func() {
			for b := make([]byte, 2); ; {
				n, err := far.Read(b)
				reads <- got{string(b[:n]), err, time.Since(begin)}
				if err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		cut.Begin(time.Second)
		go func() {
			near.Write([]byte("abc"))
			near.Close()
		}()
		for _, want := range []got{{"ab", nil, time.Second}, {"c", nil, time.Second}, {"", io.EOF, time.Second}} {
			if r := <-reads; r != want {
				t.Errorf("read %+v, want %+v", r, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		cut, near, far := cutPipe()
		done := make(chan error)
		begin := time.Now()
		go func() {
			_, err := far.Read(make([]byte, 2))
			done <- err
		}()
		synctest.Wait()
		cut.Begin(time.Second)
		near.Close()
		if err := <-done; err != io.EOF || time.Since(begin) != time.Second {
			t.Errorf("the peer's end is seen as %v after %v, want EOF after 1 s", err, time.Since(begin))
		}
	})
}

// Deadlines hold during a cut, also those that are set while somebody waits;
// what was held back is not lost by them.
func TestDeadlinesDuringACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut, near, far := cutPipe()
		defer near.Close()
		cut.Begin(time.Minute)
		begin := time.Now()
		far.SetDeadline(begin.Add(time.Hour))
		time.AfterFunc(time.Second, func() { far.SetDeadline(begin.Add(2 * time.Second)) })
		go near.Write([]byte("x"))
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("read: %v after %v, want a deadline after 2 s", err, time.Since(begin))
		}
		if _, err := far.Write([]byte("y")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v, want a deadline", err)
		}
		far.SetDeadline(time.Time{})
		b := make([]byte, 1)
		if _, err := far.Read(b); err != nil || b[0] != 'x' || time.Since(begin) != time.Minute {
			t.Errorf("read %q, %v after %v, want x after 1 min", b, err, time.Since(begin))
		}
	})
}

// A connection that is closed during a cut ends here at once, and there when
// the network works.
func TestCloseDuringACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut, near, far := cutPipe()
		begin := time.Now()
		ended := make(chan error, 2)
		read := func() {
			_, err := far.Read(make([]byte, 1))
			ended <- err
		}
		go read() // in the socket
		synctest.Wait()
		cut.Begin(time.Minute)
		time.AfterFunc(time.Second, func() {
			if err := far.Close(); err != nil {
				t.Error(err)
			}
		})
		go func() { // in the cut
			_, err := far.Write([]byte("y"))
			ended <- err
		}()
		for range 2 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(begin) != time.Second {
				t.Errorf("%v after %v, want a closed connection after 1 s", err, time.Since(begin))
			}
		}
		if err := far.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the second close gives %v", err)
		}
		if _, err := near.Read(make([]byte, 1)); err != io.EOF || time.Since(begin) != time.Minute {
			t.Errorf("the peer reads %v after %v, want EOF after 1 min", err, time.Since(begin))
		}
	})
}

// The last Begin counts.
func TestBeginAgain(t *testing.T) {
	for _, c := range []struct{ second, want time.Duration }{{0, time.Second}, {3 * time.Second, 4 * time.Second}, {time.Minute, 61 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var cut Cut
			begin := time.Now()
			cut.Begin(10 * time.Second)
			time.AfterFunc(time.Second, func() { cut.Begin(c.second) })
			if err := cut.await(t.Context()); err != nil || time.Since(begin) != c.want {
				t.Errorf("%v after 1 s: over after %v, %v; want %v", c.second, time.Since(begin), err, c.want)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no patience"))
			defer cancel()
			cut.Begin(time.Hour)
			if err := cut.await(ctx); err == nil || err.Error() != "no patience" {
				t.Errorf("await gives %v, want the context's cause", err)
			}
			cut.Begin(0)
		})
	}
}

// Nobody gets through to a listener in a cut, and it dials nobody.
func TestCutOfSockets(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	cut := &Cut{}
	l, err := Wire{Key: key, Cut: cut}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cut.Begin(time.Hour)
	hasty := Wire{Key: key, HandshakeTimeout: 20 * time.Millisecond}
	if _, err := hasty.Dial(t.Context(), l.Addr()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dialling into a cut gives %v, want a deadline", err)
	}
	hasty.Cut = cut
	if _, err := hasty.Dial(t.Context(), "127.0.0.1:1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dialling out of a cut gives %v, want a deadline", err)
	}
	cut.Begin(0)
	go func() {
		if c, err := l.Accept(t.Context()); err == nil {
			c.Send(t.Context(), &Message{Header: Header{Kind: KindPing}})
			c.Close()
		}
	}()
	c, err := Wire{Key: key}.Dial(t.Context(), l.Addr())
	if err != nil {
		t.Fatalf("after the cut: %v", err)
	}
	defer c.Close()
	var m Message
	if err := c.Recv(&m); err != nil || m.Kind != KindPing {
		t.Errorf("after the cut: %v, kind %d", err, m.Kind)
	}
}

// Packets from and to a node that is cut off are lost; streams wait.
func TestCutOfGossip(t *testing.T) {
	noLeaks(t)
	cut := &Cut{}
	listen := func(cut *Cut) *gossipNet {
		g, err := listenGossip(t.Context(), "127.0.0.1:0", "", Key{}, cut)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Shutdown() })
		return g
	}
	a, b := listen(nil), listen(cut)
	say := func(from, to *gossipNet, text string) {
		t.Helper()
		if _, err := from.WriteTo([]byte(text), to.advertise.String()); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(g *gossipNet, want string) {
		t.Helper()
		ctx, cancel := bounded()
		defer cancel()
		select {
		case p := <-g.packets:
			if string(p.Buf) != want {
				t.Errorf("heard %q, want %q", p.Buf, want)
			}
		case <-ctx.Done():
			t.Errorf("%q was not heard", want)
		}
	}
	say(a, b, "before")
	hear(b, "before")

	cut.Begin(time.Hour)
	say(b, a, "lost")
	for range 10 {
		say(a, b, "lost")
	}
	select {
	case p := <-b.packets:
		t.Errorf("%q was heard during the cut", p.Buf)
	case <-time.After(20 * time.Millisecond): // there is nothing that could be waited for
	}
	if _, err := b.DialTimeout(a.advertise.String(), time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stream out of the cut: %v, want a deadline", err)
	}
	in, err := a.DialTimeout(b.advertise.String(), testDeadline)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	stream := <-b.streams
	defer stream.Close()
	if err := stream.SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stream into the cut: %v, want a deadline", err)
	}

	cut.Begin(0)
	say(b, a, "after")
	hear(a, "after") // and not what was lost
}

// A worker cut off is like one that is slow: the rounds go on without it, and
// when the network works again it catches up, over the connection that it had.
func TestWorkerIsCutOff(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	cut := &Cut{}
	cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 4})
	for i := range 6 {
		wire := Wire{Key: key}
		if i == 2 {
			wire.Cut = cut
		}
		w := serveSocket(t, wire, fmt.Sprintf("worker-%d", i+1))
		conn, err := Wire{Key: key}.Dial(cl.ctx(), w.member.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cl.c.AddWorker(cl.ctx(), conn); err != nil {
			t.Fatal(err)
		}
	}
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cut.Begin(time.Hour)
	cl.train(m, 4, 15)
	cl.await("worker-3", StateStale)
	cut.Begin(0)
	if e := cl.await("worker-3", StateRepaired); e.Slot != 2 {
		t.Errorf("worker-3 was repaired in slot %d, want 2", e.Slot)
	}
	cl.settle("fc1")
	cl.train(m, 16, 18)
	for slot, name := range cl.c.Workers() {
		if name != fmt.Sprintf("worker-%d", slot+1) {
			t.Errorf("workers are %q: a cut broke a connection", cl.c.Workers())
		}
	}
}
