package dist

import (
	"context"
	"net"
	"sync"
	"time"
)

// Cut lies between the sockets of a process and everybody else, and can make
// them a black hole for a time, for tests of partitions: nothing arrives and
// nothing is sent, in neither direction, and nobody is told. The connections
// last; what was held up passes when the cut has healed, unless somebody has
// lost patience. What the kernel does by itself goes on: it acknowledges bytes
// and takes connections that then stay silent, and what it had been given to
// send before the cut may still arrive.
//
// The zero value is a network that works. A Cut is safe for concurrent use; it
// is given to a Wire and to a MembershipConfig.
type Cut struct {
	mu      sync.Mutex
	turn    int           // of Begin; a timer of an earlier one does nothing
	healed  chan struct{} // closed when the cut under way is over; nil: none is
	closing []net.Conn    // closed here, which the peers hear of when it is over
}

// Begin cuts the network off for a time from now on, in place of what is left
// of an earlier cut. 0 heals it.
func (c *Cut) Begin(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	if d <= 0 {
		c.heal()
		return
	}
	if c.healed == nil {
		c.healed = make(chan struct{})
	}
	turn := c.turn
	time.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.turn == turn {
			c.heal()
		}
	})
}

// heal needs mu.
func (c *Cut) heal() {
	if c.healed == nil {
		return
	}
	close(c.healed)
	c.healed = nil
	for _, conn := range c.closing {
		_ = conn.Close() // whoever closed it has gone on
	}
	c.closing = nil
}

// over returns what is closed at the end of the cut under way, nil if there is
// none; so does a nil Cut.
func (c *Cut) over() <-chan struct{} {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.healed
}

// await waits until the network works.
func (c *Cut) await(ctx context.Context) error {
	for over := c.over(); over != nil; over = c.over() {
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// close closes a connection, when the network works.
func (c *Cut) close(conn net.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.healed == nil {
		return conn.Close()
	}
	c.closing = append(c.closing, conn)
	return conn.SetDeadline(aLongTimeAgo) // so that nothing waits for it here
}

// conn puts the cut between a connection and its user. A nil Cut is no cut.
func (c *Cut) conn(conn net.Conn) net.Conn {
	if c == nil {
		return conn
	}
	return &cutConn{
		Conn: conn, cut: c, closed: make(chan struct{}),
		read: cutDeadline{moved: make(chan struct{})}, write: cutDeadline{moved: make(chan struct{})},
	}
}

// listener puts the cut between a listener's connections and their users.
func (c *Cut) listener(ln net.Listener) net.Listener {
	if c == nil {
		return ln
	}
	return cutListener{ln, c}
}

type cutListener struct {
	net.Listener
	cut *Cut
}

func (l cutListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.cut.conn(c), nil
}
