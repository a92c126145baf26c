package main

import (
	"bufio"
	"context"
	"encoding/hex"
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
	return w.serve(conn, token)
}

// serve works through tasks until the other side closes the connection, and closes
// it.
func (w *exactCmd) serve(conn *exactConn, token []byte) error {
	a, b, c := warmVector(w.Rows*w.Inner), warmVector(w.Inner*w.Cols), warmVector(w.Rows*w.Cols)
	r := &exactReader{conn: conn, into: []*exact.Vector{a, b}, tasks: make(chan int)}
	defer func() {
		_ = conn.c.Close() // ends the reader
		for range r.tasks {
		}
	}()
	if err := exact.Multiply(nil, c, *a, *b, w.Rows, w.Inner, w.Cols); err != nil { // takes the memory
		close(r.tasks)
		return err
	}
	go r.run()
	if err := conn.write(token); err != nil {
		return err
	}
	for task := range r.tasks {
		began := time.Now()
		if err := exact.Multiply(nil, c, *a, *b, w.Rows, w.Inner, w.Cols); err != nil {
			return fmt.Errorf("task %d: %w", task, err)
		}
		f := exactFrame{kind: exactResult, task: task, nanos: int64(time.Since(began)), vectors: []*exact.Vector{c}}
		if r.cancelled.Load() == int64(task)+1 {
			f.vectors = nil
		}
		if _, err := conn.send(f); err != nil {
			return err
		}
	}
	return r.err
}

// exactReader reads a worker's frames on a goroutine of its own, so that a
// cancellation is seen while a task is computed. A task that has begun is
// finished, but its result is not sent.
type exactReader struct {
	conn      *exactConn
	into      []*exact.Vector // not written to before the last task has been answered
	tasks     chan int        // unbuffered; closed when the connection ends
	cancelled atomic.Int64    // the task, plus 1
	err       error           // set before tasks is closed: what ended it, if it is not the peer's wish
}

func (r *exactReader) run() {
	defer close(r.tasks)
	for {
		f, err := r.conn.receive(r.into)
		switch {
		case err == io.EOF:
			return
		case err != nil:
			r.err = err
			return
		case f.kind == exactTask && len(f.vectors) == len(r.into):
			r.cancelled.Store(0)
			r.tasks <- f.task
		case f.kind == exactCancel:
			r.cancelled.Store(int64(f.task) + 1)
		default:
			r.err = fmt.Errorf("frame of kind %d with %d vectors", f.kind, len(f.vectors))
			return
		}
	}
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
