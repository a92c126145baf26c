package dist

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// cutConn is a connection with a Cut before it. Its deadlines hold during a cut
// too.
type cutConn struct {
	net.Conn
	cut         *Cut
	read, write cutDeadline
	closed      chan struct{}
	once        sync.Once

	// What the socket gave to a Read that a cut overtook. One goroutine reads.
	held    []byte
	heldErr error
}

func (c *cutConn) Read(p []byte) (int, error) {
	for {
		if err := c.pass(&c.read); err != nil {
			return 0, err
		}
		if len(c.held) > 0 || c.heldErr != nil {
			n := copy(p, c.held)
			if c.held = c.held[n:]; len(c.held) > 0 {
				return n, nil
			}
			err := c.heldErr
			c.heldErr = nil
			return n, err
		}
		n, err := c.Conn.Read(p)
		if c.cut.over() == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return n, c.why(err)
		}
		c.held, c.heldErr = append(c.held[:0], p[:n]...), err
	}
}

func (c *cutConn) Write(p []byte) (int, error) {
	if err := c.pass(&c.write); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	return n, c.why(err)
}

// pass waits until the network works, or fails as a connection does.
func (c *cutConn) pass(d *cutDeadline) error {
	for over := c.cut.over(); over != nil; over = c.cut.over() {
		if err := c.wait(d, over); err != nil {
			return err
		}
	}
	return c.alive()
}

// wait waits for the end of a cut, or until there is reason to look again.
func (c *cutConn) wait(d *cutDeadline, over <-chan struct{}) error {
	at, moved := d.get()
	var expired <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-over:
	case <-moved:
	case <-expired:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
	return nil
}

func (c *cutConn) alive() error {
	select {
	case <-c.closed:
		return net.ErrClosed
	default:
		return nil
	}
}

// why tells a connection that was closed during a cut, which ends by a deadline,
// from one that has missed a deadline.
func (c *cutConn) why(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && c.alive() != nil {
		return net.ErrClosed
	}
	return err
}

// Close ends what waits here at once; the peer hears of it when the network works.
func (c *cutConn) Close() (err error) {
	err = net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		err = c.cut.close(c.Conn)
	})
	return err
}

func (c *cutConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *cutConn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *cutConn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// cutDeadline is a deadline that can be moved while somebody waits for it.
type cutDeadline struct {
	mu    sync.Mutex
	at    time.Time     // zero: none
	moved chan struct{} // closed and replaced by set
}

func (l *cutDeadline) set(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = at
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *cutDeadline) get() (time.Time, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, l.moved
}
