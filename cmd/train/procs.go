package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// localWorkers are the worker processes that a run starts on this machine.
// Each ends when its standard input is closed, so none outlives the run, even
// one that is killed.
type localWorkers struct {
	join, keyFile, logDir string
	pace                  float64
	seed                  uint64
	slow                  map[int]string // by number: the worker's --slow

	mu    sync.Mutex
	procs map[int]*workerProc // by number, from 1
}

type workerProc struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   *os.File
	ended chan struct{} // closed when the process has been waited for
}

// start starts worker number w; it must not be running.
func (l *localWorkers) start(w int) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("worker-%d: find this program: %w", w, err)
	}
	args := []string{"worker", "--name", workerName(w), "--join", l.join,
		"--bind", "127.0.0.1:0", "--key", l.keyFile, "--until-stdin-closes", "--seed", strconv.FormatUint(l.seed+uint64(w), 10)}
	if l.pace > 0 {
		args = append(args, "--pace", strconv.FormatFloat(l.pace, 'g', -1, 64))
	}
	if s := l.slow[w]; s != "" {
		args = append(args, "--slow", s)
	}
	p := &workerProc{cmd: exec.Command(exe, args...), ended: make(chan struct{})}
	p.cmd.Args[0] = os.Args[0]
	detach(p.cmd)
	if p.log, err = os.OpenFile(filepath.Join(l.logDir, workerName(w)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return fmt.Errorf("worker-%d: log: %w", w, err)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return errors.Join(fmt.Errorf("worker-%d: %w", w, err), p.log.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("worker-%d: start: %w", w, err), p.log.Close())
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // a killed worker's status is no news: the coordinator sees its connection end
		_ = p.log.Close()
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.procs == nil {
		l.procs = map[int]*workerProc{}
	}
	l.procs[w] = p
	return nil
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
		return fmt.Errorf("worker-%d: not running", w)
	}
	return p.cmd.Process.Signal(s)
}

// kill kills worker w and waits until the process is gone.
func (l *localWorkers) kill(w int) error {
	p := l.proc(w)
	if p == nil {
		return fmt.Errorf("worker-%d: not running", w)
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("worker-%d: kill: %w", w, err)
	}
	<-p.ended
	return nil
}

// close asks all workers to leave, waits until the context is done, and kills those that are left.
func (l *localWorkers) close(ctx context.Context) error {
	l.mu.Lock()
	procs := l.procs
	l.procs = nil
	l.mu.Unlock()
	var problems []error
	for _, p := range procs {
		_ = p.stdin.Close() // the process may have ended: then there is nobody to tell
		resume(p.cmd.Process)
	}
	for w, p := range procs {
		select {
		case <-p.ended:
		case <-ctx.Done():
			problems = append(problems, fmt.Errorf("worker-%d: did not leave, killed", w))
			if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				problems = append(problems, err)
				continue
			}
			<-p.ended
		}
	}
	return errors.Join(problems...)
}

// leaveTime is how long workers have to leave at the end of a run.
const leaveTime = 5 * time.Second
