package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"time"
	"unsafe"

	"github.com/coda-ml/coda/coded/exact"
)

// The exact benchmark has a wire of its own, since the cluster's carries float32
// alone: TCP on loopback without TLS, in frames of
//
//	uint32 x 3   kind, task, number of vectors
//	uint64       nanoseconds
//	vectors      uint32 elements, uint32 carries, uint16 x elements, uint32 x carries
//	uint32       CRC-32C of all that
//
// with integers little-endian.
type exactFrame struct {
	kind    exactKind
	task    int
	nanos   int64
	vectors []*exact.Vector
}

type exactKind uint32

const (
	exactTask   exactKind = iota + 1 // to a worker: multiply these two
	exactCancel                      // to a worker: do not send the result of the task
	exactResult                      // from a worker: the product; none, if it was cancelled
)

const (
	exactHeader = 3*4 + 8
	exactPiece  = 256 << 10
	exactStall  = 30 * time.Second // for a piece to pass
	exactToken  = 32               // bytes that a worker begins with, a secret of the run
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// exactConn carries frames. Send is for one goroutine at a time, and so is receive.
type exactConn struct {
	c        net.Conn
	in, out  uint32 // checksums of the frames under way
	received int64
}

func (c *exactConn) write(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), exactPiece)]
		p = p[len(piece):]
		c.out = crc32.Update(c.out, castagnoli, piece)
		if err := c.c.SetWriteDeadline(time.Now().Add(exactStall)); err != nil {
			return err
		}
		if _, err := c.c.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func (c *exactConn) read(p []byte) error {
	for len(p) > 0 {
		piece := p[:min(len(p), exactPiece)]
		p = p[len(piece):]
		if err := c.c.SetReadDeadline(time.Now().Add(exactStall)); err != nil {
			return err
		}
		if _, err := io.ReadFull(c.c, piece); err != nil {
			return err
		}
		c.in = crc32.Update(c.in, castagnoli, piece)
		c.received += int64(len(piece))
	}
	return nil
}

// send writes a frame and returns its length.
func (c *exactConn) send(f exactFrame) (n int64, err error) {
	c.out = 0
	head := make([]byte, 0, exactHeader)
	for _, v := range []int{int(f.kind), f.task, len(f.vectors)} {
		head = binary.LittleEndian.AppendUint32(head, uint32(v))
	}
	head = binary.LittleEndian.AppendUint64(head, uint64(f.nanos))
	err = c.write(head)
	n = exactHeader + 4
	for _, v := range f.vectors {
		if err == nil {
			err = c.sendVector(v)
		}
		n += int64(8 + 2*len(v.Low) + 4*len(v.Carry))
	}
	if err == nil {
		err = c.write(binary.LittleEndian.AppendUint32(nil, c.out))
	}
	if err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	return n, nil
}

func (c *exactConn) sendVector(v *exact.Vector) error {
	tail := make([]byte, 0, 4*len(v.Carry))
	for _, i := range v.Carry {
		tail = binary.LittleEndian.AppendUint32(tail, uint32(i))
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(v.Low)))
	return errors.Join(c.write(binary.LittleEndian.AppendUint32(head, uint32(len(v.Carry)))), c.writeElements(v.Low), c.write(tail))
}

// littleEndian says that elements lie in memory as they go on the wire.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// elementBytes views elements as bytes, in the machine's own order.
func elementBytes(x []uint16) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

func (c *exactConn) writeElements(x []uint16) error {
	if littleEndian {
		return c.write(elementBytes(x))
	}
	p := make([]byte, 0, 2*len(x))
	for _, v := range x {
		p = binary.LittleEndian.AppendUint16(p, v)
	}
	return c.write(p)
}

func (c *exactConn) readElements(x []uint16) error {
	p := elementBytes(x)
	if err := c.read(p); err != nil || littleEndian {
		return err
	}
	for i := range x {
		x[i] = binary.LittleEndian.Uint16(p[2*i:])
	}
	return nil
}

// receive reads a frame, vector i into into[i], whose number of elements it must
// have. io.EOF means that the peer went away between two frames.
func (c *exactConn) receive(into []*exact.Vector) (f exactFrame, err error) {
	var head [exactHeader]byte
	if err := c.c.SetReadDeadline(time.Time{}); err != nil {
		return f, err
	}
	// Only before the first byte is an end clean, and a wait of any length.
	if _, err := io.ReadFull(c.c, head[:1]); err != nil {
		return f, err
	}
	c.in = crc32.Update(0, castagnoli, head[:1])
	c.received++
	if err = c.read(head[1:]); err == nil {
		err = c.receiveRest(&f, head[:], into)
	}
	if err != nil {
		return f, fmt.Errorf("receive: %w", err)
	}
	return f, nil
}

func (c *exactConn) receiveRest(f *exactFrame, head []byte, into []*exact.Vector) error {
	word := func(i int) int { return int(binary.LittleEndian.Uint32(head[4*i:])) }
	f.kind, f.task, f.nanos = exactKind(word(0)), word(1), int64(binary.LittleEndian.Uint64(head[12:]))
	n := word(2)
	if n > len(into) {
		return fmt.Errorf("frame of %d vectors, want at most %d", n, len(into))
	}
	f.vectors = into[:n]
	for _, v := range f.vectors {
		if err := c.receiveVector(v); err != nil {
			return err
		}
	}
	want := c.in
	var sum [4]byte
	if err := c.read(sum[:]); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(sum[:]); got != want {
		return fmt.Errorf("checksum %08x, computed %08x", got, want)
	}
	return nil
}

func (c *exactConn) receiveVector(v *exact.Vector) error {
	var head [8]byte
	if err := c.read(head[:]); err != nil {
		return err
	}
	n, carries := int(binary.LittleEndian.Uint32(head[:])), int(binary.LittleEndian.Uint32(head[4:]))
	if n != len(v.Low) || carries > n {
		return fmt.Errorf("vector of %d elements with %d carries, want %d elements", n, carries, len(v.Low))
	}
	v.Carry = v.Carry[:0]
	if err := c.readElements(v.Low); err != nil {
		return err
	}
	tail := make([]byte, 4*carries)
	if err := c.read(tail); err != nil {
		return err
	}
	for ; len(tail) > 0; tail = tail[4:] {
		v.Carry = append(v.Carry, int(binary.LittleEndian.Uint32(tail)))
	}
	return nil
}
