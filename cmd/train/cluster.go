package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/dist"
)

// joinTime bounds how long workers are waited for before the first step.
const joinTime = 30 * time.Second

// cluster is the coordinator's side of a run: its membership, the workers that
// it started here, and the faults that are injected into them.
type cluster struct {
	flags       *runFlags
	keyDir      string // temporary folder of the run's own key
	keyFile     string
	key         dist.Key
	members     *dist.Membership
	coordinator *dist.Coordinator
	workers     *localWorkers
	faults      []fault
	thaws       []*time.Timer
	emit        func(any) error
	low         atomic.Bool // no spare worker is left: write a checkpoint
	record      io.Closer
	failure     atomic.Pointer[error] // of reporting an event

	used []int // slots whose results were used in the step under way
}

// joinCluster starts the gossip of this process.
func (r *run) joinCluster(ctx context.Context) (err error) {
	c := &cluster{flags: r.runFlags}
	r.cluster = c
	if err := c.prepareKey(); err != nil {
		return err
	}
	c.members, err = dist.Join(ctx, dist.MembershipConfig{
		Name: "coordinator", Role: dist.RoleCoordinator, Bind: r.Bind, Advertise: r.Advertise,
		Seeds: r.Join, Key: c.key, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("--bind %s: %w", r.Bind, err)
	}
	return nil
}

// prepareKey reads the cluster's key. A run that only has workers of its own
// makes one for itself, in a folder that only its user can read.
func (c *cluster) prepareKey() (err error) {
	if c.flags.Key != "" {
		c.keyFile = c.flags.Key
		c.key, err = dist.LoadKey(c.keyFile)
		if err != nil {
			return fmt.Errorf("--key: %w", err)
		}
		return nil
	}
	if len(c.flags.Join) > 0 && c.flags.Workers == 0 {
		return nil // on loopback a key is not required
	}
	if c.keyDir, err = os.MkdirTemp("", "coda-key-"); err != nil {
		return fmt.Errorf("cluster key: %w", err)
	}
	c.key = dist.NewKey()
	c.keyFile = filepath.Join(c.keyDir, "key")
	return c.key.WriteKeyFile(c.keyFile)
}

// start makes the coordinator, starts the local workers, waits for enough of
// them, and hands the coordinator to the placed layers.
func (c *cluster) start(ctx context.Context, r *run) (err error) {
	c.emit = r.events.emit
	if c.faults, err = parseFaults(r.Inject, r.Workers); err != nil {
		return usageError{err}
	}
	config := dist.CoordinatorConfig{
		Slots: r.N, Name: "coordinator", Wait: r.Wait,
		OnEvent: c.onEvent, OnRound: c.onRound,
		OnLow: func(dist.Low) { c.low.Store(true) },
	}
	if r.Survivors == "random" {
		config.Select = dist.RandomSurvivors(r.Seed)
	}
	if err := c.recording(&config); err != nil {
		return err
	}
	if c.coordinator, err = dist.NewCoordinator(config); err != nil {
		return err
	}
	if err := c.coordinator.Attach(c.members, c.key); err != nil {
		return err
	}
	if err := c.startWorkers(r); err != nil {
		return err
	}
	wait, cancel := context.WithTimeoutCause(ctx, joinTime, fmt.Errorf("--min-workers %d: not within %s", r.MinWork, joinTime))
	defer cancel()
	if err := c.coordinator.AwaitWorkers(wait, r.MinWork); err != nil {
		return err
	}
	for _, p := range r.residents {
		p.Executor = c.coordinator
	}
	return nil
}

// recording opens the files of --record and --replay.
func (c *cluster) recording(config *dist.CoordinatorConfig) error {
	if c.flags.Record != "" {
		f, err := os.Create(c.flags.Record)
		if err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		c.record, config.Record = f, dist.NewRecorder(f)
	}
	if c.flags.Replay != "" {
		f, err := os.Open(c.flags.Replay)
		if err != nil {
			return fmt.Errorf("--replay: %w", err)
		}
		defer f.Close()
		if config.Replay, err = dist.ReadReplay(f); err != nil {
			return fmt.Errorf("--replay %s: %w", c.flags.Replay, err)
		}
	}
	return nil
}

func (c *cluster) startWorkers(r *run) error {
	c.workers = &localWorkers{
		join: c.members.Self().GossipAddr, keyFile: c.keyFile, logDir: r.folder.join("logs"),
		pace: r.Pace, seed: r.Seed, slow: map[int]string{},
	}
	for w := 1; w <= r.Workers; w++ {
		for _, f := range c.faults {
			if f.what == "slow" && f.hits(w) {
				c.workers.slow[w] = f.slow
			}
		}
		if err := c.workers.start(w); err != nil {
			return err
		}
	}
	return nil
}

// onEvent reports a change of a worker.
func (c *cluster) onEvent(e dist.Event) {
	if err := c.emit(workerEvent{"worker", e.Worker, e.State, e.Step, e.Reason}); err != nil {
		c.failure.CompareAndSwap(nil, &err)
	}
}

// onRound notes whose results were used.
func (c *cluster) onRound(s dist.RoundStats) {
	for _, slot := range s.Answered {
		if !slices.Contains(c.used, slot+1) {
			c.used = append(c.used, slot+1)
		}
	}
}

// answered returns, and forgets, the workers whose results the step used, and
// how many answers a product needs.
func (c *cluster) answered() ([]int, int) {
	used := slices.Sorted(slices.Values(c.used))
	c.used = c.used[:0]
	if used == nil {
		used = []int{}
	}
	return used, c.flags.K
}

// beforeStep injects the faults of a step.
func (c *cluster) beforeStep(step int) error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	for _, f := range c.faults {
		if f.step != step {
			continue
		}
		for w := 1; w <= c.flags.Workers; w++ {
			if !f.hits(w) {
				continue
			}
			if err := c.inject(f, w); err != nil {
				return fmt.Errorf("--inject: step %d: %w", step, err)
			}
		}
	}
	return nil
}

func (c *cluster) inject(f fault, w int) error {
	switch f.what {
	case "kill":
		return c.workers.kill(w)
	case "restart":
		if c.workers.proc(w) != nil {
			if err := c.workers.kill(w); err != nil {
				return err
			}
		}
		return c.workers.start(w)
	case "freeze":
		if err := c.workers.signal(w, stopSignal); err != nil {
			return err
		}
		c.thaws = append(c.thaws, time.AfterFunc(f.pause, func() {
			_ = c.workers.signal(w, continueSignal) // a worker killed meanwhile needs no thaw
		}))
	}
	return nil
}

// close leaves the cluster and ends the local workers.
func (c *cluster) close() error {
	var problems []error
	for _, t := range c.thaws {
		t.Stop()
	}
	if c.coordinator != nil {
		problems = append(problems, c.coordinator.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if c.workers != nil {
		problems = append(problems, c.workers.close(ctx))
	}
	if c.members != nil {
		problems = append(problems, c.members.Leave(ctx))
	}
	if c.record != nil {
		problems = append(problems, c.record.Close())
	}
	if c.keyDir != "" {
		problems = append(problems, os.RemoveAll(c.keyDir))
	}
	return errors.Join(problems...)
}
