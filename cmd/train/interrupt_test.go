package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lines takes what is written, a line at a time.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// The first interrupt ends the context, the second the process; who has to wait between
// them is told so, once.
func TestTwoInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		signals, done := make(chan os.Signal), make(chan struct{})
		said, exits := make(lines, 3), make(chan int, 1)
		go hearInterrupts(signals, done, cancel, said, func(status int) { exits <- status })

		signals <- os.Interrupt
		signals <- os.Interrupt // the same one, by another way
		synctest.Wait()
		if context.Cause(ctx) != errInterrupted || len(exits) > 0 || len(said) > 0 {
			t.Errorf("after one: cause %v, %d exits, %d lines; want no more than an end of the context", context.Cause(ctx), len(exits), len(said))
		}
		time.Sleep(10 * endTime)
		synctest.Wait()
		if len(said) != 1 {
			t.Fatalf("while it ends: %d lines", len(said))
		}
		if line := <-said; !strings.Contains(line, "a second interrupt ends at once") {
			t.Errorf("while it ends: %q", line)
		}
		signals <- os.Interrupt
		synctest.Wait()
		if len(exits) != 1 || len(said) != 1 {
			t.Fatalf("after two: %d exits, %d lines", len(exits), len(said))
		}
		if status, line := <-exits, <-said; status != exitInterrupted || line != "train: interrupted twice: ended at once\n" {
			t.Errorf("after two: exit status %d, said %q", status, line)
		}
	})
}

// A command that ends by itself, or in order, is not kept.
func TestNoInterrupt(t *testing.T) {
	for _, first := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, cancel := context.WithCancelCause(t.Context())
			signals, done := make(chan os.Signal), make(chan struct{})
			exit := func(int) { t.Error("the process has ended") }
			go hearInterrupts(signals, done, cancel, t.Output(), exit)
			if first {
				signals <- os.Interrupt
			}
			close(done)
		})
	}
}

// What an interrupt has ended says where it was, or no more than that.
func TestInterruptIsOneLine(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	where := interruptedError{"after step 3"}
	if isInterrupt(ctx, where) || isInterrupt(ctx, context.Canceled) {
		t.Error("an interrupt that nobody made")
	}
	cancel(errInterrupted)
	for _, err := range []error{where, errInterrupted, context.Canceled} {
		if !isInterrupt(ctx, err) {
			t.Errorf("%v is no interrupt", err)
		}
	}
	if isInterrupt(ctx, nil) || isInterrupt(ctx, os.ErrNotExist) {
		t.Error("another error is an interrupt")
	}
}
