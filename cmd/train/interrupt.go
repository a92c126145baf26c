package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// errInterrupted ends a command that the user has interrupted.
var errInterrupted = errors.New("interrupted")

// interruptedError is an errInterrupted that says where the command was, and what is left
// of it.
type interruptedError struct{ where string }

func (e interruptedError) Error() string { return "interrupted " + e.where }

func (interruptedError) Is(target error) bool { return target == errInterrupted }

// isInterrupt tells whether an error is but the end of a context that the user has ended.
func isInterrupt(ctx context.Context, err error) bool {
	return context.Cause(ctx) == errInterrupted && (errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled))
}

// endTime is how long a command may take to end in order before it says that it does.
// Signals within oneInterrupt are one: timeout(1) sends its own to the process and to the
// process's group.
const (
	endTime      = 2 * time.Second
	oneInterrupt = 250 * time.Millisecond
)

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP
// cancels with errInterrupted; a second one ends the process at once, of which whoever
// has to wait is told. A process that was started to ignore SIGHUP, by nohup, goes on to
// do so. A reader of standard output that goes away ends the process by an error, in
// order.
func interruptible(parent context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	signal.Ignore(syscall.SIGPIPE)
	done := make(chan struct{})
	go hearInterrupts(signals, done, cancel, stderr, os.Exit)
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// hearInterrupts cancels at the first signal and exits at the second, until done is closed.
func hearInterrupts(signals <-chan os.Signal, done <-chan struct{}, cancel context.CancelCauseFunc, stderr io.Writer, exit func(status int)) {
	select {
	case <-signals:
		cancel(errInterrupted)
	case <-done:
		return
	}
	began := time.Now()
	slow := time.NewTimer(endTime)
	defer slow.Stop()
	for {
		select {
		case <-slow.C:
			fmt.Fprintln(stderr, "train: interrupted, and ending in order; a second interrupt ends at once")
		case <-signals:
			if time.Since(began) < oneInterrupt {
				continue
			}
			fmt.Fprintln(stderr, "train: interrupted twice: ended at once")
			exit(exitInterrupted)
			return
		case <-done:
			return
		}
	}
}
