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
				wg.Go(func() { c.tend(memberCtx, m, dial) })
			}
		}
		for id, end := range tended {
			if !present[id] {
				end()
				delete(tended, id)
			}
		}
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

// tend keeps a worker connected until the context ends.
func (c *Coordinator) tend(ctx context.Context, m Member, dial func(ctx context.Context, addr string) (*Conn, error)) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 100 * time.Millisecond
	pause.MaxInterval = 5 * time.Second
	for {
		conn, err := dial(ctx, m.Addr)
		var gone <-chan struct{}
		if err == nil {
			gone, err = c.AddWorker(ctx, conn)
		}
		if errors.Is(err, ErrClosed) {
			return
		}
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.Warn("worker not connected", "worker", m.Name, "err", err)
		}
		if err == nil {
			begin := time.Now()
			select {
			case <-gone:
			case <-ctx.Done():
				return // gossip is a hint: the connection stays
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
