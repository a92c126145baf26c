package dist

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Roster says who belongs to the cluster, as far as is known; *Membership is
// one.
type Roster interface {
	Members() []Member
	// Subscribe gives a channel that receives after Members has changed.
	Subscribe() (changes <-chan struct{}, stop func())
}

// Attach takes every worker of a roster into the cluster, and takes it back as
// long as it is on the roster and can be reached. It returns when the context
// ends, the roster's notices end or the coordinator is closed. A worker that is
// no longer on the roster, but whose connection works, stays.
func (c *Coordinator) Attach(ctx context.Context, roster Roster, dial func(ctx context.Context, addr string) (*Conn, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	changes, stop := roster.Subscribe()
	defer stop()
	tended := map[string]context.CancelFunc{} // by member ID
	var links sync.Map                        // by member ID: the channel that tells the end of its line
	for {
		present := map[string]bool{}
		for _, m := range roster.Members() {
			if m.Role != RoleWorker || m.Addr == "" || m.Draining {
				continue
			}
			present[m.ID] = true
			if tended[m.ID] == nil {
				memberCtx, end := context.WithCancel(ctx)
				tended[m.ID] = end
				wg.Go(func() { c.tend(memberCtx, m, dial, &links) })
			}
		}
		for id, end := range tended {
			if !present[id] {
				end()
				delete(tended, id)
			}
		}
		links.Range(func(id, gone any) bool {
			select {
			case <-gone.(<-chan struct{}):
				links.Delete(id)
			default:
			}
			return true
		})
		select {
		case _, open := <-changes:
			if !open {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
}

// tend keeps a worker connected until the context ends. Gossip is a hint: when
// the context ends the connection stays in links, where it is found when the
// member is on the roster again.
func (c *Coordinator) tend(ctx context.Context, m Member, dial func(ctx context.Context, addr string) (*Conn, error), links *sync.Map) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 100 * time.Millisecond
	pause.MaxInterval = 2 * time.Second // a partition that has healed must not be waited out for long
	for {
		link, connected := links.Load(m.ID)
		if !connected {
			gone, err := c.invite(ctx, m.Addr, dial)
			switch {
			case err == nil:
				link, connected = gone, true
				links.Store(m.ID, gone)
			case errors.Is(err, ErrClosed):
				return
			case ctx.Err() == nil:
				c.cfg.Log.Warn("worker not connected", "worker", m.Name, "err", err)
				c.mu.Lock()
				c.refused = err
				c.mu.Unlock()
			}
		}
		if connected {
			begin := time.Now()
			select {
			case <-link.(<-chan struct{}):
				links.Delete(m.ID)
			case <-ctx.Done():
				return
			}
			if time.Since(begin) > pause.MaxInterval {
				pause.Reset()
			}
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// invite dials a worker and takes it in.
func (c *Coordinator) invite(ctx context.Context, addr string, dial func(ctx context.Context, addr string) (*Conn, error)) (gone <-chan struct{}, err error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return c.AddWorker(ctx, conn)
}
