package dist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultStall is how long each piece of a message (its header, then at most
// 512 KiB) may take to pass before the connection is given up.
const DefaultStall = 30 * time.Second

// Conn carries messages between two nodes, in order. Send may be called by
// many goroutines, Recv by one at a time; Close by anyone.
//
// Every wait has a bound. Send ends with its context, and when the peer does
// not take a piece of the message within Stall. Recv waits without a bound for a message to begin (unless
// Idle says otherwise), since only Close can tell a quiet peer from an absent
// one; a message that has begun must keep coming, or Recv ends after Stall.
// After an error inside a message the connection is closed.
type Conn struct {
	// Alloc gives the memory of the tensors that arrive: a slice of at least n
	// values, whatever they hold. Nil means make. Recv calls it, after the
	// bounds have been checked.
	Alloc func(n int) []float32
	// Stall bounds the wait for each piece of a message, both ways.
	Stall time.Duration
	// Idle, if not zero, bounds Recv's wait for a message to begin.
	Idle time.Duration
	// MaxBytes bounds the tensors of one message, both ways.
	MaxBytes int64
	// These four are set before the first Send or Recv, if at all.

	raw   net.Conn // deadlines and the end are its business
	io    stream
	rd    *frameReader
	quiet bool // Recv waits for a message to begin

	lock    chan struct{} // capacity 1: held by the Send under way
	wr      *frameWriter
	sending context.Context // of the Send under way

	in, out   atomic.Int64
	closeOnce sync.Once
	closed    chan struct{}
	closeErr  error
}

// stream is what frames are written to and read from: segments, or a
// connection as it is. Between hold and release, writes are gathered.
type stream interface {
	io.ReadWriter
	hold()
	release() error
}

// NewConn carries messages over any stream connection as it is: without
// encryption, and without a proof that the peer belongs to the cluster. It is
// meant for tests and networks in memory; Dial and Listen make the others.
func NewConn(c net.Conn) *Conn {
	return newConn(c, newPlainStream(c))
}

// newSealedConn carries messages over segments. Their frames have no checksums
// of their own: the tags of the segments leave nothing for them to find.
func newSealedConn(raw net.Conn, s *sealedStream) *Conn {
	c := newConn(raw, s)
	c.rd.sums.absent, c.wr.sums.absent = true, true
	s.begun = c.messageBegun
	return c
}

func newConn(raw net.Conn, s stream) *Conn {
	c := &Conn{
		Stall:    DefaultStall,
		MaxBytes: DefaultMaxBytes,
		raw:      raw,
		io:       s,
		lock:     make(chan struct{}, 1),
		closed:   make(chan struct{}),
	}
	c.rd = newFrameReader(s, 0)
	c.rd.start = c.beforeMessage
	c.rd.progress = c.beforeRead
	c.wr = newFrameWriter(s, 0)
	c.wr.progress = c.beforeWrite
	return c
}

// Send writes messages, small ones in a single system call. It only reads them, so
// that the same message may be sent to several peers at once; their tensors must
// not change until Send returns. A message that breaks a bound is refused, and
// neither it nor those after it are sent. If the context ends in the middle of a
// message, the connection is closed, since the peer could not find the next one:
// give Send a context that ends when the peer is given up, not when the answer is
// no longer wanted.
func (c *Conn) Send(ctx context.Context, ms ...*Message) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send to %s: %w", c.RemoteAddr(), err)
	}
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		return fmt.Errorf("send to %s: waiting for its turn: %w", c.RemoteAddr(), context.Cause(ctx))
	case <-c.closed:
		return fmt.Errorf("send to %s: %w", c.RemoteAddr(), net.ErrClosed)
	}
	c.wr.limit = c.MaxBytes
	n, refused, err := c.write(ctx, ms)
	c.out.Add(n)
	if err == nil && refused == nil {
		return nil
	}
	if err == nil {
		return fmt.Errorf("send to %s: %w", c.RemoteAddr(), refused)
	}
	if n > 0 {
		c.Close() // half a message is on the wire
	}
	// Not the timeout that the context made, which may come a moment before
	// the context knows that it has ended.
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		err = context.DeadlineExceeded
	}
	return fmt.Errorf("send to %s: %w", c.RemoteAddr(), err)
}

// write writes messages up to the first that is refused.
func (c *Conn) write(ctx context.Context, ms []*Message) (n int64, refused, err error) {
	c.sending = ctx
	if ctx.Done() != nil {
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			c.raw.SetWriteDeadline(aLongTimeAgo)
			close(ended)
		})
		defer func() {
			if !stop() {
				<-ended // it must not cut off the next Send
			}
		}()
	}
	c.io.hold()
	for _, m := range ms {
		if refused = c.wr.prepare(m); refused != nil {
			break
		}
		var sent int64
		sent, err = c.wr.write(m)
		if n += sent; err != nil {
			break
		}
	}
	if err == nil && n > 0 {
		err = c.beforeWrite()
	}
	return n, refused, errors.Join(err, c.io.release())
}

// beforeWrite sets the deadline of the next piece.
func (c *Conn) beforeWrite() error {
	deadline := time.Now().Add(c.Stall)
	if end, ok := c.sending.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	if err := deadlineError(c.raw.SetWriteDeadline(deadline)); err != nil {
		return err
	}
	// What ended before now has had its deadline replaced by this one.
	if err := c.sending.Err(); err != nil {
		return err
	}
	return c.alive()
}

// Recv reads the next message into m, replacing what it held; the tensors'
// memory comes from Alloc, and belongs to the caller. io.EOF means that the
// peer closed the connection between two messages. After any error m.Tensors
// holds what was taken from Alloc, and the connection is closed.
func (c *Conn) Recv(m *Message) error {
	c.rd.limit, c.rd.alloc = c.MaxBytes, c.Alloc
	before := c.rd.read
	err := c.rd.next(m)
	c.in.Add(c.rd.read - before)
	if err == nil {
		return nil
	}
	if c.alive() != nil {
		err = net.ErrClosed
	}
	c.Close()
	if err == io.EOF {
		return io.EOF
	}
	return fmt.Errorf("receive from %s: %w", c.RemoteAddr(), err)
}

func (c *Conn) beforeMessage() error {
	c.quiet = true
	deadline := time.Time{}
	if c.Idle > 0 {
		deadline = time.Now().Add(c.Idle)
	}
	if err := deadlineError(c.raw.SetReadDeadline(deadline)); err != nil {
		return err
	}
	return c.alive()
}

// messageBegun ends the wait without a bound at the first byte of a message,
// whose first frame byte comes only with the whole segment around it.
func (c *Conn) messageBegun() error {
	if !c.quiet {
		return nil // the piece that is read has its deadline
	}
	return c.beforeRead()
}

func (c *Conn) beforeRead() error {
	c.quiet = false
	return deadlineError(c.raw.SetReadDeadline(time.Now().Add(c.Stall)))
}

// deadlineError passes over the refusal of a deadline by a connection that is
// closed: the read or write that follows says so in better words.
func deadlineError(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

func (c *Conn) alive() error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
		return nil
	}
}

// Close ends the connection and every Send and Recv on it, which then give
// net.ErrClosed. It may be called more than once.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() {
		close(c.closed)
		// No farewell is said, which a frozen peer would make wait. Frames have
		// lengths, so that its absence hides nothing.
		c.closeErr = c.raw.Close()
	})
	return c.closeErr
}

// Done is closed when the connection has been closed on this side, by Close or
// by an error.
func (c *Conn) Done() <-chan struct{} { return c.closed }

// RemoteAddr is the address of the peer.
func (c *Conn) RemoteAddr() string { return c.raw.RemoteAddr().String() }

// LocalAddr is the address of this side.
func (c *Conn) LocalAddr() string { return c.raw.LocalAddr().String() }

// BytesIn is the number of bytes of frames that have arrived, without the encryption's.
func (c *Conn) BytesIn() int64 { return c.in.Load() }

// BytesOut is the number of bytes of frames that have been sent, without the encryption's.
func (c *Conn) BytesOut() int64 { return c.out.Load() }
