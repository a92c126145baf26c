package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/coda-ml/coda/dist"
)

// localWorkers are the worker processes that a run starts on this machine.
// Each ends when its standard input is closed, so none outlives the run, even
// one that is killed.
type localWorkers struct {
	join, logDir string
	key          dist.Key // zero: none
	pace         float64
	seats        int // of each; 0: 1
	seed         uint64
	lasting      map[int][]string // by number: the worker's arguments for the faults that it always has
	obedient     bool             // they take orders to misbehave

	mu    sync.Mutex
	procs map[int]*workerProc // by number, from 1
}

type workerProc struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   *os.File
	ended chan struct{} // closed when the process has been waited for
}

// start starts worker number w; it must not be running.
func (l *localWorkers) start(w int) error {
	p := &workerProc{ended: make(chan struct{})}
	if err := l.launch(w, p); err != nil {
		return fmt.Errorf("%s: %w", workerName(w), err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // a killed worker's status is no news: the coordinator sees its connection end
		_ = p.log.Close()
	}()
	l.mu.Lock()
	if l.procs == nil {
		l.procs = map[int]*workerProc{}
	}
	l.procs[w] = p
	l.mu.Unlock()
	if err := l.tellKey(p.stdin); err != nil {
		return fmt.Errorf("%s: key: %w", workerName(w), err)
	}
	return nil
}

// launch starts the process of worker w.
func (l *localWorkers) launch(w int, p *workerProc) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	args, err := l.args(w)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(exe, args...)
	p.cmd.Args[0] = os.Args[0]
	detach(p.cmd)
	if p.log, err = os.OpenFile(filepath.Join(l.logDir, workerName(w)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return errors.Join(err, p.log.Close())
	}
	if err := begin(p.cmd); err != nil {
		return errors.Join(fmt.Errorf("start: %w", err), p.log.Close())
	}
	return nil
}

// args are the arguments of worker w. It gossips at the same address as the
// run, so that whoever reaches the one reaches the other.
func (l *localWorkers) args(w int) ([]string, error) {
	host, _, err := net.SplitHostPort(l.join)
	if err != nil {
		return nil, err
	}
	args := []string{"worker", "--name", workerName(w), "--join", l.join, "--bind", net.JoinHostPort(host, "0"),
		"--until-stdin-closes", "--seed", strconv.FormatUint(l.seed+uint64(w), 10)}
	if !l.key.IsZero() {
		args = append(args, "--key", "-")
	}
	if l.pace > 0 {
		args = append(args, "--pace", strconv.FormatFloat(l.pace, 'g', -1, 64))
	}
	if l.seats > 1 {
		args = append(args, "--seats", strconv.Itoa(l.seats))
	}
	if l.obedient {
		args = append(args, "--orders")
	}
	return append(args, l.lasting[w]...), nil
}

// tellKey gives a worker the cluster's key, which so is in no file, argument
// or environment.
func (l *localWorkers) tellKey(stdin io.Writer) error {
	if l.key.IsZero() {
		return nil
	}
	text, err := l.key.MarshalText()
	if err != nil {
		return err
	}
	_, err = stdin.Write(append(text, '\n'))
	return err
}

// proc returns the running process of worker w, or nil.
func (l *localWorkers) proc(w int) *workerProc {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.procs[w]
	if p == nil {
		return nil
	}
	select {
	case <-p.ended:
		return nil
	default:
		return p
	}
}

// signal sends a signal to worker w's process.
func (l *localWorkers) signal(w int, s os.Signal) error {
	p := l.proc(w)
	if p == nil {
		return fmt.Errorf("%s: not running", workerName(w))
	}
	return p.cmd.Process.Signal(s)
}

// order tells worker w how to misbehave from now on; see misbehaviour.set.
func (l *localWorkers) order(w int, what string) error {
	p := l.proc(w)
	if p == nil {
		return fmt.Errorf("%s: not running", workerName(w))
	}
	if _, err := io.WriteString(p.stdin, what+"\n"); err != nil {
		return fmt.Errorf("%s: order %q: %w", workerName(w), what, err)
	}
	return nil
}

// dismiss asks worker w to leave, and does not wait for it.
func (l *localWorkers) dismiss(w int) error {
	p := l.proc(w)
	if p == nil {
		return fmt.Errorf("%s: not running", workerName(w))
	}
	return p.stdin.Close()
}

// kill kills worker w and waits until the process is gone.
func (l *localWorkers) kill(w int) error {
	p := l.proc(w)
	if p == nil {
		return fmt.Errorf("%s: not running", workerName(w))
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: kill: %w", workerName(w), err)
	}
	<-p.ended
	return nil
}

// thaw lets every worker go on that is frozen or cut off.
func (l *localWorkers) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.procs {
		resume(p.cmd.Process)
		if l.obedient {
			_, _ = io.WriteString(p.stdin, "cut 0s\n") // the process may have ended: then there is nobody to tell
		}
	}
}

// close asks all workers to leave, waits until the context is done, and kills those that are left.
func (l *localWorkers) close(ctx context.Context) error {
	l.thaw()
	l.mu.Lock()
	procs := l.procs
	l.procs = nil
	l.mu.Unlock()
	var problems []error
	for _, p := range procs {
		_ = p.stdin.Close() // the process may have ended: then there is nobody to tell
	}
	for w, p := range procs {
		select {
		case <-p.ended:
		case <-ctx.Done():
			problems = append(problems, fmt.Errorf("%s: did not leave, killed", workerName(w)))
			if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				problems = append(problems, err)
				continue
			}
			<-p.ended
		}
	}
	return errors.Join(problems...)
}

// leaveTime is how long a node tells the others that it leaves, at most, and partTime how
// long the workers of a run have for that and for their ends.
const (
	leaveTime = 5 * time.Second
	partTime  = drainTime + 2*leaveTime
)

// workerName is the name of local worker w.
func workerName(w int) string { return workerPrefix + strconv.Itoa(w) }

const workerPrefix = "worker-"
