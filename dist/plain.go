package dist

import (
	"net"
	"time"
)

// ioBuffer is the size of the buffers on both sides of a socket without
// encryption. More would leave the nearer caches.
const ioBuffer = 128 << 10

// plainStream lies between a connection without encryption and the frames.
// While held, writes are gathered until the buffer is full or the hold is
// released. What is as large as the buffer passes by it, both ways.
type plainStream struct {
	c net.Conn

	in    []byte // read and not yet given; one goroutine reads
	inBuf []byte

	held bool   // one goroutine writes
	out  []byte // gathered; its capacity is the buffer
}

func newPlainStream(c net.Conn) *plainStream {
	return &plainStream{c: c, inBuf: make([]byte, ioBuffer)}
}

func (b *plainStream) Read(p []byte) (int, error) {
	if len(b.in) == 0 {
		if len(p) >= len(b.inBuf) {
			return b.c.Read(p)
		}
		n, err := b.c.Read(b.inBuf)
		if n == 0 {
			return 0, err // an error that comes with bytes comes again without
		}
		b.in = b.inBuf[:n]
	}
	n := copy(p, b.in)
	b.in = b.in[n:]
	return n, nil
}

func (b *plainStream) Write(p []byte) (int, error) {
	if len(b.out)+len(p) > cap(b.out) {
		if err := b.flush(); err != nil {
			return 0, err
		}
	}
	if !b.held || len(p) > cap(b.out) {
		return b.c.Write(p)
	}
	b.out = append(b.out, p...)
	return len(p), nil
}

// hold starts to gather writes.
func (b *plainStream) hold() {
	if b.out == nil {
		b.out = make([]byte, 0, ioBuffer)
	}
	b.held = true
}

// release ends the gathering and writes what was gathered.
func (b *plainStream) release() error {
	b.held = false
	return b.flush()
}

// flush writes what was gathered. After an error the stream is broken.
func (b *plainStream) flush() error {
	if len(b.out) == 0 {
		return nil
	}
	_, err := b.c.Write(b.out)
	b.out = b.out[:0]
	return err
}

// aLongTimeAgo as a deadline ends what waits now.
var aLongTimeAgo = time.Unix(1, 0)
