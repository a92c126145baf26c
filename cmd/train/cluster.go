package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/dist"
)

// joinTime is how long workers are waited for before the first step, at least.
const joinTime = 30 * time.Second

// clusterOptions say which cluster a command wants.
type clusterOptions struct {
	bind, advertise string
	join            []string
	keyFile         string        // empty: a key for the run, or none on loopback
	patience        time.Duration // how long workers are waited for before the first step
	workers         int           // processes to start here
	pace            float64
	seats           int // of each of them; 0: 1
	seed            uint64
	faults          []fault
	obedient        bool // the processes take orders to misbehave
	config          dist.CoordinatorConfig
	emit            func(event any) error
	observe         func(dist.RoundStats) // hears of every round, one after another; may be nil
	hear            func(dist.Event)      // hears of every change of a worker; may be nil
}

// cluster is the coordinator's side: its membership, the workers that it
// started here, and the faults that are injected into them.
type cluster struct {
	clusterOptions
	key         dist.Key
	log         *lateLog
	members     *dist.Membership
	coordinator *dist.Coordinator
	attached    sync.WaitGroup
	detach      context.CancelFunc
	workers     *localWorkers
	thaws       []*time.Timer
	low         atomic.Bool           // no spare worker is left: write a checkpoint
	reached     atomic.Int64          // the last step that has begun, with the faults that are injected then
	failure     atomic.Pointer[error] // of reporting an event
	usedMu      sync.Mutex
	used        []int // workers, from 1, whose results the step under way used
}

// joinCluster starts the gossip of this process. The cluster must be closed,
// also after an error.
func joinCluster(ctx context.Context, o clusterOptions) (*cluster, error) {
	c := &cluster{clusterOptions: o, log: &lateLog{}}
	if err := c.prepareKey(); err != nil {
		return c, err
	}
	var err error
	c.members, err = dist.Join(ctx, dist.MembershipConfig{
		Name: "coordinator", Role: dist.RoleCoordinator, Bind: o.bind, Advertise: o.advertise,
		Seeds: o.join, Key: c.key, Log: c.logger(),
	})
	if err != nil {
		return c, fmt.Errorf("--bind %s: %w", o.bind, err)
	}
	return c, nil
}

func (c *cluster) logger() *slog.Logger { return slog.New(slog.NewTextHandler(c.log, nil)) }

// prepareKey reads the cluster's key, or makes one for the run if it has no
// workers but its own. They get it through a pipe.
func (c *cluster) prepareKey() (err error) {
	switch {
	case c.keyFile != "":
		if c.key, err = dist.LoadKey(c.keyFile); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	case len(c.join) == 0:
		c.key = dist.NewKey()
	}
	return nil // with --join a key is not required on loopback; off it, joining says so
}

// awaitMembers waits until at least n workers gossip and no other has come for
// a second, and returns how many there are.
func (c *cluster) awaitMembers(ctx context.Context, n int) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, fmt.Errorf("not within %s", c.patience))
	defer cancel()
	changes, stop := c.members.Subscribe()
	defer stop()
	for {
		have := 0
		for _, m := range c.members.Members() {
			if m.Role == dist.RoleWorker && !m.Draining {
				have++
			}
		}
		var settled <-chan time.Time
		if have >= n {
			settled = time.After(time.Second)
		}
		select {
		case <-changes:
		case <-settled:
			return have, nil
		case <-ctx.Done():
			return 0, c.whyNobody(fmt.Errorf("--join %s: %d of %d workers have joined: %w", strings.Join(c.join, ","), have, n, context.Cause(ctx)))
		}
	}
}

// start makes the coordinator, starts the local workers with their logs in
// logDir, and waits for at least n workers.
func (c *cluster) start(ctx context.Context, logDir string, n int) (err error) {
	if err := c.log.open(filepath.Join(logDir, "coordinator.log")); err != nil {
		return err
	}
	c.config.Name = "coordinator"
	c.config.Log = c.logger()
	c.config.OnEvent, c.config.OnRound = c.onEvent, c.onRound
	c.config.OnLow = func(dist.Low) { c.low.Store(true) }
	if c.coordinator, err = dist.NewCoordinator(c.config); err != nil {
		return err
	}
	attach, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.detach = cancel
	c.attached.Go(func() {
		err := c.coordinator.Attach(attach, c.members, dist.Wire{Key: c.key}.Dial)
		if err != nil && attach.Err() == nil && !errors.Is(err, dist.ErrClosed) {
			c.failure.CompareAndSwap(nil, &err)
		}
	})
	c.attached.Go(func() { c.tellStrangers(attach) })
	if err := c.startWorkers(logDir); err != nil {
		return err
	}
	wait, stop := context.WithTimeoutCause(ctx, c.patience, fmt.Errorf("not within %s", c.patience))
	defer stop()
	if err := c.coordinator.AwaitWorkers(wait, n); err != nil {
		return c.whyNobody(err)
	}
	return nil
}

func (c *cluster) startWorkers(logDir string) error {
	c.workers = &localWorkers{
		join: c.members.Self().GossipAddr, key: c.key, logDir: logDir,
		pace: c.pace, seats: c.seats, seed: c.seed, lasting: map[int][]string{},
		obedient: c.obedient || slices.ContainsFunc(c.faults, func(f fault) bool { return f.what == "partition" }),
	}
	for w := 1; w <= c.clusterOptions.workers; w++ {
		for _, f := range c.faults {
			if f.hits(w) {
				c.workers.lasting[w] = append(c.workers.lasting[w], f.args()...)
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
	if c.hear != nil {
		c.hear(e)
	}
	c.report(workerEvent{"worker", e.Worker, e.State, e.Step, e.Reason})
}

// report emits an event about a worker; the run ends before its next step if it cannot.
func (c *cluster) report(e workerEvent) {
	if c.emit == nil {
		return
	}
	if err := c.emit(e); err != nil {
		c.failure.CompareAndSwap(nil, &err)
	}
}

// onRound notes whose results were used. It runs on the goroutine that waited for
// the round.
func (c *cluster) onRound(s dist.RoundStats) {
	c.usedMu.Lock()
	defer c.usedMu.Unlock()
	for _, w := range c.numbers(s) {
		if !slices.Contains(c.used, w) {
			c.used = append(c.used, w)
		}
	}
	if c.observe != nil {
		c.observe(s)
	}
}

// numbers returns the numbers of the workers whose results a round used; where some
// were not started here, their slots, from 1.
func (c *cluster) numbers(s dist.RoundStats) (numbers []int) {
	for _, name := range s.Workers {
		w, err := strconv.Atoi(strings.TrimPrefix(name, workerPrefix))
		if err != nil || name != workerName(w) || w > c.clusterOptions.workers {
			numbers = numbers[:0]
			for _, slot := range s.Answered {
				numbers = append(numbers, slot+1)
			}
			return numbers
		}
		numbers = append(numbers, w)
	}
	return numbers
}

// answered returns, and forgets, the workers whose results the step used.
func (c *cluster) answered() []int {
	c.usedMu.Lock()
	defer c.usedMu.Unlock()
	used := slices.Sorted(slices.Values(c.used))
	c.used = c.used[:0]
	return used
}

// close leaves the cluster and ends the local workers.
func (c *cluster) close() error {
	if c == nil {
		return nil
	}
	var problems []error
	for _, t := range c.thaws {
		t.Stop()
	}
	if c.workers != nil {
		c.workers.thaw() // so that they hear the goodbye
	}
	if c.detach != nil {
		c.detach()
		c.attached.Wait()
	}
	if c.coordinator != nil {
		problems = append(problems, c.coordinator.Close())
	}
	if c.workers != nil {
		part, cancel := context.WithTimeout(context.Background(), partTime)
		problems = append(problems, c.workers.close(part))
		cancel()
	}
	if c.members != nil {
		leave, cancel := context.WithTimeout(context.Background(), leaveTime)
		problems = append(problems, c.members.Leave(leave))
		cancel()
	}
	return errors.Join(append(problems, c.log.close())...)
}
