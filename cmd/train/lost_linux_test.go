package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
)

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

// A worker that is frozen when the run ends does not keep it.
func TestFrozenAtTheEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	p := start(t, "run", "--dataset=synthetic", "--model=mlp", "--steps=20", "--inject=freeze:3@step=10,for=1h")
	if rest, status := p.wait(); status != exitDone || !strings.Contains(rest, "after 20 steps") {
		t.Errorf("exit status %d, want 0: %s%s", status, rest, p.stderr.String())
	}
}
