package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coda-ml/coda/internal/kernel"
)

// busy is how long TestBusyCores goes on. By hand:
//
//	go test ./cmd/train -run TestBusyCores -v -busy 10m -timeout 15m
var busy = flag.Duration("busy", 2*time.Second, "how long TestBusyCores keeps every core busy")

func init() { programs["busytrain"] = busyMain }

// busyMain is train with every core busy besides, in this process and in those of
// its workers.
func busyMain() {
	for range runtime.NumCPU() {
		go func() {
			const n = 128
			a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
			for {
				kernel.Gemm(nil, false, false, n, n, n, 1, a, n, b, n, 0, c, n)
			}
		}()
	}
	main()
}

// However busy the cores are, nobody is taken for dead.
func TestBusyCores(t *testing.T) {
	t.Chdir(t.TempDir())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := spawn(t, *busy+4*processTime, exe, append([]string{"busytrain"}, longRun...)...)
	steps := 0
	p.until(`"event":"step"`)
	for began := time.Now(); time.Since(began) < *busy; steps++ {
		p.until(`"event":"step"`)
	}
	text, err := os.ReadFile("a/metrics.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"failed", "left"} {
		if n := strings.Count(string(text), `"state":"`+state+`"`); n > 0 {
			t.Errorf("%d workers %s in %d steps", n, state, steps)
		}
	}
	t.Logf("%d steps in %v; %d times a worker was stale; suspicions by log: %v", steps, *busy,
		strings.Count(string(text), `"state":"stale"`), suspicions(t))
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
}

// suspicions counts, by log, how often the gossip has doubted a node.
func suspicions(t *testing.T) map[string]int {
	t.Helper()
	logs, err := filepath.Glob("a/logs/*.log")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		counts[filepath.Base(name)] = strings.Count(string(text), "uspect")
	}
	return counts
}
