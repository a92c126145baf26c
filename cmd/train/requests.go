package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coda-ml/coda/dist"
)

// requests come by a Poisson process to slots, each of which serves one at a time.
type requests[S any] struct {
	slots []S
	rate  float64 // a second; 0: each comes when a slot is free
	n     int
	seed  uint64
	clock dist.Alarm // rings when they come
}

// warmUpRequests do not count: buffers are made, decode weights computed.
const warmUpRequests = 20

// serve makes the requests and returns how long each took, in seconds, from its
// arrival until do had served it, waiting for a slot included. The first error ends
// it. do is called on several goroutines, with one slot each.
func (r requests[S]) serve(ctx context.Context, do func(ctx context.Context, slot S, i int) error) ([]float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	free := make(chan S, len(r.slots)) // a slot is sent only after it was received
	for _, s := range r.slots {
		free <- s
	}
	times := make([]float64, warmUpRequests+r.n)
	var under sync.WaitGroup
	rng := rand.New(rand.NewPCG(r.seed, 6))
	next := time.Now()
	for i := range times {
		if r.rate > 0 {
			next = next.Add(time.Duration(rng.ExpFloat64() / r.rate * float64(time.Second)))
		}
		arrival := next
		slot, ok := r.admit(ctx, arrival, free)
		if !ok {
			break
		}
		if r.rate == 0 {
			arrival = time.Now()
		}
		under.Go(func() {
			if err := do(ctx, slot, i); err != nil {
				cancel(err)
			}
			times[i] = time.Since(arrival).Seconds()
			free <- slot
		})
	}
	under.Wait()
	return times[warmUpRequests:], context.Cause(ctx)
}

// admit waits for a request's arrival and for a slot.
func (r requests[S]) admit(ctx context.Context, arrival time.Time, free <-chan S) (slot S, ok bool) {
	for r.clock.Set(arrival); time.Now().Before(arrival); {
		select {
		case <-r.clock.C():
		case <-ctx.Done():
			return slot, false
		}
	}
	select {
	case slot = <-free:
		return slot, true
	case <-ctx.Done():
		return slot, false
	}
}
