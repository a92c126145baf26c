package dist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Wire makes the connections of the data plane. The zero value has no key and
// works on loopback only.
type Wire struct {
	Key Key
	// HandshakeTimeout bounds TLS handshake and key proofs of a connection, on
	// both sides. Zero means 5 seconds.
	HandshakeTimeout time.Duration
	// MaxHandshakes bounds the connections of a Listener that have not proved
	// the key yet. Zero means 256.
	MaxHandshakes int
	// OnRefuse, if not nil, hears of every peer that a Listener refused; the
	// error is a *PeerError. It is called by several goroutines at a time and
	// must not block.
	OnRefuse func(error)
	// Cut, if not nil, can silence the connections, for tests.
	Cut *Cut
}

const (
	defaultHandshake     = 5 * time.Second
	defaultMaxHandshakes = 256
	handshakeGrace       = 500 * time.Millisecond
)

// silence is how long the machine at the other end of a connection may be gone
// before the connection is. A process that is stopped is not gone: its kernel answers.
const silence = 12 * time.Second

// keepAlive finds out within that time on a quiet connection, so that no Recv
// waits for a machine that is gone; boundSilence on one that is sending.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2}

func (w Wire) withDefaults() Wire {
	if w.HandshakeTimeout <= 0 {
		w.HandshakeTimeout = defaultHandshake
	}
	if w.MaxHandshakes <= 0 {
		w.MaxHandshakes = defaultMaxHandshakes
	}
	return w
}

var errHandshakeTimeout = fmt.Errorf("no proof of the cluster key in time: %w", context.DeadlineExceeded)

// Listen is Wire.Listen with the defaults.
func Listen(ctx context.Context, addr string, key Key) (*Listener, error) {
	return Wire{Key: key}.Listen(ctx, addr)
}

// Dial is Wire.Dial with the defaults.
func Dial(ctx context.Context, addr string, key Key) (*Conn, error) {
	return Wire{Key: key}.Dial(ctx, addr)
}

// Dial connects to a Listener of the same cluster. Its error names the address;
// errors.Is(err, ErrWrongKey) tells that somebody else's cluster answered.
func (w Wire) Dial(ctx context.Context, addr string) (*Conn, error) {
	w = w.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, w.HandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	c, err := w.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	return secure(ctx, c, w.Key, roleClient)
}

// connect makes a connection without any proof yet.
func (w Wire) connect(ctx context.Context, addr string) (net.Conn, error) {
	if err := w.Cut.await(ctx); err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: boundSilence}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	if w.Key.IsZero() && !isLoopback(c.RemoteAddr()) {
		c.Close()
		return nil, fmt.Errorf("dial %s: %w", addr, ErrKeyRequired)
	}
	return w.Cut.conn(c), nil
}

// Listener accepts connections from nodes that hold the cluster key. Others
// are refused behind the scenes: they never delay or end Accept.
type Listener struct {
	wire    Wire
	ln      net.Listener
	entry   *admission
	ready   chan *Conn // unbuffered; never closed
	refused atomic.Int64
	own     sync.Map // addresses that Reach comes from

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the accepting loop and the handshakes
}

// Listen listens on a TCP address; port 0 takes a free one. The context is for
// looking up the address only. A busy port gives an error that names the
// address and is syscall.EADDRINUSE.
func (w Wire) Listen(ctx context.Context, addr string) (*Listener, error) {
	w = w.withDefaults()
	if _, err := serverCert(); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: boundSilence}
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	if w.Key.IsZero() && !isLoopback(ln.Addr()) {
		ln.Close()
		return nil, fmt.Errorf("listen on %s: %w", addr, ErrKeyRequired)
	}
	l := &Listener{
		wire:  w,
		ln:    w.Cut.listener(ln),
		entry: newAdmission(w.MaxHandshakes, min(handshakeGrace, w.HandshakeTimeout)),
		ready: make(chan *Conn),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.serve)
	return l, nil
}

// Accept waits for the next connection that has proved the key. It ends with
// the context, or with net.ErrClosed after Close.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("accept on %s: %w", l.Addr(), context.Cause(ctx))
	case <-l.ctx.Done():
		return nil, fmt.Errorf("accept on %s: %w", l.Addr(), net.ErrClosed)
	}
}

// Addr is the address listened on, with the port that was taken.
func (l *Listener) Addr() string { return l.ln.Addr().String() }

// Refused is the number of peers that were refused so far.
func (l *Listener) Refused() int64 { return l.refused.Load() }

// Close ends listening and the handshakes under way, and waits for them.
// Connections that Accept gave out stay. It may be called more than once.
func (l *Listener) Close() error {
	l.cancel()
	err := l.ln.Close()
	l.entry.stop()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (l *Listener) serve() {
	acceptAll(l.ctx, l.ln, func(c net.Conn) {
		if e := l.entry.enter(c); e != nil {
			l.wg.Go(func() { l.greet(e) })
		}
	})
}

// greet secures one connection and hands it to Accept.
func (l *Listener) greet(e *entrant) {
	defer l.entry.leave(e)
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.wire.HandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	conn, err := secure(ctx, e.conn, l.wire.Key, roleServer)
	if err != nil {
		if l.ctx.Err() == nil {
			l.refused.Add(1)
			if l.wire.OnRefuse != nil {
				l.wire.OnRefuse(err)
			}
		}
		return
	}
	l.entry.passed(e)
	if _, own := l.own.LoadAndDelete(conn.RemoteAddr()); own {
		conn.Close()
		return
	}
	select {
	case l.ready <- conn:
	case <-l.ctx.Done():
		conn.Close()
	}
}

// acceptAll passes the connections of ln on until ctx ends. Errors of single
// connections, and a lack of file descriptors, pass: it waits and goes on.
func acceptAll(ctx context.Context, ln net.Listener, pass func(net.Conn)) {
	const most = time.Second
	delay := 5 * time.Millisecond
	for {
		c, err := ln.Accept()
		if err == nil {
			delay = 5 * time.Millisecond
			pass(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case <-time.After(delay):
			delay = min(2*delay, most)
		case <-ctx.Done():
			return
		}
	}
}
