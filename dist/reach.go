package dist

import (
	"context"
	"errors"
	"fmt"
)

// ErrElsewhere says that an advertised address belongs to another node.
var ErrElsewhere = errors.New("another node answers there, or addresses are translated on the way")

// Reach connects once to the address that others are told, and proves the key to
// whoever answers. The error names the address and what is in the way: nobody
// listens there, nobody answers, a stranger or another node does. Accept sees
// nothing of it. It takes at most the time of two handshakes.
//
// Only the way from this machine to itself is tried. So an error is worth a
// warning, and success is no promise: others may come by another way.
func (l *Listener) Reach(ctx context.Context, addr string) error {
	if err := l.reach(ctx, addr); err != nil {
		return fmt.Errorf("advertised address %s: %w", addr, err)
	}
	return nil
}

func (l *Listener) reach(ctx context.Context, addr string) error {
	w := l.wire
	ctx, cancel := context.WithTimeoutCause(ctx, w.HandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	c, err := w.connect(ctx, addr)
	if err != nil {
		return err
	}
	own := c.LocalAddr().String()
	l.own.Store(own, true)
	defer l.own.Delete(own)
	conn, err := secure(ctx, c, w.Key, roleClient)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.Idle = w.HandshakeTimeout
	// If it is this listener, it strikes the address off and hangs up.
	err = conn.Recv(new(Message))
	if _, there := l.own.Load(own); there {
		return fmt.Errorf("%w (%w)", ErrElsewhere, err)
	}
	return nil
}
