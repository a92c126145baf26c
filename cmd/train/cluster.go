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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/dist"
)

// joinTime bounds how long workers are waited for before the first step.
const joinTime = 30 * time.Second

// clusterOptions say which cluster a command wants.
type clusterOptions struct {
	bind, advertise string
	join            []string
	keyFile         string // empty: a key for the run, or none on loopback
	workers         int    // processes to start here
	pace            float64
	seed            uint64
	faults          []fault
	config          dist.CoordinatorConfig
	record, replay  string // files
	emit            func(event any) error
	observe         func(dist.RoundStats) // hears of every round, on the training goroutine; may be nil
}

// cluster is the coordinator's side: its membership, the workers that it
// started here, and the faults that are injected into them.
type cluster struct {
	clusterOptions
	keyDir      string // temporary folder of a key for this run alone
	key         dist.Key
	log         *lateLog
	members     *dist.Membership
	coordinator *dist.Coordinator
	attached    sync.WaitGroup
	detach      context.CancelFunc
	workers     *localWorkers
	thaws       []*time.Timer
	low         atomic.Bool // no spare worker is left: write a checkpoint
	recordFile  io.Closer
	failure     atomic.Pointer[error] // of reporting an event
	used        []int                 // workers, from 1, whose results the step under way used
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

// prepareKey reads the cluster's key. A run that only has workers of its own
// makes one for itself, in a folder that only its user can read.
func (c *cluster) prepareKey() (err error) {
	if c.keyFile != "" {
		if c.key, err = dist.LoadKey(c.keyFile); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
		return nil
	}
	if len(c.join) > 0 {
		return nil // on loopback a key is not required; off it, joining says so
	}
	if c.keyDir, err = os.MkdirTemp("", "coda-key-"); err != nil {
		return fmt.Errorf("cluster key: %w", err)
	}
	c.key = dist.NewKey()
	c.keyFile = filepath.Join(c.keyDir, "key")
	return c.key.WriteKeyFile(c.keyFile)
}

// awaitMembers waits until at least n workers gossip and no other has come for
// a second, and returns how many there are.
func (c *cluster) awaitMembers(ctx context.Context, n int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
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
			return 0, fmt.Errorf("--join %s: %d of %d workers have joined within %s", strings.Join(c.join, ","), have, n, joinTime)
		}
	}
}

// start makes the coordinator, starts the local workers with their logs in
// logDir, and waits for at least n workers.
func (c *cluster) start(ctx context.Context, logDir string, n int) (err error) {
	if err := c.log.open(filepath.Join(logDir, "coordinator.log")); err != nil {
		return err
	}
	if err := c.openRecords(); err != nil {
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
	if err := c.startWorkers(logDir); err != nil {
		return err
	}
	wait, stop := context.WithTimeoutCause(ctx, joinTime, fmt.Errorf("not within %s", joinTime))
	defer stop()
	return c.coordinator.AwaitWorkers(wait, n)
}

// openRecords opens the files of --record and --replay.
func (c *cluster) openRecords() error {
	if c.record != "" {
		f, err := os.Create(c.record)
		if err != nil {
			return fmt.Errorf("--record: %w", err)
		}
		c.recordFile, c.config.Record = f, dist.NewRecorder(f)
	}
	if c.replay != "" {
		f, err := os.Open(c.replay)
		if err != nil {
			return fmt.Errorf("--replay: %w", err)
		}
		defer f.Close()
		if c.config.Replay, err = dist.ReadReplay(f); err != nil {
			return fmt.Errorf("--replay %s: %w", c.replay, err)
		}
	}
	return nil
}

func (c *cluster) startWorkers(logDir string) error {
	c.workers = &localWorkers{
		join: c.members.Self().GossipAddr, keyFile: c.keyFile, logDir: logDir,
		pace: c.pace, seed: c.seed, slow: map[int]string{},
	}
	for w := 1; w <= c.clusterOptions.workers; w++ {
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
	if c.emit == nil {
		return
	}
	if err := c.emit(workerEvent{"worker", e.Worker, e.State, e.Step, e.Reason}); err != nil {
		c.failure.CompareAndSwap(nil, &err)
	}
}

// onRound notes whose results were used. It runs on the training goroutine.
func (c *cluster) onRound(s dist.RoundStats) {
	for _, slot := range s.Answered {
		if !slices.Contains(c.used, slot+1) {
			c.used = append(c.used, slot+1)
		}
	}
	if c.observe != nil {
		c.observe(s)
	}
}

// answered returns, and forgets, the workers whose results the step used.
func (c *cluster) answered() []int {
	used := slices.Sorted(slices.Values(c.used))
	c.used = c.used[:0]
	return used
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
		for w := 1; w <= c.clusterOptions.workers; w++ {
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
	if c == nil {
		return nil
	}
	var problems []error
	for _, t := range c.thaws {
		t.Stop()
	}
	if c.detach != nil {
		c.detach()
		c.attached.Wait()
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
	if c.recordFile != nil {
		problems = append(problems, c.recordFile.Close())
	}
	if c.keyDir != "" {
		problems = append(problems, os.RemoveAll(c.keyDir))
	}
	return errors.Join(append(problems, c.log.close())...)
}

// workerName is the name of local worker w.
func workerName(w int) string { return "worker-" + strconv.Itoa(w) }

// lateLog keeps what is logged until there is a file for it. The zero value is ready.
type lateLog struct {
	mu   sync.Mutex
	kept []byte
	file *os.File
}

// maxKeptLog bounds what is kept for a file.
const maxKeptLog = 1 << 16

func (l *lateLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return l.file.Write(p)
	}
	if len(l.kept)+len(p) <= maxKeptLog {
		l.kept = append(l.kept, p...)
	}
	return len(p), nil
}

func (l *lateLog) open(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	l.file = f
	_, err = f.Write(l.kept)
	l.kept = nil
	return err
}

func (l *lateLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.kept = nil, nil
	return err
}
