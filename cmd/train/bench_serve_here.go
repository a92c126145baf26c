package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/internal/alarm"
	"github.com/coda-ml/coda/nn/shard"
)

// guests are workers that live in this process. Each has an encrypted connection of
// its own over loopback and a clock of its own, as a worker process has; what they
// share is the runtime, so that a message wakes no other process.
type guests struct {
	coordinator *dist.Coordinator
	cancel      context.CancelFunc
	serving     sync.WaitGroup

	mu       sync.Mutex
	problems []error
}

// startGuests starts workers and connects them. They must be closed, also after an
// error.
func startGuests(ctx context.Context, o clusterOptions) (*guests, error) {
	g := &guests{}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g.cancel = cancel
	o.config.Log = silent
	var err error
	if g.coordinator, err = dist.NewCoordinator(o.config); err != nil {
		return g, err
	}
	wire := dist.Wire{Key: dist.NewKey()}
	ctx, stop := context.WithTimeoutCause(ctx, o.patience, fmt.Errorf("not within %s", o.patience))
	defer stop()
	for w := 1; w <= o.workers; w++ {
		if err := g.add(ctx, serving, wire, o, w); err != nil {
			return g, fmt.Errorf("%s: %w", workerName(w), err)
		}
	}
	return g, nil
}

// add starts worker w, from 1, which serves until the second context ends.
func (g *guests) add(ctx, serving context.Context, wire dist.Wire, o clusterOptions, w int) error {
	faults := workerFaults{Seed: o.seed + uint64(w)}
	for _, f := range o.faults {
		if f.what == "slow" && f.hits(w) {
			faults.Slow = f.slow
		}
	}
	behaviour, err := newMisbehaviour(faults)
	if err != nil {
		return err
	}
	clock, err := alarm.New()
	if err != nil {
		return err
	}
	listener, err := wire.Listen(ctx, o.bind)
	if err != nil {
		return errors.Join(err, clock.Close())
	}
	worker, err := dist.NewWorker(dist.WorkerConfig{
		Name: workerName(w), Handlers: shard.Factories(), Pace: o.pace, Alarm: clock, Slow: behaviour.slowness, Log: silent,
	})
	if err != nil {
		return errors.Join(err, listener.Close(), clock.Close())
	}
	g.serving.Go(func() { g.note(errors.Join(worker.Serve(serving, listener), listener.Close(), clock.Close())) })
	conn, err := wire.Dial(ctx, listener.Addr())
	if err != nil {
		return err
	}
	_, err = g.coordinator.AddWorker(ctx, conn)
	return err
}

func (g *guests) note(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = append(g.problems, err)
}

// close ends the coordinator and the workers, and returns what went wrong.
func (g *guests) close() error {
	var err error
	if g.coordinator != nil {
		err = g.coordinator.Close()
	}
	g.cancel()
	g.serving.Wait()
	return errors.Join(append(g.problems, err)...)
}
