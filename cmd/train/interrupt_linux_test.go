package main

import (
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

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

// A run that has not made a step leaves nothing, whatever it was doing.
func TestInterruptBeforeTheFirstStep(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, status := start(t, "keygen", "key").wait(); status != exitDone {
		t.Fatalf("keygen: exit status %d", status)
	}
	p := start(t, "run", "--dataset=synthetic", "--model=mlp", "--workers=1", "--n=3", "--k=2", "--key=key", "--min-workers=3", "--out=a/b")
	p.until("waiting for workers, at least 3; gossip at 127.0.0.1:")
	p.signal(syscall.SIGINT)
	_, status := p.wait()
	if said := p.stderr.String(); status != exitInterrupted || !strings.Contains(said, "train: interrupted while ") || !strings.HasSuffix(said, ", before the first step\n") {
		t.Errorf("exit status %d, standard error %q; want %d and a line that says where", status, said, exitInterrupted)
	}
	if exists("a") {
		t.Error("a run folder is left")
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
