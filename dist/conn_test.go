package dist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// pipePair is a pair of connections over net.Pipe, which holds no bytes: a
// peer that does not read stops the writer at once.
func pipePair(t *testing.T) (a, b *Conn) {
	t.Helper()
	x, y := net.Pipe()
	a, b = NewConn(x), NewConn(y)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func wantMessage(t *testing.T, c *Conn, kind Kind, layer string, tensors int) {
	t.Helper()
	var m Message
	if err := c.Recv(&m); err != nil {
		t.Fatal(err)
	}
	if m.Kind != kind || m.Layer != layer || len(m.Tensors) != tensors {
		t.Fatalf("received kind %d of layer %q with %d tensors, expected %d, %q, %d", m.Kind, m.Layer, len(m.Tensors), kind, layer, tensors)
	}
}

func TestConnCarriesMessagesInOrder(t *testing.T) {
	noLeaks(t)
	for name, pair := range map[string]func(*testing.T) (*Conn, *Conn){
		"pipe": pipePair,
		"tls":  func(t *testing.T) (*Conn, *Conn) { return securePair(t) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			sent := make(chan error, 1)
			big := coded.NewTensor(3, 100_003)
			go func() {
				var err error
				for i := range 20 {
					m := &Message{Header: Header{Kind: KindTask, Layer: fmt.Sprint(i)}}
					if i%2 == 0 {
						m.Tensors = []coded.Tensor{big, coded.NewTensor(1)}
					}
					err = errors.Join(err, a.Send(t.Context(), m))
				}
				sent <- err
			}()
			for i := range 20 {
				wantMessage(t, b, KindTask, fmt.Sprint(i), 2*(1-i%2))
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if a.BytesOut() != b.BytesIn() || b.BytesIn() < 10*4*3*100_003 || a.BytesIn() != 0 {
				t.Errorf("bytes: %d out, %d in", a.BytesOut(), b.BytesIn())
			}
			a.Close()
			if err := b.Recv(new(Message)); err != io.EOF {
				t.Errorf("after the peer's Close: %v, expected io.EOF", err)
			}
		})
	}
}

// countingConn counts what is written at a time.
type countingConn struct {
	net.Conn
	writes int
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

// Small messages that are sent together leave in one write. One that breaks a bound
// is refused with those after it, and the connection goes on.
func TestConnSendsSeveral(t *testing.T) {
	noLeaks(t)
	x, y := net.Pipe()
	raw := &countingConn{Conn: x}
	a, b := NewConn(raw), NewConn(y)
	defer b.Close()
	defer a.Close()
	a.MaxBytes = 400
	sent := make(chan error, 1)
	ping := func(layer string) *Message { return &Message{Header: Header{Kind: KindPing, Layer: layer}} }
	operand := &Message{Header: Header{Kind: KindOperand, Layer: "x"}, Tensors: []coded.Tensor{coded.NewTensor(100)}}
	go func() { sent <- a.Send(t.Context(), ping("1"), operand, ping("2")) }()
	wantMessage(t, b, KindPing, "1", 0)
	wantMessage(t, b, KindOperand, "x", 1)
	wantMessage(t, b, KindPing, "2", 0)
	if err := receive(t, sent); err != nil || raw.writes != 1 {
		t.Errorf("%v after %d writes, want 1", err, raw.writes)
	}
	large := &Message{Header: Header{Kind: KindOperand}, Tensors: []coded.Tensor{coded.NewTensor(101)}}
	go func() { sent <- a.Send(t.Context(), ping("3"), large, ping("4")) }()
	wantMessage(t, b, KindPing, "3", 0)
	if err := receive(t, sent); !errors.Is(err, ErrFrameSize) {
		t.Errorf("error is %v, want %v", err, ErrFrameSize)
	}
	if err := a.Send(t.Context(), large); !errors.Is(err, ErrFrameSize) {
		t.Errorf("error is %v, want %v", err, ErrFrameSize)
	}
	go func() { sent <- a.Send(t.Context(), ping("5")) }()
	wantMessage(t, b, KindPing, "5", 0)
	if err := receive(t, sent); err != nil || a.BytesOut() != b.BytesIn() {
		t.Errorf("%v; %d bytes out, %d in", err, a.BytesOut(), b.BytesIn())
	}
}

func TestConnSendsConcurrently(t *testing.T) {
	noLeaks(t)
	a, b := securePair(t)
	const senders, each = 8, 25
	shared := &Message{Header: Header{Kind: KindOperand, Layer: "shared"}, Tensors: []coded.Tensor{coded.NewTensor(5000)}}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				if err := a.Send(t.Context(), shared); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range senders * each {
		wantMessage(t, b, KindOperand, "shared", 1)
	}
	wg.Wait()
}

func TestConnRecvUsesAlloc(t *testing.T) {
	a, b := securePair(t)
	buf := make([]float32, 10)
	b.Alloc = func(n int) []float32 { return buf[:n] }
	if err := a.Send(t.Context(), &Message{Tensors: []coded.Tensor{{Shape: []int{2}, Data: []float32{3, 4}}}}); err != nil {
		t.Fatal(err)
	}
	var m Message
	if err := b.Recv(&m); err != nil || &m.Tensors[0].Data[0] != &buf[0] || buf[1] != 4 {
		t.Errorf("buffer not used: %v %v", m.Tensors, err)
	}
}

func TestConnLimits(t *testing.T) {
	noLeaks(t)
	a, b := pipePair(t)
	a.MaxBytes = 16
	big := &Message{Tensors: []coded.Tensor{coded.NewTensor(5)}}
	if err := a.Send(t.Context(), big); !errors.Is(err, ErrFrameSize) {
		t.Fatalf("sending 20 bytes where 16 are allowed: %v", err)
	}
	go a.Send(t.Context(), &Message{Header: Header{Kind: KindPing}}) // checked by what arrives
	wantMessage(t, b, KindPing, "", 0)                               // the refusal has left the stream whole

	a.MaxBytes, b.MaxBytes = 20, 16
	go a.Send(t.Context(), big)
	if err := b.Recv(new(Message)); !errors.Is(err, ErrFrameSize) || !strings.Contains(err.Error(), "receive from pipe") {
		t.Errorf("receiving 20 bytes where 16 are allowed: %v", err)
	}
	if err := b.Recv(new(Message)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after an error inside a message: %v, expected a closed connection", err)
	}
}

func TestConnClosed(t *testing.T) {
	noLeaks(t)
	a, b := securePair(t)
	received := make(chan error, 1)
	go func() { received <- a.Recv(new(Message)) }()
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if err := <-received; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv ended by Close: %v", err)
	}
	if err := a.Send(t.Context(), &Message{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
	select {
	case <-a.Done():
	default:
		t.Error("Done is not closed")
	}
	// The other side notices as well.
	if err := b.Recv(new(Message)); err != io.EOF {
		t.Errorf("the peer's Recv: %v", err)
	}
}

// The peer is there, but takes nothing.
func TestConnSendToFrozenPeer(t *testing.T) {
	big := &Message{Tensors: []coded.Tensor{coded.NewTensor(1 << 20)}}
	cause := errors.New("given up")
	for name, c := range map[string]struct {
		context func() (context.Context, context.CancelFunc)
		after   time.Duration
		want    error
	}{
		"no deadline": {func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }, DefaultStall, errTimeout},
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 3*time.Second)
		}, 3 * time.Second, context.DeadlineExceeded},
		"late deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Hour)
		}, DefaultStall, errTimeout},
		"cancelled": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(context.Background())
			timer := time.AfterFunc(time.Second, func() { cancel(cause) })
			return ctx, func() { timer.Stop() }
		}, time.Second, cause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := pipePair(t)
				start := time.Now()
				ctx, cancel := c.context()
				defer cancel()
				err := a.Send(ctx, big)
				if took := time.Since(start); took != c.after {
					t.Errorf("Send took %v, expected %v", took, c.after)
				}
				var timeout net.Error
				if c.want == errTimeout && !(errors.As(err, &timeout) && timeout.Timeout()) || c.want != errTimeout && !errors.Is(err, c.want) {
					t.Errorf("error %v, expected %v", err, c.want)
				}
				if err := a.Send(context.Background(), big); !errors.Is(err, net.ErrClosed) {
					t.Errorf("half a message was sent, and then: %v", err)
				}
				if err := b.Recv(new(Message)); err == nil {
					t.Error("half a message was received as a whole one")
				}
			})
		})
	}
}

var errTimeout = errors.New("a timeout of the network")

// Contexts that end before a message begins leave the connection alone.
func TestConnSendNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Send(ctx, &Message{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled before: %v", err)
		}
		first := make(chan error, 1)
		go func() { first <- a.Send(context.Background(), &Message{Header: Header{Kind: KindPing}}) }()
		synctest.Wait() // the first Send waits for the reader
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Send(ctx, &Message{Header: Header{Kind: KindBye}}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "turn") {
			t.Fatalf("waiting behind another: %v", err)
		}
		wantMessage(t, b, KindPing, "", 0)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		go a.Send(context.Background(), &Message{Header: Header{Kind: KindPong}})
		wantMessage(t, b, KindPong, "", 0)
	})
}

// A context that ends as its Send does must not cut off the next one.
func TestConnSendsAfterContextsEnd(t *testing.T) {
	noLeaks(t)
	a, b := securePair(t)
	done := make(chan int)
	go func() {
		n := 0
		for b.Recv(new(Message)) == nil {
			n++
		}
		done <- n
	}()
	const rounds = 300
	for i := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		if err := a.Send(ctx, &Message{}); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		go cancel()
	}
	a.Close()
	if n := <-done; n != rounds {
		t.Errorf("%d messages arrived, expected %d", n, rounds)
	}
}

func TestConnRecvWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipePair(t)
		start := time.Now()
		go func() {
			time.Sleep(24 * time.Hour)
			a.Send(context.Background(), &Message{Header: Header{Kind: KindPing}})
		}()
		wantMessage(t, b, KindPing, "", 0) // a quiet peer is no error
		if time.Since(start) != 24*time.Hour {
			t.Error("the day has not passed")
		}
		b.Idle = time.Minute
		start = time.Now()
		if err := b.Recv(new(Message)); !isTimeout(err) || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v, expected a timeout after a minute", time.Since(start), err)
		}
	})
}

// A message that has begun must keep coming: each piece of it gets its time.
func TestConnRecvStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frame := encodeFrame(t, sampleMessage())
		x, y := net.Pipe()
		b := NewConn(y)
		defer b.Close()
		defer x.Close()
		go func() {
			for _, piece := range [][]byte{frame[:4], frame[4:20]} {
				time.Sleep(DefaultStall - time.Second)
				x.Write(piece)
			}
		}()
		start := time.Now()
		err := b.Recv(new(Message))
		if want := 2*(DefaultStall-time.Second) + time.Second; !isTimeout(err) || time.Since(start) != want {
			t.Errorf("after %v: %v, expected a timeout after %v", time.Since(start), err, want)
		}
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
