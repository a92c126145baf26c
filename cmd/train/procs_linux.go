package main

import (
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// workerSlack is by how much the kernel may be late to wake a thread of a worker process
// that sleeps for a time. While any goroutine runs, the monitor of Go's runtime gets up
// every 20 us and, with the usual slack, 50 us: many workers on one machine lose a tenth
// of its processors to that. An alarm is not late for it (see package alarm).
const workerSlack = 500 * time.Microsecond

// begin starts the process of a worker with workerSlack, which it inherits from the
// thread that starts it. Where the kernel does not know slack, it starts without.
func begin(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if own, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil {
		setSlack(workerSlack)
		defer setSlack(time.Duration(own))
	}
	return cmd.Start()
}

// setSlack changes the slack of the calling thread. It fails only where there is none.
func setSlack(d time.Duration) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d), 0, 0, 0)
}
