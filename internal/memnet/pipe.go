package memnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is what one direction of a stream holds: a few frames of control
// messages, so that a writer need not wait for the reader to wake.
const pipeBuffer = 32 << 10

// Pipe returns the two ends of a stream, with the addresses of both.
func Pipe(a, b net.Addr) (net.Conn, net.Conn) {
	there, back := newHalf(), newHalf()
	return &end{in: back, out: there, local: a, remote: b}, &end{in: there, out: back, local: b, remote: a}
}

// half is one direction of a stream.
type half struct {
	data, room chan struct{} // capacity 1: look again for bytes, for room

	mu              sync.Mutex
	ring            []byte // nil until the first byte
	at, n           int    // where the bytes begin, and how many there are
	over            bool   // the writer has closed: what is there may still be read
	gone            bool   // the reader has closed
	readBy, writeBy time.Time
}

func newHalf() *half { return &half{data: make(chan struct{}, 1), room: make(chan struct{}, 1)} }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait returns when c is signalled or the deadline, if there is one, has come.
func wait(c <-chan struct{}, deadline time.Time) {
	if deadline.IsZero() {
		<-c
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
	}
}

func late(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// read takes what is there, at least a byte if p has room for one.
func (h *half) read(p []byte) (int, error) {
	for {
		n, err, deadline := h.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		wait(h.data, deadline)
	}
}

func (h *half) take(p []byte) (n int, err error, deadline time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.gone:
		err = io.ErrClosedPipe
	case late(h.readBy):
		err = os.ErrDeadlineExceeded
	case h.n == 0 && h.over:
		err = io.EOF
	}
	if err != nil {
		signal(h.data) // for others that wait
		return 0, err, h.readBy
	}
	n = copy(p, h.ring[h.at:min(h.at+h.n, len(h.ring))])
	n += copy(p[n:], h.ring[:max(0, h.at+h.n-len(h.ring))])
	if n > 0 {
		h.at, h.n = (h.at+n)%len(h.ring), h.n-n
		signal(h.room)
	}
	if h.n > 0 {
		signal(h.data)
	}
	return n, nil, h.readBy
}

// write puts all of p, waiting for room.
func (h *half) write(p []byte) (written int, err error) {
	for {
		n, err, deadline := h.put(p[written:])
		written += n
		if written == len(p) || err != nil {
			return written, err
		}
		wait(h.room, deadline)
	}
}

func (h *half) put(p []byte) (n int, err error, deadline time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over, h.gone:
		err = io.ErrClosedPipe
	case late(h.writeBy):
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		signal(h.room)
		return 0, err, h.writeBy
	}
	if h.ring == nil {
		h.ring = make([]byte, pipeBuffer)
	}
	size := len(h.ring)
	for n < len(p) && h.n < size {
		from := (h.at + h.n) % size
		c := copy(h.ring[from:min(size, from+size-h.n)], p[n:])
		n, h.n = n+c, h.n+c
	}
	if n > 0 {
		signal(h.data)
	}
	if h.n < size {
		signal(h.room)
	}
	return n, nil, h.writeBy
}

// change changes something that those who wait must see.
func (h *half) change(what func()) {
	h.mu.Lock()
	what()
	h.mu.Unlock()
	signal(h.data)
	signal(h.room)
}

// end is one end of a stream.
type end struct {
	in, out       *half
	local, remote net.Addr
}

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }
func (e *end) LocalAddr() net.Addr         { return e.local }
func (e *end) RemoteAddr() net.Addr        { return e.remote }

// Close ends both directions; the other end reads what was written before.
func (e *end) Close() error {
	e.out.change(func() { e.out.over = true })
	e.in.change(func() { e.in.gone = true })
	return nil
}

func (e *end) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.mu.Lock()
	defer e.in.mu.Unlock()
	if e.in.gone {
		return io.ErrClosedPipe
	}
	e.in.readBy = t
	signal(e.in.data)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.out.mu.Lock()
	defer e.out.mu.Unlock()
	if e.out.over {
		return io.ErrClosedPipe
	}
	e.out.writeBy = t
	signal(e.out.room)
	return nil
}
