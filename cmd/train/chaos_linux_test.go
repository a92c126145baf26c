package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A short run over real processes: every product is right and nothing is left.
func TestChaosRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// It waits for the gossip to forget the dead, and more than once.
	p := spawn(t, 4*processTime, exe, "train", "chaos", "--rounds=60", "--workers=5", "--k=3", "--spares=1", "--faults=kill,leave,freeze,partition,corrupt", "--json=-")
	rest, status := p.wait()
	if status != exitDone {
		t.Fatalf("exit status %d: %s%s", status, rest, p.stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	if !strings.HasPrefix(lines[0], `{"event":"start","system":"coda","seed":1,"workers":5,"k":3,"spares":1,`) {
		t.Errorf("the first event is %s", lines[0])
	}
	var done chaosDone
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &done); err != nil {
		t.Fatal(err)
	}
	faults := 0
	for _, n := range done.Faults {
		faults += n
	}
	if done.Event != "done" || done.Rounds < 60 || faults < 2 || done.Worst <= 0 || done.Worst > chaosTolerance ||
		done.Events["joined"] < 6 || done.Begin.Goroutines == 0 || done.End.ElderRSS == 0 {
		t.Errorf("the last event is %s", lines[len(lines)-1])
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// A worker that lies is found out by the comparison, and the run says where.
func TestChaosFindsWrongProducts(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := start(t, "chaos", "--workers=3", "--k=2", "--spares=0", "--faults=corrupt", "--no-verify", "--seed=3")
	_, status := p.wait()
	said := p.stderr.String()
	if status != exitFailed || !strings.HasPrefix(said, "train: chaos: seed 3: round ") || !strings.Contains(said, "product differs by ") {
		t.Fatalf("exit status %d: %s", status, said)
	}
	_, dir, _ := strings.Cut(strings.TrimSuffix(said, ")\n"), "events and logs are in ")
	text, err := os.ReadFile(dir + "/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	struck := slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, `"what":"corrupt"`) })
	if !struck || !strings.HasPrefix(lines[len(lines)-1], `{"event":"error","message":"round `) {
		t.Errorf("events: %s", text)
	}
}

func TestChaosIsInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := start(t, "chaos", "--json=-")
	p.until(`"event":"fault"`)
	workers := p.workers()
	p.signal(syscall.SIGINT)
	if _, status := p.wait(); status != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", status, exitInterrupted, p.stderr.String())
	}
	gone(t, workers)
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
