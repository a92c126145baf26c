package dist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
)

// A frame is
//
//	uint32   length of the header
//	header   msgpack map, whose first key is the version
//	tensors  float32, little-endian, in the order of the header's shapes
//	uint32   CRC-32C of header and tensors; absent inside of segments
//
// with integers little-endian. Nothing is allocated for a number that a frame
// claims before that number has been held against its bound.

// Bounds of a frame.
const (
	maxHeader  = 64 << 10 // bytes of the header
	maxTensors = 64       // tensors of a message
	maxDims    = 8        // dimensions of a tensor
	// DefaultMaxBytes bounds the tensors of one message if nothing else is said.
	DefaultMaxBytes = 1 << 30
)

const dtypeF32 = "f32"

// Errors of frames. Those that arrive are wrapped with what was found and what
// was expected; after one of them the connection cannot be used any more.
var (
	ErrFrameSize     = errors.New("frame exceeds a limit")
	ErrFrameHeader   = errors.New("frame header is malformed")
	ErrFrameVersion  = errors.New("frame is of another protocol version")
	ErrFrameShape    = errors.New("frame has an invalid tensor")
	ErrFrameChecksum = errors.New("frame checksum does not match")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksums are there unless the stream vouches for the bytes.
type checksums struct{ absent bool }

func (c checksums) update(sum uint32, p []byte) uint32 {
	if c.absent {
		return 0
	}
	return crc32.Update(sum, castagnoli, p)
}

// bulkChunk is the piece in which tensors are summed and moved: it stays in
// the second-level cache between the two, and every piece gets a deadline.
const bulkChunk = 256 << 10

// frameWriter writes messages. The zero value of progress is allowed: it is
// called before each piece, to set a deadline.
type frameWriter struct {
	w        io.Writer
	limit    int64
	progress func() error
	sums     checksums

	head    bytes.Buffer
	tail    [4]byte
	enc     *msgpack.Encoder
	header  Header
	shapes  [][]int
	scratch []byte
}

func newFrameWriter(w io.Writer, limit int64) *frameWriter {
	fw := &frameWriter{w: w, limit: limit}
	fw.enc = msgpack.NewEncoder(&fw.head)
	fw.enc.UseCompactInts(true) // Reset would forget it
	return fw
}

// prepare checks the message and encodes its header. An error here has left
// nothing on the wire.
func (fw *frameWriter) prepare(m *Message) error {
	defer fw.forget()
	// m may be on its way to several peers at once: it is not written to.
	fw.header = m.Header
	fw.header.Version = protocolVersion
	fw.header.Shapes, fw.header.DType = nil, ""
	if len(m.Tensors) > 0 {
		for i, t := range m.Tensors {
			if n, err := sizeOf(t.Shape); err != nil || n != int64(len(t.Data)) {
				return errors.Join(fmt.Errorf("%w: tensor %d of shape %v holds %d values", ErrFrameShape, i, t.Shape, len(t.Data)), err)
			}
			fw.shapes = append(fw.shapes, t.Shape)
		}
		fw.header.Shapes, fw.header.DType = fw.shapes, dtypeF32
	}
	if _, err := checkShapes(&fw.header, fw.limit); err != nil {
		return err
	}
	fw.head.Reset()
	fw.head.Write(fw.tail[:]) // room for the length
	if err := encodeHeader(fw.enc, &fw.header); err != nil {
		return fmt.Errorf("%w: %w", ErrFrameHeader, err)
	}
	n := fw.head.Len() - 4
	if n > maxHeader {
		return fmt.Errorf("%w: header of %d bytes, at most %d", ErrFrameSize, n, maxHeader)
	}
	binary.LittleEndian.PutUint32(fw.head.Bytes(), uint32(n))
	return nil
}

// forget drops the references to the caller's data.
func (fw *frameWriter) forget() {
	clear(fw.shapes)
	fw.shapes = fw.shapes[:0]
	fw.header = Header{}
}

// write sends the message that was prepared. It returns the bytes of the frame
// that were handed on.
func (fw *frameWriter) write(m *Message) (int64, error) {
	head := fw.head.Bytes()
	sum := fw.sums.update(0, head[4:])
	total, err := fw.piece(head)
	for _, t := range m.Tensors {
		for data := t.Data; len(data) > 0 && err == nil; {
			chunk := data[:min(len(data), bulkChunk/4)]
			data = data[len(chunk):]
			raw := fw.bytesOf(chunk)
			sum = fw.sums.update(sum, raw)
			var n int64
			n, err = fw.piece(raw)
			total += n
		}
	}
	if err != nil || fw.sums.absent {
		return total, err
	}
	binary.LittleEndian.PutUint32(fw.tail[:], sum)
	n, err := fw.piece(fw.tail[:])
	return total + n, err
}

func (fw *frameWriter) piece(p []byte) (int64, error) {
	if fw.progress != nil {
		if err := fw.progress(); err != nil {
			return 0, err
		}
	}
	n, err := fw.w.Write(p)
	return int64(n), err
}

// bytesOf gives the little-endian bytes of at most bulkChunk/4 floats.
func (fw *frameWriter) bytesOf(f []float32) []byte {
	if littleEndian {
		return floatBytes(f)
	}
	if fw.scratch == nil {
		fw.scratch = make([]byte, bulkChunk)
	}
	return putFloats(fw.scratch, f)
}

// frameReader reads messages. progress is called before each piece but the
// first four bytes of a frame, before which start is called; either may be nil.
type frameReader struct {
	r        io.Reader
	limit    int64
	alloc    func(n int) []float32
	start    func() error
	progress func() error
	sums     checksums

	read    int64   // bytes of frames read so far
	word    [4]byte // the length of the header, and the checksum
	head    []byte
	src     bytes.Reader
	dec     *msgpack.Decoder
	scratch []byte
}

func newFrameReader(r io.Reader, limit int64) *frameReader {
	fr := &frameReader{r: r, limit: limit}
	fr.dec = msgpack.NewDecoder(&fr.src)
	return fr
}

// next reads one message into m, whatever m held. io.EOF means that the peer
// closed the connection between two frames. After an error m.Tensors holds the
// buffers that were taken from alloc.
func (fr *frameReader) next(m *Message) error {
	m.Header = Header{}
	m.Tensors = m.Tensors[:0]
	head, err := fr.readHead()
	if err != nil {
		return err
	}
	if err := fr.decode(head, &m.Header); err != nil {
		return err
	}
	sizes, err := checkShapes(&m.Header, fr.limit)
	if err != nil {
		return err
	}
	sum := fr.sums.update(0, head)
	for i, shape := range m.Shapes {
		data, err := fr.take(int(sizes[i]))
		if err != nil {
			return err
		}
		m.Tensors = append(m.Tensors, coded.Tensor{Shape: shape, Data: data})
		if sum, err = fr.readFloats(data, sum); err != nil {
			return err
		}
	}
	if fr.sums.absent {
		return nil
	}
	if err := fr.fill(fr.word[:]); err != nil {
		return err
	}
	if found := binary.LittleEndian.Uint32(fr.word[:]); found != sum {
		return fmt.Errorf("%w: found %08x, computed %08x", ErrFrameChecksum, found, sum)
	}
	return nil
}

// readHead gives the bytes of the header, borrowed until the next call.
func (fr *frameReader) readHead() ([]byte, error) {
	if fr.start != nil {
		if err := fr.start(); err != nil {
			return nil, err
		}
	}
	// The first byte apart from the others: only before it is an end clean.
	n, err := io.ReadFull(fr.r, fr.word[:1])
	fr.read += int64(n)
	if err != nil {
		return nil, err
	}
	if err := fr.fill(fr.word[1:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(fr.word[:])
	if size == 0 {
		return nil, fmt.Errorf("%w: header of 0 bytes", ErrFrameHeader)
	}
	if size > maxHeader {
		return nil, fmt.Errorf("%w: header of %d bytes, at most %d", ErrFrameSize, size, maxHeader)
	}
	if int(size) > cap(fr.head) {
		fr.head = make([]byte, max(int(size), 1<<10))
	}
	fr.head = fr.head[:size]
	return fr.head, fr.fill(fr.head)
}

// decode checks the version, then the lengths inside, then decodes.
func (fr *frameReader) decode(head []byte, h *Header) error {
	version, err := headerVersion(head)
	if err != nil {
		return err
	}
	if version != protocolVersion {
		return fmt.Errorf("%w: found %d, expected %d", ErrFrameVersion, version, protocolVersion)
	}
	if err := checkMsgpack(head); err != nil {
		return fmt.Errorf("%w: %w", ErrFrameHeader, err)
	}
	fr.src.Reset(head)
	fr.dec.Reset(&fr.src)
	if err := decodeHeader(fr.dec, h); err != nil {
		return fmt.Errorf("%w: %w", ErrFrameHeader, err)
	}
	return nil
}

func (fr *frameReader) take(n int) ([]float32, error) {
	if fr.alloc == nil {
		return make([]float32, n), nil
	}
	data := fr.alloc(n)
	if len(data) < n {
		return nil, fmt.Errorf("allocator gave %d values, expected %d", len(data), n)
	}
	return data[:n:n], nil
}

func (fr *frameReader) readFloats(data []float32, sum uint32) (uint32, error) {
	for len(data) > 0 {
		chunk := data[:min(len(data), bulkChunk/4)]
		data = data[len(chunk):]
		raw := floatBytes(chunk)
		if err := fr.fill(raw); err != nil {
			return sum, err
		}
		sum = fr.sums.update(sum, raw)
		if !littleEndian {
			getFloats(chunk, raw)
		}
	}
	return sum, nil
}

// fill reads all of p; inside a frame the end of the stream is unexpected.
func (fr *frameReader) fill(p []byte) error {
	if fr.progress != nil {
		if err := fr.progress(); err != nil {
			return err
		}
	}
	n, err := io.ReadFull(fr.r, p)
	fr.read += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// checkShapes holds the shapes and the type against the bounds and returns the
// number of values of each tensor.
func checkShapes(h *Header, limit int64) (sizes [maxTensors]int64, err error) {
	if len(h.Shapes) > maxTensors {
		return sizes, fmt.Errorf("%w: %d tensors, at most %d", ErrFrameSize, len(h.Shapes), maxTensors)
	}
	if len(h.Shapes) > 0 && h.DType != dtypeF32 {
		return sizes, fmt.Errorf("%w: type %.16q, expected %q", ErrFrameShape, h.DType, dtypeF32)
	}
	total := int64(0)
	for i, shape := range h.Shapes {
		n, err := sizeOf(shape)
		if err != nil {
			return sizes, fmt.Errorf("%w: tensor %d: %w", ErrFrameShape, i, err)
		}
		if n > (limit-total)/4 {
			return sizes, fmt.Errorf("%w: tensors up to number %d (shape %v) take more than %d bytes", ErrFrameSize, i, shape, limit)
		}
		total += 4 * n
		sizes[i] = n
	}
	return sizes, nil
}

// sizeOf is the number of values of a tensor of the given shape.
func sizeOf(shape []int) (int64, error) {
	if len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, at most %d", len(shape), maxDims)
	}
	const most = int64(1) << 40 // so that the product never overflows
	size := int64(1)
	for _, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("shape %v has a dimension that is not positive", shape)
		}
		if int64(d) > most/size {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		size *= int64(d)
	}
	return size, nil
}
