package main

import (
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A worker process inherits the slack, and the thread that started it keeps its own.
func TestWorkersHaveSlack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), "cat", "/proc/self/timerslack_ns")
	cmd.Stdout = &out
	if err := begin(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := strconv.Itoa(int(workerSlack)); strings.TrimSpace(out.String()) != want {
		t.Errorf("slack of a worker's timers is %q ns, want %s", out.String(), want)
	}
	after, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || after != before || after == int(workerSlack) {
		t.Errorf("slack of this thread's timers is %d ns after and %d before, %v", after, before, err)
	}
}
