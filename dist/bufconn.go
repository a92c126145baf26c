package dist

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// ioBuffer is the size of the buffers on both sides of the socket. A TLS
// record is 16 KiB: without a buffer each one would cost a system call.
const ioBuffer = 256 << 10

// bufConn lies between a socket and TLS (or the frames, without TLS). While
// held, writes are gathered until the buffer is full or the hold is released;
// reads always go through a buffer.
type bufConn struct {
	net.Conn
	r *bufio.Reader // one goroutine reads

	mu   sync.Mutex // TLS may write from Read too
	held bool
	w    *bufio.Writer
}

func newBufConn(c net.Conn) *bufConn {
	return &bufConn{Conn: c, r: bufio.NewReaderSize(c, ioBuffer), w: bufio.NewWriterSize(c, ioBuffer)}
}

func (b *bufConn) Read(p []byte) (int, error) { return b.r.Read(p) }

func (b *bufConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.w.Write(p)
	if err == nil && !b.held {
		err = b.w.Flush()
	}
	return n, err
}

// hold starts to gather writes.
func (b *bufConn) hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = true
}

// release ends the gathering and writes what was gathered.
func (b *bufConn) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = false
	return b.w.Flush()
}

// aLongTimeAgo as a deadline ends what waits now.
var aLongTimeAgo = time.Unix(1, 0)
