package main

import (
	"strings"
	"syscall"
	"testing"
)

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

// Workers that join tell their pace, and auto asks the planner: slower than this machine,
// they get nothing, and the run says why.
func TestAutoPlansForThoseWhoJoin(t *testing.T) {
	t.Chdir(t.TempDir())
	first, seed := serveWorker(t, "one-1", "127.0.0.1:0", "", "", "--pace=0.001")
	second, _ := serveWorker(t, "two-2", "127.0.0.1:0", seed, "", "--pace=0.002")
	p := start(t, "run", "--dataset=synthetic", "--model=mlp", "--steps=3", "--json=-", "--workers=0", "--join="+seed, "--min-workers=2", "--k=1")
	rest, status := p.wait()
	if status != exitDone {
		t.Errorf("exit status %d: %s%s", status, rest, p.stderr.String())
	}
	for _, part := range []string{
		`"layer":"fc1","placement":"local","reason":"`, "the workers' part alone takes", `"plan":{"step_ms":`, `"speeds_gflops":[0.00`,
	} {
		if !strings.Contains(rest, part) {
			t.Errorf("events %s, want one with %s", rest, part)
		}
	}
	for _, w := range []*process{first, second} {
		w.signal(syscall.SIGINT)
		if _, status := w.wait(); status != exitDone {
			t.Errorf("worker: exit status %d, want 0: %s", status, w.stderr.String())
		}
	}
}
