package dist

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// listenTest listens with a key and tells the refusals.
func listenTest(t *testing.T, w Wire) (*Listener, chan error) {
	t.Helper()
	refused := make(chan error, 1024)
	w.OnRefuse = func(err error) { refused <- err }
	l, err := w.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, refused
}

// honest checks that a peer with the key gets through.
func honest(t *testing.T, l *Listener, key Key) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client, err := Dial(ctx, l.Addr(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if server.RemoteAddr() != client.LocalAddr() {
		t.Fatalf("accepted %s, expected %s: a stranger got through", server.RemoteAddr(), client.LocalAddr())
	}
	if err := client.Send(ctx, &Message{Header: Header{Kind: KindPing}}); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, server, KindPing, "", 0)
}

func dialRaw(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialTLS speaks TLS as the clients do, and nothing more.
func dialTLS(t *testing.T, l *Listener, change func(*tls.Config)) (*tls.Conn, error) {
	t.Helper()
	config := clientConfig()
	if change != nil {
		change(config)
	}
	c := tls.Client(dialRaw(t, l), config)
	return c, c.Handshake()
}

func TestWrongKeyOnBothSides(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, refused := listenTest(t, Wire{Key: key})
	for name, other := range map[string]Key{"another key": NewKey(), "no key": {}} {
		_, err := Dial(t.Context(), l.Addr(), other)
		var peer *PeerError
		if !errors.Is(err, ErrWrongKey) || !errors.As(err, &peer) || peer.Addr != l.Addr() {
			t.Errorf("%s: the client's error is %v, expected ErrWrongKey of %s", name, err, l.Addr())
		}
		if err := <-refused; !errors.Is(err, ErrWrongKey) || !strings.Contains(err.Error(), "127.0.0.1:") {
			t.Errorf("%s: the server's error is %v", name, err)
		}
	}
	honest(t, l, key)
	if l.Refused() != 2 {
		t.Errorf("%d refused, expected 2", l.Refused())
	}
}

// Strangers of every kind are refused, with a reason, and nobody else notices.
func TestStrangersAreRefused(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	frame := encodeFrame(t, sampleMessage())
	for name, c := range map[string]struct {
		attack func(t *testing.T, l *Listener)
		want   string
	}{
		"random bytes": {func(t *testing.T, l *Listener) { dialRaw(t, l).Write(bytes.Repeat([]byte{0xa5, 0x13}, 5000)) }, "TLS handshake"},
		"HTTP":         {func(t *testing.T, l *Listener) { dialRaw(t, l).Write([]byte("GET / HTTP/1.1\r\n\r\n")) }, "TLS handshake"},
		"a bare frame": {func(t *testing.T, l *Listener) { dialRaw(t, l).Write(frame) }, "TLS handshake"},
		"oversized TLS record": {func(t *testing.T, l *Listener) {
			dialRaw(t, l).Write(append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 1<<16)...))
		}, "TLS handshake"},
		"hangs up":   {func(t *testing.T, l *Listener) { dialRaw(t, l).Close() }, "EOF"},
		"silence":    {func(t *testing.T, l *Listener) { dialRaw(t, l) }, "no proof of the cluster key in time"},
		"slow loris": {func(t *testing.T, l *Listener) { dialRaw(t, l).Write([]byte{22, 3, 1}) }, "no proof of the cluster key in time"},
		"old TLS": {func(t *testing.T, l *Listener) {
			dialTLS(t, l, func(c *tls.Config) { c.MinVersion, c.MaxVersion = 0, tls.VersionTLS12 })
		}, "version"},
		"other ALPN":  {func(t *testing.T, l *Listener) { dialTLS(t, l, func(c *tls.Config) { c.NextProtos = []string{"h2"} }) }, "protocol"},
		"no ALPN":     {func(t *testing.T, l *Listener) { dialTLS(t, l, func(c *tls.Config) { c.NextProtos = nil }) }, `protocol ""`},
		"no proof":    {func(t *testing.T, l *Listener) { dialTLS(t, l, nil) }, "no proof of the cluster key in time"},
		"half proof":  {func(t *testing.T, l *Listener) { writeTLS(t, l, make([]byte, proofSize/2)) }, "no proof of the cluster key in time"},
		"zeros":       {func(t *testing.T, l *Listener) { writeTLS(t, l, make([]byte, proofSize)) }, ErrWrongKey.Error()},
		"frame first": {func(t *testing.T, l *Listener) { writeTLS(t, l, frame) }, ErrWrongKey.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // several have to wait for their time to be over
			l, refused := listenTest(t, Wire{Key: key, HandshakeTimeout: time.Second})
			c.attack(t, l)
			if err := <-refused; !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused for %v, expected %q in it", err, c.want)
			}
			honest(t, l, key)
		})
	}
}

func writeTLS(t *testing.T, l *Listener, b []byte) {
	t.Helper()
	c, err := dialTLS(t, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// What an honest client once sent is worth nothing in another connection.
func TestRecordedHandshakeReplayed(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, refused := listenTest(t, Wire{Key: key, HandshakeTimeout: time.Second})
	tap := &recorder{Conn: dialRaw(t, l)}
	client, err := secure(t.Context(), tap, key, roleClient)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Send(t.Context(), sampleMessage()); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantMessage(t, server, KindResult, "fc1", 2)
	server.Close()
	client.Close()

	if _, err := dialRaw(t, l).Write(tap.sent.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("the replay was refused for %v", err)
	}
	honest(t, l, key)
}

type recorder struct {
	net.Conn
	sent bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.sent.Write(p)
	return r.Conn.Write(p)
}

// A man in the middle, who ends TLS on both sides and passes all bytes on, has
// two handshakes: the proof of the one is none in the other.
func TestManInTheMiddle(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, refused := listenTest(t, Wire{Key: key})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		config, _ := serverConfig()
		victim := tls.Server(c, config)
		server, err := dialTLS(t, l, nil)
		if err != nil {
			return
		}
		wg.Go(func() { io.Copy(server, victim); server.Close() })
		io.Copy(victim, server)
		victim.Close()
	})
	if _, err := Dial(t.Context(), ln.Addr().String(), key); !errors.Is(err, ErrWrongKey) {
		t.Errorf("the client: %v, expected ErrWrongKey", err)
	}
	if err := <-refused; !errors.Is(err, ErrWrongKey) {
		t.Errorf("the server: %v, expected ErrWrongKey", err)
	}
}

// A server without the key that sends the client's own proof back.
func TestReflectedProof(t *testing.T) {
	noLeaks(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		config, _ := serverConfig()
		mirror := tls.Server(c, config)
		io.Copy(mirror, mirror)
		mirror.Close()
	})
	if _, err := Dial(t.Context(), ln.Addr().String(), NewKey()); !errors.Is(err, ErrWrongKey) {
		t.Errorf("error %v, expected ErrWrongKey", err)
	}
}

// A crowd that says nothing takes all places: whoever knows the key comes
// through all the same, long before the crowd's time is over.
func TestCrowdOfSilentPeers(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, _ := listenTest(t, Wire{Key: key, HandshakeTimeout: time.Minute, MaxHandshakes: 8})
	for range 12 {
		dialRaw(t, l)
	}
	honest(t, l, key)
	if n := len(l.entry.slots); n > 8 {
		t.Errorf("%d connections are waited for, at most 8 allowed", n)
	}
}

func TestDialWithoutAnswer(t *testing.T) {
	noLeaks(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody speaks
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_, err = Wire{Key: NewKey(), HandshakeTimeout: 50 * time.Millisecond}.Dial(t.Context(), addr)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), addr) {
		t.Errorf("a silent server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = Dial(ctx, addr, NewKey()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context with less time: %v", err)
	}
	ln.Close()
	if _, err = Dial(t.Context(), addr, NewKey()); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), addr) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestListen(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, _ := listenTest(t, Wire{Key: key})
	if _, err := Listen(t.Context(), l.Addr(), key); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), l.Addr()) {
		t.Errorf("a busy port: %v", err)
	}
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		if _, err := Listen(t.Context(), addr, Key{}); !errors.Is(err, ErrKeyRequired) {
			t.Errorf("%s without a key: %v, expected ErrKeyRequired", addr, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Accept with an ended context: %v", err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(context.Background())
		accepted <- err
	}()
	client, err := Dial(t.Context(), l.Addr(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := l.Accept(context.Background())
		accepted <- err
	}()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ended by Close: %v", err)
	}
}

// A connection that has proved the key, but that nobody accepts, is closed
// with the listener.
func TestListenerClosesWhatNobodyTook(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, _ := listenTest(t, Wire{Key: key})
	client, err := Dial(t.Context(), l.Addr(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l.Close()
	if err := client.Recv(new(Message)); err == nil {
		t.Error("the connection is still open")
	}
}

func TestLoopbackNeedsNoKey(t *testing.T) {
	noLeaks(t)
	l, _ := listenTest(t, Wire{})
	honest(t, l, Key{})
}
