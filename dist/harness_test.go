package dist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded"
)

// testDeadline bounds every wait of a test.
const testDeadline = 20 * time.Second

// network connects the workers of a test in memory.
type network struct {
	mu    sync.Mutex
	nodes map[string]*node // by address
}

// node is a worker's place in the network: where it is dialled, and its cables.
type node struct {
	in     chan *Conn // unbuffered
	mu     sync.Mutex
	cables []*cable
	dead   bool
}

// cable is one end of a connection that can be frozen: then nothing is read
// from it, and writing blocks.
type cable struct {
	net.Conn
	gate *gate
}

type gate struct {
	mu     sync.Mutex
	frozen chan struct{} // closed by thaw; nil when nothing is frozen
}

func (g *gate) wait() {
	g.mu.Lock()
	frozen := g.frozen
	g.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = make(chan struct{})
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen != nil {
		close(g.frozen)
		g.frozen = nil
	}
}

func (c *cable) Read(p []byte) (int, error)  { c.gate.wait(); return c.Conn.Read(p) }
func (c *cable) Write(p []byte) (int, error) { c.gate.wait(); return c.Conn.Write(p) }

func (n *node) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-n.in:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dial connects to an address of the network.
func (w *network) dial(ctx context.Context, addr string) (*Conn, error) {
	w.mu.Lock()
	n := w.nodes[addr]
	w.mu.Unlock()
	if n == nil {
		return nil, fmt.Errorf("dial %s: nobody there", addr)
	}
	here, there := net.Pipe()
	far := &cable{Conn: there, gate: &gate{}}
	n.mu.Lock()
	if n.dead {
		n.mu.Unlock()
		return nil, fmt.Errorf("dial %s: dead", addr)
	}
	n.cables = append(n.cables, far)
	n.mu.Unlock()
	select {
	case n.in <- NewConn(far):
		return NewConn(here), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// testWorker is a running worker.
type testWorker struct {
	name string
	addr string
	w    *Worker
	node *node
	gone <-chan struct{} // as the coordinator sees it
	end  context.CancelFunc
	done chan struct{}
}

// cluster is a coordinator with workers in memory.
type cluster struct {
	t       *testing.T
	net     *network
	c       *Coordinator
	workers map[string]*testWorker
	events  chan Event
}

func newCluster(t *testing.T, cfg CoordinatorConfig) *cluster {
	t.Helper()
	cl := &cluster{t: t, net: &network{nodes: map[string]*node{}}, workers: map[string]*testWorker{}, events: make(chan Event, 1000)}
	cfg.Log = cmp.Or(cfg.Log, quiet)
	if cfg.OnEvent == nil {
		cfg.OnEvent = func(e Event) { cl.events <- e }
	}
	c, err := NewCoordinator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cl.c = c
	t.Cleanup(cl.close)
	return cl
}

func (cl *cluster) close() {
	if err := cl.c.Close(); err != nil {
		cl.t.Errorf("close: %v", err)
	}
	for _, w := range cl.workers {
		w.end()
		<-w.done
	}
}

// start starts the workers of slots first..last-1 and connects them.
func (cl *cluster) start(first, last int, change ...func(*WorkerConfig)) {
	cl.t.Helper()
	for i := first; i < last; i++ {
		cl.add(fmt.Sprintf("worker-%d", i+1), change...)
	}
}

// add starts a worker and connects it.
func (cl *cluster) add(name string, change ...func(*WorkerConfig)) *testWorker {
	cl.t.Helper()
	tw := cl.launch(name, change...)
	cl.workers[name] = tw
	cl.connect(tw)
	return tw
}

// launch starts a worker.
func (cl *cluster) launch(name string, change ...func(*WorkerConfig)) *testWorker {
	cl.t.Helper()
	cfg := WorkerConfig{
		Name: name, Addr: name, Dial: cl.net.dial, Log: quiet,
		Handlers: map[string]coded.Factory{toyKind: newSomeToyShard},
	}
	for _, f := range change {
		f(&cfg)
	}
	w, err := NewWorker(cfg)
	if err != nil {
		cl.t.Fatal(err)
	}
	n := &node{in: make(chan *Conn)}
	cl.net.mu.Lock()
	cl.net.nodes[cfg.Addr] = n
	cl.net.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	tw := &testWorker{name: name, addr: cfg.Addr, w: w, node: n, end: cancel, done: make(chan struct{})}
	go func() {
		defer close(tw.done)
		if err := w.Serve(ctx, n); err != nil {
			cl.t.Errorf("worker %s: %v", name, err)
		}
	}()
	return tw
}

func (cl *cluster) connect(tw *testWorker) {
	cl.t.Helper()
	ctx := cl.ctx()
	conn, err := cl.net.dial(ctx, tw.addr)
	if err != nil {
		cl.t.Fatal(err)
	}
	if tw.gone, err = cl.c.AddWorker(ctx, conn); err != nil {
		cl.t.Fatal(err)
	}
}

// kill ends a worker as a crash does: its connections break without a word.
func (cl *cluster) kill(name string) {
	tw := cl.workers[name]
	tw.node.mu.Lock()
	tw.node.dead = true
	for _, c := range tw.node.cables {
		c.Close()
		c.gate.thaw()
	}
	tw.node.mu.Unlock()
	tw.end()
	receive(cl.t, tw.done)
	receive(cl.t, tw.gone)
	delete(cl.workers, name)
}

// cut breaks a worker's connections; the worker lives.
func (cl *cluster) cut(name string) {
	tw := cl.workers[name]
	tw.node.sever()
	receive(cl.t, tw.gone)
}

// sever breaks the connections that the node has.
func (n *node) sever() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.cables {
		c.Close()
	}
}

func (cl *cluster) freeze(name string) { cl.workers[name].node.each((*gate).freeze) }
func (cl *cluster) thaw(name string)   { cl.workers[name].node.each((*gate).thaw) }

// each does something with every cable of the node; peers may be dialling.
func (n *node) each(f func(*gate)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.cables {
		f(c.gate)
	}
}

func (cl *cluster) ctx() context.Context {
	ctx, cancel := bounded()
	cl.t.Cleanup(cancel)
	return ctx
}

func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), testDeadline, errors.New("test takes too long"))
}

// receive waits for what a channel gives, or for its end.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
		t.Fatalf("nothing comes: %v", context.Cause(ctx))
		panic("unreachable")
	}
}

// await waits for an event of a worker.
func (cl *cluster) await(worker, state string) Event {
	cl.t.Helper()
	ctx := cl.ctx()
	for {
		select {
		case e := <-cl.events:
			if e.Worker == worker && e.State == state {
				return e
			}
		case <-ctx.Done():
			cl.t.Fatalf("no event %s of %s: %v", state, worker, context.Cause(ctx))
		}
	}
}

// awaitEach waits for an event of each of several workers, in any order.
func (cl *cluster) awaitEach(state string, workers ...string) {
	cl.t.Helper()
	ctx := cl.ctx()
	for len(workers) > 0 {
		select {
		case e := <-cl.events:
			if e.State == state {
				workers = slices.DeleteFunc(workers, func(w string) bool { return w == e.Worker })
			}
		case <-ctx.Done():
			cl.t.Fatalf("no event %s of %q: %v", state, workers, context.Cause(ctx))
		}
	}
}

// settle waits until every connected worker in a slot serves a layer: under load
// any of them may have fallen behind and be under repair.
func (cl *cluster) settle(layer string) {
	cl.t.Helper()
	err := cl.c.await(cl.ctx(), func() bool {
		for _, l := range cl.c.slots {
			if l != nil && !l.shards[layer].fresh(cl.c.version) {
				return false
			}
		}
		return true
	})
	if err != nil {
		cl.t.Fatalf("the workers do not all serve layer %s: %v", layer, err)
	}
}

func (cl *cluster) pools() (pools []*bufferPool) {
	for _, tw := range cl.workers {
		pools = append(pools, &tw.w.buffers)
	}
	return pools
}

// idle waits until a worker has seen every cancellation: no task is queued.
func (tw *testWorker) idle(ctx context.Context) error {
	for ctx.Err() == nil {
		tw.w.mu.Lock()
		s := tw.w.session
		tw.w.mu.Unlock()
		s.mu.Lock()
		waiting := len(s.tasks)
		s.mu.Unlock()
		if waiting == 0 {
			return nil
		}
		runtime.Gosched()
	}
	return context.Cause(ctx)
}
