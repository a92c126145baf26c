package dist

import (
	"net"
	"sync"
	"time"
)

// ioBuffer is the size of the buffers on both sides of the socket. A TLS
// record is 16 KiB: without a buffer each one would cost a system call. More
// than a few records would leave the nearer caches.
const ioBuffer = 128 << 10

// bufConn lies between a socket and TLS (or the frames, without TLS). While
// held, writes are gathered until the buffer is full or the hold is released.
// Reads go through a buffer once it is grown. What is as large as the buffer
// passes by it.
type bufConn struct {
	net.Conn

	in    []byte // read and not yet given; one goroutine reads
	inBuf []byte // nil until grown: a stranger gets no memory

	mu   sync.Mutex // TLS may write from Read too
	held bool
	out  []byte // gathered; its capacity is the buffer
}

// grow makes the read buffer. It is called by the goroutine that reads.
func (b *bufConn) grow() { b.inBuf = make([]byte, ioBuffer) }

func (b *bufConn) Read(p []byte) (int, error) {
	if len(b.in) == 0 {
		if len(p) >= len(b.inBuf) {
			return b.Conn.Read(p)
		}
		n, err := b.Conn.Read(b.inBuf)
		if n == 0 {
			return 0, err // an error that comes with bytes comes again without
		}
		b.in = b.inBuf[:n]
	}
	n := copy(p, b.in)
	b.in = b.in[n:]
	return n, nil
}

func (b *bufConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.out)+len(p) > cap(b.out) {
		if err := b.flush(); err != nil {
			return 0, err
		}
	}
	if !b.held || len(p) > cap(b.out) {
		return b.Conn.Write(p)
	}
	b.out = append(b.out, p...)
	return len(p), nil
}

// hold starts to gather writes.
func (b *bufConn) hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out == nil {
		b.out = make([]byte, 0, ioBuffer)
	}
	b.held = true
}

// release ends the gathering and writes what was gathered.
func (b *bufConn) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = false
	return b.flush()
}

// flush needs mu. After an error the stream is broken, whatever was gathered.
func (b *bufConn) flush() error {
	if len(b.out) == 0 {
		return nil
	}
	_, err := b.Conn.Write(b.out)
	b.out = b.out[:0]
	return err
}

// aLongTimeAgo as a deadline ends what waits now.
var aLongTimeAgo = time.Unix(1, 0)
