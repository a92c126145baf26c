package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A run is a process with processes of its own: these tests send it signals and
// look at what is left. They wait for what it prints and for the ends of
// processes, never for time to pass.

// processTime bounds every wait.
const processTime = 30 * time.Second

// process is a running train command.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stdout io.ReadCloser
	stderr bytes.Buffer
}

// start starts train in the current folder.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return spawn(t, processTime, exe, append([]string{"train"}, args...)...) // TestMain makes the test binary the command
}

// spawn starts a program with its arguments, of which the first is its name. It
// is killed after the given time.
func spawn(t *testing.T, limit time.Duration, path string, args ...string) *process {
	t.Helper()
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	p := &process{t: t, cmd: exec.CommandContext(ctx, path)}
	p.cmd.Args = args
	p.cmd.Stderr = &p.stderr
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(p.stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.signal(syscall.SIGKILL)
			p.wait()
		}
		cancel()
	})
	return p
}

// until reads lines until one holds the text, and returns it.
func (p *process) until(text string) string {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			p.t.Fatalf("output ended before %q: %v: %s", text, err, p.stderr.String())
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// wait reads what is left of the output and returns it with the exit status,
// -1 after a signal.
func (p *process) wait() (rest string, status int) {
	p.t.Helper()
	text, err := io.ReadAll(p.out)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		p.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return string(text), p.cmd.ProcessState.ExitCode()
}

// workers opens a descriptor of each process that this one has started; it can
// be read when the process has ended.
func (p *process) workers() []int {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	// Threads start children too.
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, task := range tasks {
		more, err := os.ReadFile(task)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the thread may have ended
			p.t.Fatal(err)
		}
		text = append(append(text, ' '), more...)
	}
	var fds []int
	pids := strings.Fields(string(text))
	slices.Sort(pids)
	for _, s := range slices.Compact(pids) {
		pid, err := strconv.Atoi(s)
		if err != nil {
			p.t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { unix.Close(fd) })
		fds = append(fds, fd)
	}
	return fds
}

// gone checks that processes end.
func gone(t *testing.T, fds []int) {
	t.Helper()
	for _, fd := range fds {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := 0, error(unix.EINTR)
		for err == unix.EINTR {
			n, err = unix.Poll(set, int(processTime/time.Millisecond))
		}
		if err != nil || n != 1 {
			t.Errorf("a worker process is left: %v", err)
		}
	}
}

// longRun are the flags of a run that does not end by itself.
var longRun = []string{"run", "--dataset=synthetic", "--model=mlp", "--epochs=10000", "--schedule=constant", "--lr=1e-6", "--json=-", "--out=a"}

// serveWorker starts a worker and waits for it; at is where it gossips.
func serveWorker(t *testing.T, name, bind, join, key string, flags ...string) (p *process, at string) {
	t.Helper()
	args := append([]string{"worker", "--bind=" + bind, "--name=" + name, "--key=" + key}, flags...)
	if join != "" {
		args = append(args, "--join="+join)
	}
	p = start(t, args...)
	_, at, _ = strings.Cut(strings.TrimSpace(p.until("gossip at")), "gossip at ")
	return p, at
}
