package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
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

func TestInterrupt(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) {
			t.Logf("%v is ignored by who started this test, and so by what it starts", s)
			continue
		}
		t.Chdir(t.TempDir())
		p := start(t, longRun...)
		p.until(`"event":"step","step":3,`)
		workers := p.workers()
		if len(workers) != 6 {
			t.Errorf("%d worker processes, want 6", len(workers))
		}
		p.signal(s)
		rest, status := p.wait()
		if status != exitInterrupted {
			t.Errorf("%v: exit status %d, want %d: %s", s, status, exitInterrupted, p.stderr.String())
		}
		lines := strings.Split(strings.TrimSpace(rest), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, `"event":"checkpoint"`) || !strings.Contains(last, `"why":"interrupted"`) {
			t.Errorf("%v: the last event is %s", s, last)
		}
		if said := p.stderr.String(); !strings.Contains(said, "train: interrupted after step ") || !strings.HasSuffix(said, "; train run --resume a goes on\n") {
			t.Errorf("%v: standard error: %s", s, said)
		}
		gone(t, workers)
	}
}

// What nohup starts outlives its terminal.
func TestIgnoredHangup(t *testing.T) {
	t.Chdir(t.TempDir())
	signal.Ignore(syscall.SIGHUP) // inherited by the process
	defer signal.Reset(syscall.SIGHUP)
	p := start(t, longRun...)
	line := p.until(`"event":"step"`)
	p.signal(syscall.SIGHUP)
	// A run that heard it would end with the step under way, and one after it at most.
	for range 10 {
		line = p.until(`"event":"step"`)
	}
	if !strings.Contains(line, `"step":11,`) {
		t.Errorf("after ten more steps: %s", line)
	}
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
}

func TestInterruptWhileWaitingForWorkers(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, "run", "--dataset=synthetic", "--model=mlp", "--workers=0", "--join=127.0.0.1:1", "--min-workers=3")
	p.until("waiting for workers, at least 3; gossip at 127.0.0.1:")
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted || !strings.Contains(p.stderr.String(), "interrupted") {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
	if exists("runs") {
		t.Error("a run folder is left")
	}
}

// Workers end by themselves when their run is killed, and the run goes on from
// its newest checkpoint.
func TestKilledRunIsResumed(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, append(longRun, "--checkpoint-every=5")...)
	p.until(`"event":"checkpoint"`)
	p.until(`"event":"checkpoint"`)
	workers := p.workers()
	p.signal(syscall.SIGKILL)
	if _, status := p.wait(); status != -1 {
		t.Errorf("exit status %d of a killed process", status)
	}
	gone(t, workers)

	p = start(t, "run", "--resume=a", "--json=-")
	if first := p.until(`"event":"start"`); !strings.Contains(first, `"resumed":"a/checkpoints/step-`) {
		t.Errorf("the run began anew: %s", first)
	}
	p.until(`"event":"step"`)
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
	text, err := os.ReadFile("a/metrics.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(`{"event":"start"`)); n != 2 {
		t.Errorf("metrics.jsonl holds %d starts, want 2", n)
	}
}

// Workers of their own wait for a run whose process has died, and have their
// shards ready for the one that goes on from its checkpoint.
func TestWorkersOutliveTheirRun(t *testing.T) {
	t.Chdir(t.TempDir())
	first, seed := serveWorker(t, "ann", "127.0.0.1:0", "", "")
	workers := []*process{first}
	for _, name := range []string{"bob", "cy", "di"} {
		w, _ := serveWorker(t, name, "127.0.0.1:0", seed, "")
		workers = append(workers, w)
	}
	p := start(t, append(longRun, "--workers=0", "--join="+seed, "--min-workers=4", "--checkpoint-every=10")...)
	p.until(`"event":"checkpoint"`)
	p.until(`"event":"checkpoint"`)
	p.until(`"event":"step"`) // the copies were made before its update
	p.signal(syscall.SIGKILL)
	p.wait()

	p = start(t, "run", "--resume=a", "--json=-")
	if line := p.until(`"event":"start"`); !strings.Contains(line, `"resumed":"a/checkpoints/step-`) || !strings.Contains(line, `"kept":`) {
		t.Errorf("the run did not go on with what its workers had kept: %s", line)
	}
	p.untilAnswered(1, 2, 3, 4)
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
	for _, w := range workers {
		w.signal(syscall.SIGTERM)
		if _, status := w.wait(); status != exitDone {
			t.Errorf("worker: exit status %d, want 0: %s", status, w.stderr.String())
		}
	}
}

// A worker that is told to stop leaves; it does not fail.
func TestWorkerLeaves(t *testing.T) {
	t.Chdir(t.TempDir())
	first, seed := serveWorker(t, "one-1", "127.0.0.1:0", "", "")
	var others []*process
	for _, name := range []string{"two-2", "three-3"} {
		w, _ := serveWorker(t, name, "127.0.0.1:0", seed, "")
		others = append(others, w)
	}
	p := start(t, append(longRun, "--workers=0", "--join="+seed, "--min-workers=3", "--k=2")...)
	p.untilAnswered(1, 2, 3)
	others[1].signal(syscall.SIGTERM)
	if line := p.until(`"worker":"three-3"`); !strings.Contains(line, `"state":"left"`) {
		t.Errorf("after SIGTERM: %s", line)
	}
	p.untilAnswered(1, 2)
	p.signal(syscall.SIGINT)
	p.wait()
	for _, w := range []*process{first, others[0], others[1]} {
		w.signal(syscall.SIGINT)
		if _, status := w.wait(); status != exitDone {
			t.Errorf("worker: exit status %d, want 0: %s", status, w.stderr.String())
		}
	}
}

// Workers that freeze leave the others too few: with --wait the step is made when
// they thaw. If they die, the run goes back to its checkpoint.
func TestMoreLostThanTheCodeAllows(t *testing.T) {
	t.Chdir(t.TempDir())
	few := []string{"run", "--dataset=synthetic", "--model=mlp", "--steps=12", "--json=-", "--checkpoint-every=5"}
	p := start(t, append(few, "--wait=20s", "--inject=freeze:1+2+3@step=8,for=1s")...)
	rest, status := p.wait()
	if status != exitDone {
		t.Errorf("frozen: exit status %d, want 0: %s", status, p.stderr.String())
	}
	if err := checkEvents([]byte(rest), "done", 12); err != nil {
		t.Errorf("frozen: %v", err)
	}

	p = start(t, append(few, "--wait=20s", "--inject=restart:1+2+3@step=8")...)
	if line := p.until(`"event":"restored"`); !strings.Contains(line, `step-00000005","step":5,"why":"`) {
		t.Errorf("died: %s", line)
	}
	if line := p.until(`"event":"step"`); !strings.Contains(line, `"step":6,`) {
		t.Errorf("died: the first step after the checkpoint is %s", line)
	}
	if rest, status := p.wait(); status != exitDone || !strings.Contains(rest, `"event":"done"`) {
		t.Errorf("died: exit status %d, want 0: %s", status, p.stderr.String())
	}

	p = start(t, append(few, "--inject=kill:1+2+3@step=8")...)
	_, status = p.wait()
	if status != exitFailed {
		t.Errorf("killed without --wait: exit status %d, want %d", status, exitFailed)
	}
	for _, part := range []string{"layer ", "step 8: ", "3 of 4 workers needed are left", "worker-1 (failed", "worker-2 (failed", "worker-3 (failed"} {
		if !strings.Contains(p.stderr.String(), part) {
			t.Errorf("killed without --wait: %q does not name %q", p.stderr.String(), part)
		}
	}
}

// With --verify a worker that answers wrongly does no harm.
func TestVerify(t *testing.T) {
	t.Chdir(t.TempDir())
	common := []string{"run", "--dataset=synthetic", "--model=mlp", "--steps=40", "--json=-"}
	loss := func(rest string) (last float64) {
		for line := range strings.Lines(rest) {
			var e struct{ Loss float64 }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			last = max(last, e.Loss)
		}
		return last
	}
	rest, status := start(t, append(common, "--verify", "--inject=corrupt:2@p=0.5")...).wait()
	if status != exitDone || !strings.Contains(rest, `"worker":"worker-2","state":"quarantined"`) {
		t.Errorf("exit status %d, want 0 after a quarantine: %s", status, rest)
	}
	if err := checkEvents([]byte(rest), "done", 40); err != nil {
		t.Error(err)
	}
	honest, status := start(t, append(common, "--verify")...).wait()
	if status != exitDone || strings.Contains(honest, "quarantined") {
		t.Errorf("exit status %d of a run of honest workers: %s", status, honest)
	}
	if with, without := loss(rest), loss(honest); with > 1.1*without {
		t.Errorf("largest loss %g with a liar, %g without", with, without)
	}
}

// Whatever the placement, of convolutions and of linear layers: a liar is found, and
// nobody else.
func TestVerifyPlacements(t *testing.T) {
	for name, rules := range map[string]string{
		"resident": `{layer: "*", placement: resident}`,
		"batch":    `{layer: "*", placement: batch}`,
		"gradient": `{layer: "*", placement: batch, k: 3, gradient: workers}`,
		"shipped":  `{layer: conv1, placement: local}, {layer: "*", placement: shipped, code: ortho-polynomial}`,
		"summed":   `{layer: conv1, placement: local}, {layer: "*", placement: shipped, code: matdot, k: 3}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("run.yaml", []byte("placements: ["+rules+"]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			rest, status := start(t, "run", "--dataset=synthetic", "--model=lenet", "--steps=30", "--batch=16", "--json=-",
				"-c", "run.yaml", "--verify", "--inject=corrupt:2@p=1").wait()
			if status != exitDone || !strings.Contains(rest, `"worker":"worker-2","state":"quarantined"`) {
				t.Errorf("exit status %d, want 0 after a quarantine: %s", status, rest)
			}
			for _, honest := range []string{"1", "3", "4", "5", "6"} {
				if strings.Contains(rest, `"worker":"worker-`+honest+`","state":"quarantined"`) {
					t.Errorf("worker-%s, which is honest, was quarantined: %s", honest, rest)
				}
			}
		})
	}
}

// Whoever reads the output may go away; what was learnt stays.
func TestClosedOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, longRun...)
	p.until(`"event":"step"`)
	workers := p.workers()
	if err := p.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	if _, status := p.wait(); status != exitFailed || !strings.Contains(p.stderr.String(), "\ntrain: write /dev/stdout: broken pipe\n") {
		t.Errorf("exit status %d, want %d: %s", status, exitFailed, p.stderr.String())
	}
	if saved, err := filepath.Glob("a/checkpoints/step-*"); err != nil || len(saved) != 1 {
		t.Errorf("checkpoints %q, %v; want one of the last step", saved, err)
	}
	gone(t, workers)
}

// A worker that is frozen when the run ends does not keep it.
func TestFrozenAtTheEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, "run", "--dataset=synthetic", "--model=mlp", "--steps=20", "--inject=freeze:3@step=10,for=1h")
	if rest, status := p.wait(); status != exitDone || !strings.Contains(rest, "after 20 steps") {
		t.Errorf("exit status %d, want 0: %s%s", status, rest, p.stderr.String())
	}
}

// serveWorker starts a worker and waits for it; at is where it gossips.
func serveWorker(t *testing.T, name, bind, join, key string) (p *process, at string) {
	t.Helper()
	args := []string{"worker", "--bind=" + bind, "--name=" + name, "--key=" + key}
	if join != "" {
		args = append(args, "--join="+join)
	}
	p = start(t, args...)
	_, at, _ = strings.Cut(strings.TrimSpace(p.until("gossip at")), "gossip at ")
	return p, at
}

// Workers at another address join a run that starts none; those without the
// cluster's key do not.
func TestTwoAddresses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"key", "other"} {
		if _, status := start(t, "keygen", name).wait(); status != exitDone {
			t.Fatalf("keygen: exit status %d", status)
		}
	}
	serve := func(name, join, key string) (p *process, at string) {
		t.Helper()
		return serveWorker(t, name, "127.0.0.2:0", join, key)
	}
	first, seed := serve("one-1", "", "key")
	second, _ := serve("two-2", seed, "key")
	third, _ := serve("three-3", seed, "key")
	stranger, _ := serve("four-4", seed, "other")
	keyless, _ := serve("five-5", seed, "")

	p := start(t, "run", "--dataset=synthetic", "--model=mlp", "--steps=10", "--json=-",
		"--workers=0", "--bind=127.0.0.1:0", "--key=key", "--join="+seed, "--min-workers=3")
	rest, status := p.wait()
	if status != exitDone || !strings.Contains(rest, `"workers":["one-1","two-2","three-3"],`) {
		t.Errorf("exit status %d: %s%s", status, rest, p.stderr.String())
	}
	if err := checkEvents([]byte(rest), "done", 10); err != nil {
		t.Error(err)
	}
	for _, w := range []*process{first, second, third, stranger, keyless} {
		w.signal(syscall.SIGINT)
		if _, status := w.wait(); status != exitDone {
			t.Errorf("worker: exit status %d, want 0: %s", status, w.stderr.String())
		}
	}
}
