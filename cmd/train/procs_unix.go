//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// detach keeps the terminal's Ctrl-C from reaching the worker: the run tells it when to leave.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

var (
	stopSignal     os.Signal = syscall.SIGSTOP
	continueSignal os.Signal = syscall.SIGCONT
)

// resume lets a frozen process go on, so that it can leave. An ended process is no error.
func resume(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// processorTime is what this process has used of all processors; 0 if unknown.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
