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

	// Keep is how long shards are kept for a coordinator whose connection has
	// broken. 0: 10 minutes.
	Keep time.Duration
	// MaxQueue bounds the operands that wait here, in bytes. 0: 1 GiB.
	MaxQueue int64

	// Pace makes the worker behave like a device of that many GFLOP/s, where
	// shards can tell their flops. 0: as fast as it is.
	Pace float64
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

// Worker holds shards and computes with them for one coordinator at a time.
type Worker struct {
	cfg     WorkerConfig
	buffers bufferPool
	waiting atomic.Int32 // donations that wait for their repair
	totals  workerTotals

	mu      sync.Mutex
	session *session
	kept    map[string]parked // by layer, of a session that broke
	keptRun string
	saved   map[string]savedShard // by layer, of the last checkpoint of a run
	savedOf string                // the run
	expire  *time.Timer
}

// parked is a shard that waits for its coordinator to come back.
type parked struct {
	layer  coded.Layer
	held   Held
	tensor []coded.Tensor
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
	if cfg.Keep < 0 || cfg.MaxQueue < 0 {
		problems = append(problems, fmt.Errorf("keep is %v and the largest queue %d bytes, want at least 0", cfg.Keep, cfg.MaxQueue))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("dist: worker: %w", errors.Join(problems...))
	}
	if cfg.Keep == 0 {
		cfg.Keep = 10 * time.Minute
	}
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 1 << 30
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
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
			refuse := &Message{Header: Header{Kind: KindBye, From: w.cfg.Name, Error: err.Error()}}
			return errors.Join(err, conn.Send(ctx, refuse))
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
		old.stop(errors.New("replaced by a new connection of the same run"))
		select {
		case <-old.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer w.mu.Unlock()
	s := newSession(w, conn, run)
	if w.keptRun == run {
		for _, p := range w.kept {
			s.restore(p)
		}
	}
	w.forget()
	if w.savedOf != run {
		w.saved = nil
	}
	s.offer = w.offers()
	w.session = s
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
	w.session = nil
	w.totals.count(s.conn)
	if !errors.Is(err, errBye) && ctx.Err() == nil {
		w.kept, w.keptRun = s.park(), s.run
		w.expire = time.AfterFunc(w.cfg.Keep, w.dropKept)
	} else {
		w.saved = nil
	}
	close(s.done)
}

// dropKept gives up the shards that nobody has come back for.
func (w *Worker) dropKept() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
	w.saved = nil
}

func (w *Worker) forget() {
	if w.expire != nil {
		w.expire.Stop()
	}
	w.kept, w.keptRun, w.expire = nil, "", nil
}

// current returns the session of a run, if it is the one being served.
func (w *Worker) current(run string) *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil || w.session.run != run {
		return nil
	}
	return w.session
}
