package dist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/alarm"
)

// WorkerConfig says how a Worker works. Name and Handlers are required; the
// zero value of everything else has the meaning that its comment gives.
type WorkerConfig struct {
	Name string // by which the coordinator knows it, also when it comes back
	Addr string // where its peers reach its Listener; empty: it cannot be repaired

	// Handlers build the shards of layers, by coded.Layer.Kind.
	Handlers map[string]coded.Factory
	// Dial connects to a peer's Addr. Nil: it cannot donate to a repair.
	Dial func(ctx context.Context, addr string) (*Conn, error)

	// Seats is how many slots of a code it can hold at a time, each with shards of its
	// own; they share the connection, Pace, Slow and the processor. 0: 1; at most 64.
	Seats int

	// Keep is how long shards are kept for a coordinator whose connection has
	// broken. 0: 10 minutes.
	Keep time.Duration
	// MaxQueue bounds the operands that wait, in bytes. 0: 1 GiB.
	MaxQueue int64

	// Pace makes the worker behave like a device of that many GFLOP/s, where
	// shards can tell their flops. 0: as fast as it is.
	Pace float64
	// Alarm, if not nil, is what a worker with Pace or Slow waits by, more exactly
	// than by a timer of Go's. It is not closed.
	Alarm Alarm
	// Slow, if not nil, gives the factor, at least 1, by which a product takes
	// longer. It is called once for every product, by one goroutine at a time.
	Slow func(ProductInfo) float64
	// Tamper, if not nil, sees every result before it is sent, for tests of
	// faults: it may change the result, and if it returns false nothing is sent.
	// It is called by one goroutine at a time.
	Tamper func(i ProductInfo, chunk int, result coded.Tensor) (send bool)

	// Log hears of coordinators that come and go, and of connections that are
	// refused. Its records have the attributes node, run and step. Nil: slog.Default.
	Log *slog.Logger
}

// Alarm rings at the moment that it was last set to, perhaps also before, if it had
// been set to an earlier one. One goroutine at a time uses it.
type Alarm interface {
	Set(at time.Time)
	C() <-chan struct{}
	Stop()
}

// ProductInfo describes a product to a worker's hook.
type ProductInfo struct {
	Layer   string
	Product coded.Product
	Round   uint64
	Step    int
	Slot    int
}

// Acceptor gives a worker its connections; *Listener is one.
type Acceptor interface {
	Accept(ctx context.Context) (*Conn, error)
}

// Worker holds shards and computes with them for one coordinator at a time, one
// thing at a time.
type Worker struct {
	cfg     WorkerConfig
	buffers bufferPool
	waiting atomic.Int32 // donations that wait for their repair
	totals  workerTotals

	mu      sync.Mutex
	session *session // nil: none
	kept    kept
}

// NewWorker returns a worker; Serve makes it work.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	var problems []error
	if cfg.Name == "" || len(cfg.Name) > maxName {
		problems = append(problems, fmt.Errorf("name of %d bytes, want 1 to %d", len(cfg.Name), maxName))
	}
	if len(cfg.Handlers) == 0 {
		problems = append(problems, errors.New("no handlers for any kind of layer"))
	}
	if cfg.Pace < 0 {
		problems = append(problems, fmt.Errorf("pace is %g GFLOP/s, want at least 0", cfg.Pace))
	}
	if cfg.Seats < 0 || cfg.Seats > maxSeats {
		problems = append(problems, fmt.Errorf("%d seats, want 1 to %d", cfg.Seats, maxSeats))
	}
	if cfg.Keep < 0 || cfg.MaxQueue < 0 {
		problems = append(problems, fmt.Errorf("keep is %v and the largest queue %d bytes, want at least 0", cfg.Keep, cfg.MaxQueue))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("dist: worker: %w", errors.Join(problems...))
	}
	cfg.Seats = max(1, cfg.Seats)
	if cfg.Keep == 0 {
		cfg.Keep = 10 * time.Minute
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 1 << 30
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Alarm == nil {
		cfg.Alarm = alarm.NewCoarse()
	}
	cfg.Handlers = maps.Clone(cfg.Handlers)
	cfg.Log = cfg.Log.With("component", "worker", "node", cfg.Name)
	return &Worker{cfg: cfg}, nil
}

// Serve works until the context ends: it then finishes its chunk, says goodbye
// and returns nil. It does not close the acceptor.
func (w *Worker) Serve(ctx context.Context, from Acceptor) error {
	var wg sync.WaitGroup
	w.totals.serving.Store(true)
	defer w.totals.serving.Store(false)
	defer w.dropKept()
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		conn, err := from.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("dist: worker %s: %w", w.cfg.Name, err)
		}
		wg.Go(func() {
			defer conn.Close()
			remote := conn.RemoteAddr()
			if err := w.greet(ctx, conn); err != nil && ctx.Err() == nil {
				w.cfg.Log.Warn("connection ended", "remote", remote, "err", err)
			}
		})
	}
}

// greet reads a Hello and serves who said it.
func (w *Worker) greet(ctx context.Context, conn *Conn) error {
	conn.Alloc = w.buffers.take
	conn.Idle = helloTimeout
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var m Message
	if err := conn.Recv(&m); err != nil {
		return err
	}
	if m.Kind != KindHello || len(m.Tensors) > 0 || m.Run == "" || m.From == "" || len(m.From) > maxName {
		return fmt.Errorf("first message is of kind %d with %d tensors, want a hello with a run and a name", m.Kind, len(m.Tensors))
	}
	switch m.Role {
	case RoleCoordinator:
		s, err := w.open(ctx, conn, m.Run)
		if err != nil {
			return w.refuse(ctx, conn, err)
		}
		if !stop() {
			return context.Cause(ctx) // from here on the session says goodbye
		}
		w.serve(ctx, s)
		return nil
	case RoleWorker:
		return w.takeDonation(ctx, conn, m.Run)
	}
	return fmt.Errorf("hello of role %q, want %q or %q", m.Role, RoleCoordinator, RoleWorker)
}

// refuse tells a peer why it is not served.
func (w *Worker) refuse(ctx context.Context, conn *Conn, err error) error {
	return errors.Join(err, conn.Send(ctx, &Message{Header: Header{Kind: KindBye, From: w.cfg.Name, Error: err.Error()}}))
}

// open makes a session for a run, if the worker is free for it.
func (w *Worker) open(ctx context.Context, conn *Conn, run string) (*session, error) {
	for {
		w.mu.Lock()
		old := w.session
		if old == nil {
			break
		}
		w.mu.Unlock()
		if old.run != run {
			return nil, fmt.Errorf("%s serves another coordinator", w.cfg.Name)
		}
		// The same coordinator has noticed first that its connection is dead.
		old.stop(errReplaced)
		select {
		case <-old.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer w.mu.Unlock()
	w.kept.leaveOthers(run)
	s := newSession(w, conn, run)
	w.begin(s)
	return s, nil
}

// serve runs a session to its end, and keeps its shards if it broke.
func (w *Worker) serve(ctx context.Context, s *session) {
	log := w.cfg.Log.With("run", s.run, "remote", s.conn.RemoteAddr())
	log.Info("coordinator connected", "shards", len(s.shards))
	err := s.serve(ctx)
	if err == errBye || ctx.Err() != nil {
		log.Info("coordinator gone", "step", s.newestStep())
	} else { // also after a goodbye with a reason
		log.Warn("coordinator gone", "step", s.newestStep(), "err", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.totals.count(s.conn)
	w.finish(!errors.Is(err, errBye) && ctx.Err() == nil)
	close(s.done)
}

// dropKept gives up all shards that are kept.
func (w *Worker) dropKept() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.drop()
}

// current returns the session of a run, nil if another is served or none.
func (w *Worker) current(run string) *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil || w.session.run != run {
		return nil
	}
	return w.session
}
