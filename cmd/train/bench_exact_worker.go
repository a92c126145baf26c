package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded/exact"
)

// exactCmd is a worker process of the exact benchmark: it multiplies what it
// is sent, on one thread, and ends with its connection.
type exactCmd struct {
	Addr  string `arg:"" help:"Address of the benchmark."`
	Rows  int    `arg:"" help:"Rows of a task's product."`
	Inner int    `arg:"" help:"Terms of its sums."`
	Cols  int    `arg:"" help:"Its columns."`
}

// exactLimit bounds the elements of a worker's matrices.
const exactLimit = 1 << 28

// Run serves until the benchmark closes the connection or the context ends. The
// first line of standard input is the token that proves that the benchmark started
// it, in hexadecimal.
func (w *exactCmd) Run(ctx context.Context, _ terminal) error {
	if w.Rows < 1 || w.Inner < 1 || w.Cols < 1 || max(w.Rows, w.Cols) > exactLimit/w.Inner || w.Rows > exactLimit/w.Cols {
		return usageError{fmt.Errorf("sizes %d, %d, %d: want at least 1 each and at most %d elements", w.Rows, w.Inner, w.Cols, exactLimit)}
	}
	line, err := bufio.NewReaderSize(os.Stdin, maxKeyLine).ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	token, err := hex.DecodeString(string(line[:len(line)-1]))
	if err != nil || len(token) != exactToken {
		return fmt.Errorf("token of %d bytes, want %d: %w", len(token), exactToken, err)
	}
	runtime.GOMAXPROCS(1)
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.Addr)
	if err != nil {
		return err
	}
	conn := &exactConn{c: c}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	return errors.Join(w.serve(conn, token), c.Close())
}

// serve works through tasks. Frames are read by a goroutine of their own, which
// ends with the connection: it sees a cancellation while a task is computed.
func (w *exactCmd) serve(conn *exactConn, token []byte) error {
	a, b, c := warmVector(w.Rows*w.Inner), warmVector(w.Inner*w.Cols), warmVector(w.Rows*w.Cols)
	if err := exact.Multiply(nil, c, *a, *b, w.Rows, w.Inner, w.Cols); err != nil { // takes the memory
		return err
	}
	if err := conn.write(token); err != nil {
		return err
	}
	var cancelled atomic.Int64 // the task, plus 1
	tasks, ended := make(chan int), make(chan error, 1)
	go func() {
		defer close(tasks)
		for {
			f, err := conn.receive([]*exact.Vector{a, b})
			if err != nil {
				ended <- err
				return
			}
			if f.kind == exactTask && len(f.vectors) == 2 {
				cancelled.Store(0)
				tasks <- f.task
			} else if f.kind == exactCancel {
				cancelled.Store(int64(f.task) + 1)
			}
		}
	}()
	for task := range tasks {
		began := time.Now()
		if err := exact.Multiply(nil, c, *a, *b, w.Rows, w.Inner, w.Cols); err != nil {
			return fmt.Errorf("task %d: %w", task, err)
		}
		f := exactFrame{kind: exactResult, task: task, nanos: int64(time.Since(began)), vectors: []*exact.Vector{c}}
		if cancelled.Load() == int64(task)+1 {
			f.vectors = nil
		}
		if _, err := conn.send(f); err != nil {
			return err
		}
	}
	if err := <-ended; err != io.EOF {
		return err
	}
	return nil
}

// warmVector returns a vector whose memory has been written to, so that the first
// task does not pay for its pages.
func warmVector(n int) *exact.Vector {
	v := newVector(n)
	for i := range v.Low {
		v.Low[i] = 1
	}
	return v
}
