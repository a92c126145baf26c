package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coda-ml/coda/coded/exact"
)

// exactWorkers are the worker processes of the exact benchmark, each with its
// connection. They end when it is closed.
type exactWorkers struct {
	procs []*exec.Cmd
	conns []*exactConn
	shape [3]int
}

const exactPatience = time.Minute // for workers to start, for answers and for the end

// startExactWorkers starts n workers for tasks of a shape.
func startExactWorkers(ctx context.Context, n int, shape [3]int) (w *exactWorkers, err error) {
	w = &exactWorkers{shape: shape}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start workers: %w", err), w.close())
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return w, err
	}
	defer listener.Close()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	token := make([]byte, exactToken)
	if _, err := rand.Read(token); err != nil {
		return w, err
	}
	for range n {
		if err := w.launch(listener.Addr().String(), token); err != nil {
			return w, err
		}
	}
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(exactPatience)); err != nil {
		return w, err
	}
	for len(w.conns) < n {
		c, err := listener.Accept()
		if err != nil {
			return w, fmt.Errorf("%d of %d have come: %w", len(w.conns), n, err)
		}
		conn := &exactConn{c: c}
		got := make([]byte, exactToken)
		if err := conn.read(got); err != nil || subtle.ConstantTimeCompare(got, token) != 1 {
			_ = c.Close() // a stranger; a worker that failed is missed by the deadline
			continue
		}
		w.conns = append(w.conns, conn)
	}
	return w, nil
}

// launch starts a process and tells it the token.
func (w *exactWorkers) launch(addr string, token []byte) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	args := []string{"exact-worker", addr}
	for _, s := range w.shape {
		args = append(args, strconv.Itoa(s))
	}
	cmd := exec.Command(exe, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = os.Stderr
	detach(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.procs = append(w.procs, cmd)
	_, err = io.WriteString(stdin, hex.EncodeToString(token)+"\n")
	return errors.Join(err, stdin.Close())
}

// close closes the connections and waits for the processes, which are killed if
// they take long.
func (w *exactWorkers) close() error {
	var problems []error
	for _, c := range w.conns {
		problems = append(problems, ignoreClosed(c.c.Close()))
	}
	for i, p := range w.procs {
		kill := time.AfterFunc(exactPatience, func() { _ = p.Process.Kill() })
		if len(w.conns) < len(w.procs) { // some never came
			_ = p.Process.Kill()
		}
		if err := p.Wait(); err != nil && len(w.conns) == len(w.procs) {
			problems = append(problems, fmt.Errorf("exact worker %d: %w", i, err))
		}
		kill.Stop()
	}
	return errors.Join(problems...)
}

// hangUp closes all connections, so that nobody waits for them any more.
func (w *exactWorkers) hangUp() {
	for _, c := range w.conns {
		_ = c.c.Close() // whoever uses it hears of it
	}
}

// ignoreClosed drops the error of closing what is closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// exactRound hands out the tasks of one round.
type exactRound struct {
	workers *exactWorkers
	order   []int // of the tasks; task t is worker t's
	need    int   // answers that suffice
	threads int   // processors that compute
	a, b    []*exact.Vector
	results []*exact.Vector
	now     func() time.Time

	sendLock sync.Mutex     // operands travel to one worker after another
	slots    sync.WaitGroup // goroutines that each have one task under way

	mu       sync.Mutex
	next     int  // in order
	spare    bool // tasks are being handed out that replace others
	running  map[int]bool
	failures []error
	answers  exactAnswers
	err      error
	finished bool
	enough   chan struct{} // closed when finished: enough have answered, or cannot any more
}

// exactAnswers is what came of a round.
type exactAnswers struct {
	have             []int
	sending, compute time.Duration
	bytes            int64
}

// run hands tasks out until enough have been answered: one more at a time than
// there are processors, so that those compute while the next operands travel, and
// the spare ones as processors fall idle. Then what is under way is cancelled;
// settle waits for it.
func (r *exactRound) run(ctx context.Context) (exactAnswers, error) {
	ctx, cancel := context.WithTimeout(ctx, exactPatience)
	defer cancel()
	r.running, r.enough = map[int]bool{}, make(chan struct{})
	for range r.threads + 1 {
		r.slots.Go(r.work)
	}
	select {
	case <-r.enough:
	case <-ctx.Done():
		r.mu.Lock()
		r.finish(fmt.Errorf("%d answers, want %d: no answer from workers %v: %w",
			len(r.answers.have), r.need, slices.Sorted(maps.Keys(r.running)), context.Cause(ctx)))
		r.mu.Unlock()
		r.workers.hangUp()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.running {
		// A worker that does not hear of it has failed, and settle finds out.
		_, _ = r.workers.conns[t].send(exactFrame{kind: exactCancel, task: t})
	}
	return r.answers, r.err
}

// settle waits for the tasks that were cancelled.
func (r *exactRound) settle() {
	giveUp := time.AfterFunc(exactPatience, r.workers.hangUp)
	defer giveUp.Stop()
	r.slots.Wait()
}

// work is the life of a slot: one task after another.
func (r *exactRound) work() {
	for {
		t, ok := r.take()
		if !ok {
			return
		}
		if err := r.task(t); err != nil {
			r.fail(fmt.Errorf("worker %d: %w", t, err))
		}
	}
}

// take gives the next task that is to be sent.
func (r *exactRound) take() (task int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished || r.next == len(r.order) {
		return 0, false
	}
	if r.next >= r.need && !r.spare {
		r.spare = true // one slot fewer: no processor waits for operands any more
		return 0, false
	}
	r.next++
	return r.order[r.next-1], true
}

// task sends the operands of a task and waits for its result.
func (r *exactRound) task(t int) error {
	sent, err := r.send(t)
	if err != nil || sent == 0 {
		return err
	}
	conn := r.workers.conns[t]
	before := conn.received
	f, err := conn.receive([]*exact.Vector{r.results[t]})
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, t)
	if err != nil {
		return err
	}
	if f.kind != exactResult || f.task != t {
		return fmt.Errorf("answered with kind %d for task %d", f.kind, f.task)
	}
	if r.finished || len(f.vectors) == 0 {
		return nil
	}
	r.answers.have = append(r.answers.have, t)
	r.answers.compute += time.Duration(f.nanos)
	r.answers.bytes += sent + conn.received - before
	if len(r.answers.have) == r.need {
		r.finish(nil)
	}
	return nil
}

// send sends the operands of a task and returns their bytes: none if the round is
// finished by then.
func (r *exactRound) send(t int) (int64, error) {
	r.sendLock.Lock()
	defer r.sendLock.Unlock()
	r.mu.Lock()
	finished := r.finished
	r.mu.Unlock()
	if finished {
		return 0, nil
	}
	began := r.now()
	n, err := r.workers.conns[t].send(exactFrame{kind: exactTask, task: t, vectors: []*exact.Vector{r.a[t], r.b[t]}})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers.sending += r.now().Sub(began)
	if err == nil {
		r.running[t] = true
	}
	return n, err
}

// fail counts a task as lost, and gives up when too few are left.
func (r *exactRound) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, err)
	if len(r.order)-len(r.failures) < r.need {
		r.finish(fmt.Errorf("fewer than %d workers are left: %w", r.need, errors.Join(r.failures...)))
	}
}

// finish ends the round, in failure if err is not nil. The caller holds mu.
func (r *exactRound) finish(err error) {
	if r.finished {
		return
	}
	r.finished, r.err = true, err
	close(r.enough)
}
