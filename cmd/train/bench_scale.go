package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/internal/memnet"
)

// scaleRow is what membership and scheduling do with many workers. Tasks are
// those that were handed out and answered; they compute nothing, so that all
// the time is the scheduler's, the messages' and the network's in memory.
type scaleRow struct {
	System   string  `json:"system"`
	Bench    string  `json:"bench"`
	Virtual  bool    `json:"virtual"` // in virtual time: only the scheduler is at work
	Workers  int     `json:"workers"`
	K        int     `json:"k"`
	Chunks   int     `json:"chunks"`
	JoinS    float64 `json:"join_s"`  // until all workers are connected to the coordinator; 0 in virtual time
	AgreeS   float64 `json:"agree_s"` // until every node knows all others, or for as long as that is waited for
	Unknown  int     `json:"unknown"` // nodes that some node does not know by then: gossip may miss one, and tells it later
	Rounds   int     `json:"rounds"`
	TasksPer float64 `json:"tasks_per_s"`
}

const (
	scaleWorkers = 200
	scaleVirtual = 10_000
	scaleChunks  = 24
	scaleKind    = "scale"
)

// benchScale measures real nodes over a network in memory, and then many more
// in virtual time.
func benchScale(ctx context.Context, b *benchCmd, out rows) error {
	workers := scaleWorkers
	if b.sized {
		workers = b.Workers
	}
	row, err := b.scaleReal(ctx, workers)
	if err != nil {
		return err
	}
	if err := out(row); err != nil {
		return err
	}
	if row, err = b.scaleVirtual(ctx, scaleVirtual); err != nil {
		return err
	}
	return out(row)
}

// scaleOf is the row of so many workers, three quarters of which are enough.
func scaleOf(workers int) scaleRow {
	return scaleRow{System: "coda", Bench: "scale", Workers: workers, K: max(1, workers*3/4), Chunks: scaleChunks}
}

// memoryCluster is a coordinator with its workers in this process, over a
// network in memory.
type memoryCluster struct {
	network     *memnet.Network
	coordinator *dist.Coordinator
	ctx         context.Context // of the workers
	cancel      context.CancelFunc
	running     sync.WaitGroup

	mu       sync.Mutex
	members  []*dist.Membership
	problems []error
}

var silent = slog.New(slog.DiscardHandler)

// addr is an address of node i, the coordinator being 0.
func (c *memoryCluster) addr(i, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}), uint16(port))
}

// startMemoryCluster starts workers and returns when the coordinator is connected
// to all. It must be closed, also after an error.
func startMemoryCluster(ctx context.Context, workers int, config dist.CoordinatorConfig, handlers map[string]coded.Factory) (*memoryCluster, error) {
	c := &memoryCluster{network: memnet.New()}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	config.Slots, config.Log = workers, silent
	if c.coordinator, err = dist.NewCoordinator(config); err != nil {
		return c, err
	}
	key := dist.NewKey()
	self, err := c.join(ctx, key, 0, "coordinator", dist.RoleCoordinator, "")
	if err != nil {
		return c, err
	}
	c.running.Go(func() {
		err := c.coordinator.Attach(c.ctx, self, c.dial)
		if err != nil && c.ctx.Err() == nil && !errors.Is(err, dist.ErrClosed) {
			c.note(err)
		}
	})
	if err := c.startWorkers(ctx, key, workers, handlers); err != nil {
		return c, err
	}
	return c, c.coordinator.AwaitWorkers(ctx, workers)
}

// agree waits until every node knows every other, or the context ends. It
// returns how many acquaintances are missing.
func (c *memoryCluster) agree(ctx context.Context) (unknown int) {
	for _, m := range c.members {
		unknown += len(c.members) - awaitAll(ctx, m, len(c.members))
	}
	return unknown
}

// startsAtOnce is how many nodes look for their seed at a time: each waits for
// its answer, and the seed gives its whole list.
const startsAtOnce = 32

// startWorkers starts the workers, some at a time.
func (c *memoryCluster) startWorkers(ctx context.Context, key dist.Key, workers int, handlers map[string]coded.Factory) error {
	var starting sync.WaitGroup
	room := make(chan struct{}, startsAtOnce)
	for i := 1; i <= workers; i++ {
		room <- struct{}{}
		starting.Go(func() {
			defer func() { <-room }()
			if err := c.startWorker(ctx, key, i, handlers); err != nil {
				c.note(fmt.Errorf("%s: %w", workerName(i), err))
			}
		})
	}
	starting.Wait()
	return c.failure()
}

func (c *memoryCluster) startWorker(ctx context.Context, key dist.Key, i int, handlers map[string]coded.Factory) error {
	listener, err := c.network.Listen(c.addr(i, 9000).String())
	if err != nil {
		return err
	}
	w, err := dist.NewWorker(dist.WorkerConfig{Name: workerName(i), Addr: listener.Addr(), Handlers: handlers, Dial: c.dial, Log: silent})
	if err != nil {
		return err
	}
	c.running.Go(func() {
		if err := w.Serve(c.ctx, memoryAcceptor{listener}); err != nil {
			c.note(err)
		}
	})
	_, err = c.join(ctx, key, i, workerName(i), dist.RoleWorker, listener.Addr())
	return err
}

// memoryAcceptor makes connections of a listener's streams.
type memoryAcceptor struct{ *memnet.Listener }

func (a memoryAcceptor) Accept(ctx context.Context) (*dist.Conn, error) {
	stream, err := a.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return dist.NewConn(stream), nil
}

func (c *memoryCluster) dial(ctx context.Context, addr string) (*dist.Conn, error) {
	stream, err := c.network.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return dist.NewConn(stream), nil
}

// join lets a node gossip. Its seed is the coordinator.
func (c *memoryCluster) join(ctx context.Context, key dist.Key, i int, name, role, data string) (*dist.Membership, error) {
	config := dist.MembershipConfig{
		Name: name, Role: role, DataAddr: data, Key: key, Log: silent, Transport: c.network.Node(c.addr(i, dist.DefaultPort)),
	}
	if i > 0 {
		config.Seeds = []string{c.addr(0, dist.DefaultPort).String()}
	}
	m, err := dist.Join(ctx, config)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.members = append(c.members, m)
	}
	return m, err
}

// awaitAll waits until a node knows so many, itself included, or the context
// ends, and returns how many it knows.
func awaitAll(ctx context.Context, m *dist.Membership, nodes int) int {
	changes, stop := m.Subscribe()
	defer stop()
	for len(m.Members()) < nodes && ctx.Err() == nil {
		select {
		case <-changes:
		case <-ctx.Done():
		}
	}
	return min(len(m.Members()), nodes)
}

func (c *memoryCluster) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, err)
}

func (c *memoryCluster) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.problems...)
}

// close ends every node.
func (c *memoryCluster) close() error {
	var err error
	if c.coordinator != nil {
		err = c.coordinator.Close()
	}
	c.cancel()
	c.running.Wait()
	var ending sync.WaitGroup
	for _, m := range c.members {
		ending.Go(func() {
			if err := m.Close(); err != nil {
				c.note(err)
			}
		})
	}
	ending.Wait()
	return errors.Join(err, c.failure())
}

// scaleShard computes nothing.
type scaleShard struct{ state, result coded.Tensor }

var scaleHandlers = map[string]coded.Factory{scaleKind: newScaleShard}

func newScaleShard(coded.Layer, int) (coded.Shard, error) {
	return &scaleShard{coded.NewTensor(1), coded.NewTensor(1)}, nil
}

func (s *scaleShard) Multiply(coded.Product, coded.Tensor, int) (coded.Tensor, error) {
	return s.result, nil
}
func (s *scaleShard) Accumulate(coded.Tensor, coded.Tensor) error { return nil }
func (s *scaleShard) Apply(coded.Update) error                    { return nil }
func (s *scaleShard) State() []coded.Tensor                       { return []coded.Tensor{s.state} }
func (s *scaleShard) SetState([]coded.Tensor) error               { return nil }

// The bounds of the waits for workers to be connected, and for all nodes to know
// one another.
const (
	joinLimit  = time.Minute
	agreeLimit = 10 * time.Second
)

func (b *benchCmd) scaleReal(ctx context.Context, workers int) (row scaleRow, err error) {
	row = scaleOf(workers)
	var tasks atomic.Int64
	config := dist.CoordinatorConfig{OnTask: func(s dist.TaskStats) {
		if s.Outcome == dist.TaskUsed || s.Outcome == dist.TaskWasted {
			tasks.Add(1)
		}
	}}
	joining, cancel := context.WithTimeoutCause(ctx, joinLimit, fmt.Errorf("not within %s", joinLimit))
	defer cancel()
	began := b.now()
	c, err := startMemoryCluster(joining, workers, config, scaleHandlers)
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return row, err
	}
	row.JoinS = b.now().Sub(began).Seconds()
	agreeing, stop := context.WithTimeout(ctx, agreeLimit)
	defer stop()
	row.Unknown = c.agree(agreeing)
	row.AgreeS = b.now().Sub(began).Seconds()
	layer := coded.Layer{Name: "bench", Kind: scaleKind, Chunks: row.Chunks, Code: coded.Spec{Name: "trigonometric", N: workers, K: row.K}}
	state := func(int) ([]coded.Tensor, error) { return []coded.Tensor{coded.NewTensor(1)}, nil }
	if err := c.coordinator.Place(ctx, layer, state); err != nil {
		return row, err
	}
	round := func() error {
		row.Rounds++
		p, err := c.coordinator.Start(ctx, coded.Round{Layer: layer.Name, Product: coded.Forward, Step: row.Rounds, Operand: coded.NewTensor(1, 1)})
		if err != nil {
			return err
		}
		defer p.Release()
		_, err = p.Wait(ctx)
		return err
	}
	row.TasksPer, err = b.tasksPerSecond(ctx, &row.Rounds, tasks.Load, round)
	return row, err
}

// tasksPerSecond makes rounds for a third of the benchmark's time, and then
// counts those of the whole.
func (b *benchCmd) tasksPerSecond(ctx context.Context, rounds *int, tasks func() int64, round func() error) (float64, error) {
	budget := time.Duration(b.Seconds * float64(time.Second))
	spend := func(d time.Duration) (float64, error) {
		before, began := tasks(), b.now()
		*rounds = 0
		for *rounds == 0 || b.now().Sub(began) < d {
			if err := errors.Join(context.Cause(ctx), round()); err != nil {
				return 0, err
			}
		}
		return float64(tasks()-before) / b.now().Sub(began).Seconds(), nil
	}
	if _, err := spend(budget / 3); err != nil {
		return 0, err
	}
	return spend(budget)
}

// scaleVirtual lets the simulated scheduler hand the tasks of adaptive rounds
// out. Without stragglers a worker's work is its chunks, all of which are used.
func (b *benchCmd) scaleVirtual(ctx context.Context, workers int) (scaleRow, error) {
	row := scaleOf(workers)
	row.Virtual = true
	tasks := int64(0)
	round := func() error {
		row.Rounds++
		r, err := sim.Run(ctx, sim.Config{
			Job: sim.KOfN(workers, row.K), Strategy: sim.Adaptive{K: row.K, Chunks: row.Chunks},
			Seed: uint64(row.Rounds), Rounds: 1, Threads: 1,
		})
		if err == nil {
			tasks += int64(row.K * row.Chunks)
			if r.Failed > 0 {
				err = fmt.Errorf("a simulated round of %d workers did not end", workers)
			}
		}
		return err
	}
	var err error
	row.TasksPer, err = b.tasksPerSecond(ctx, &row.Rounds, func() int64 { return tasks }, round)
	return row, err
}
