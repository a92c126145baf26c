package datasets

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxIDX bounds the data of one IDX file.
	maxIDX = 1 << 30
	// maxDeflate bounds how many bytes one byte of a deflate stream can become
	// (a match of 258 bytes takes at least two bits).
	maxDeflate = 1032
	// idxUint8 is the code of the element type that image data sets use.
	idxUint8 = 8
)

// decodeIDX decodes an IDX file of unsigned bytes with the given number of
// dimensions (at most 3): two zero bytes, the type, the number of dimensions,
// the sizes as big-endian uint32, the data. raw is the file, gzipped or not
// (its content tells, not its name). Memory is taken only for sizes that a
// file of this length can hold.
func decodeIDX(path string, raw []byte, rank int) (dims []int, data []byte, err error) {
	d := idxDecoder{path: path, in: bytes.NewReader(raw), limit: len(raw)}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, nil, d.unreadable(err, "a gzip header")
		}
		d.in, d.limit = z, maxDeflate*len(raw)
	}
	if dims, err = d.header(rank); err != nil {
		return nil, nil, err
	}
	if data, err = d.data(dims); err != nil {
		return nil, nil, err
	}
	return dims, data, nil
}

type idxDecoder struct {
	path  string
	in    io.Reader
	limit int // upper bound of what in can give
}

func (d *idxDecoder) fail(kind error, problem, found, want string) error {
	return &FileError{Path: d.path, Problem: problem, Found: found, Want: want, Kind: kind}
}

// unreadable turns an error of the gzip reader into a FileError. The input is
// in memory: anything but an early end is damage.
func (d *idxDecoder) unreadable(err error, want string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.fail(ErrTruncated, "truncated", "the end of the file", want)
	}
	return d.fail(ErrFormat, "damaged", fmt.Sprintf("a broken compressed stream (%v)", err), want)
}

func (d *idxDecoder) header(rank int) ([]int, error) {
	magic := [4]byte{0, 0, idxUint8, byte(rank)}
	want := fmt.Sprintf("% x (bytes in %d dimensions)", magic, rank)
	var head [4 + 4*3]byte
	b := head[:4+4*rank]
	n, err := io.ReadFull(d.in, b)
	if n >= len(magic) && [4]byte(b) != magic || n < len(magic) && !bytes.HasPrefix(magic[:], b[:n]) {
		return nil, d.fail(ErrFormat, "not an IDX file", fmt.Sprintf("% x at the start", b[:min(n, 4)]), want)
	}
	if err != nil {
		return nil, d.unreadable(err, fmt.Sprintf("a header of %d bytes", len(b)))
	}
	dims, size := make([]int, rank), 1
	for i := range dims {
		v := binary.BigEndian.Uint32(b[4+4*i:])
		if v == 0 || v > maxIDX || size > maxIDX/int(v) {
			return nil, d.fail(ErrFormat, "impossible sizes", fmt.Sprintf("% x", b[4:]),
				fmt.Sprintf("%d positive sizes, in all at most %d bytes", rank, maxIDX))
		}
		dims[i], size = int(v), size*int(v)
	}
	if size > d.limit {
		return nil, d.fail(ErrTruncated, "truncated", fmt.Sprintf("a file that holds at most %d bytes", d.limit),
			fmt.Sprintf("%d bytes of data (%s)", size, times(dims)))
	}
	return dims, nil
}

func (d *idxDecoder) data(dims []int) ([]byte, error) {
	size := 1
	for _, v := range dims {
		size *= v
	}
	want := fmt.Sprintf("%d bytes of data (%s)", size, times(dims))
	data := make([]byte, size)
	if n, err := io.ReadFull(d.in, data); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, d.fail(ErrTruncated, "truncated", fmt.Sprintf("%d bytes of data", n), want)
		}
		return nil, d.unreadable(err, want)
	}
	// Reading on to the end is also what checks the sum of a gzip file.
	var more [1]byte
	switch n, err := io.ReadFull(d.in, more[:]); {
	case n > 0:
		return nil, d.fail(ErrFormat, "too long", "more bytes after the data", want)
	case err != io.EOF:
		return nil, d.unreadable(err, want)
	}
	return data, nil
}

// times writes sizes as 60000x28x28.
func times(dims []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", "x"), "[]")
}
