package dist

import (
	"context"
	"fmt"
	"time"
)

// nameGrace is how long a worker has to show that it is alive when another one
// comes with its name.
const nameGrace = 2 * time.Second

// named returns the connected worker of a name, nil if there is none.
func (c *Coordinator) named(host string) *line {
	for l := range c.lines() {
		if l.host == host {
			return l
		}
	}
	return nil
}

// where returns the address that tells workers of one name apart.
func (l *line) where() string {
	if l.addr != "" {
		return l.addr
	}
	return l.conn.RemoteAddr()
}

// checkName refuses a worker whose name belongs to another one that is alive.
// A worker that has noticed the end of its connection first, or that was started
// again elsewhere while the coordinator still waits for its frozen predecessor,
// is not refused: it replaces the old connection.
func (c *Coordinator) checkName(ctx context.Context, l *line) error {
	c.mu.Lock()
	old := c.named(l.host)
	if old == nil || old.where() == l.where() {
		c.mu.Unlock()
		return nil
	}
	pongs := old.pongs
	old.say(&Message{Header: Header{Kind: KindPing}})
	c.mu.Unlock()

	grace, cancel := context.WithTimeout(ctx, nameGrace)
	defer cancel()
	alive := false
	err := c.await(grace, func() bool {
		alive = old.pongs > pongs && !old.gone
		return alive || old.gone
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil || !alive {
		return nil // who is silent makes way
	}
	err = fmt.Errorf("name %s belongs to the worker at %s; this one is at %s", l.host, old.where(), l.where())
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.doubles[l.host] {
		c.doubles[l.host] = true
		c.report(l.seats[0], StateFailed, err.Error())
	}
	return err
}
