package dist

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The decoder of msgpack/v5 takes the memory for a slice of a struct from the
// length that the bytes claim (a header of ten bytes can ask for 100 GB), and
// it skips unknown values by recursion. So the bytes are walked first: every
// length must fit into what is left, and nesting is bounded.

// maxNesting bounds maps and arrays inside one another; a header has four.
const maxNesting = 8

// checkMsgpack checks that b is exactly one well-formed msgpack value without
// extension types, whose lengths are backed by bytes.
func checkMsgpack(b []byte) error {
	rest, err := skipMsgpack(b, 0)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("msgpack: %d bytes after the value", len(rest))
	}
	return err
}

var (
	errMsgpackShort = errors.New("msgpack: a length exceeds the bytes that are left")
	errNoVersion    = fmt.Errorf("%w: it does not begin with a version", ErrFrameHeader)
)

func skipMsgpack(b []byte, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("msgpack: nested deeper than %d", maxNesting)
	}
	kind, length, values, err := msgpackHead(b)
	if err != nil {
		return nil, err
	}
	rest := b[kind:]
	if length > uint64(len(rest)) {
		return nil, errMsgpackShort
	}
	rest = rest[length:]
	// Each value takes a byte at least.
	if values > uint64(len(rest)) {
		return nil, errMsgpackShort
	}
	for range values {
		if rest, err = skipMsgpack(rest, depth+1); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// msgpackHead reads the head of the value at the front of b: the bytes of the
// head, the bytes of plain data behind it and the number of values inside it.
func msgpackHead(b []byte) (head int, length, values uint64, err error) {
	if len(b) == 0 {
		return 0, 0, 0, errMsgpackShort
	}
	switch c := b[0]; {
	case c <= 0x7f || c >= 0xe0: // small integer
		return 1, 0, 0, nil
	case c <= 0x8f: // small map
		return 1, 0, 2 * uint64(c&0x0f), nil
	case c <= 0x9f: // small array
		return 1, 0, uint64(c & 0x0f), nil
	case c <= 0xbf: // short string
		return 1, uint64(c & 0x1f), 0, nil
	case c == 0xc0 || c == 0xc2 || c == 0xc3: // nil, false, true
		return 1, 0, 0, nil
	case c >= 0xc4 && c <= 0xc6: // binary
		return sized(b, 1<<(c-0xc4), 1, 0)
	case c == 0xca: // float32
		return 1, 4, 0, nil
	case c == 0xcb: // float64
		return 1, 8, 0, nil
	case c >= 0xcc && c <= 0xcf: // unsigned
		return 1, 1 << (c - 0xcc), 0, nil
	case c >= 0xd0 && c <= 0xd3: // signed
		return 1, 1 << (c - 0xd0), 0, nil
	case c >= 0xd9 && c <= 0xdb: // string
		return sized(b, 1<<(c-0xd9), 1, 0)
	case c == 0xdc || c == 0xdd: // array
		return sized(b, 2<<(c-0xdc), 0, 1)
	case c == 0xde || c == 0xdf: // map
		return sized(b, 2<<(c-0xde), 0, 2)
	default:
		return 0, 0, 0, fmt.Errorf("msgpack: type byte %#02x is not used here", c)
	}
}

// sized reads a big-endian count of width bytes behind the type byte: of bytes
// (times perByte) or of values (times perValue).
func sized(b []byte, width int, perByte, perValue uint64) (head int, length, values uint64, err error) {
	if len(b) < 1+width {
		return 0, 0, 0, errMsgpackShort
	}
	var n uint64
	switch width {
	case 1:
		n = uint64(b[1])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b[1:]))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b[1:]))
	}
	return 1 + width, n * perByte, n * perValue, nil
}

// headerVersion reads the version out of a header of any version: a map whose
// first key is "v" and whose value is an integer. A negative one comes out as
// a version that nobody has.
func headerVersion(b []byte) (uint64, error) {
	kind, _, values, err := msgpackHead(b)
	if err != nil || values < 2 || (b[0] < 0xde && b[0]&0xf0 != 0x80) {
		return 0, errNoVersion
	}
	b = b[kind:]
	if len(b) < 3 || b[0] != 0xa1 || b[1] != 'v' {
		return 0, errNoVersion
	}
	b = b[2:]
	if b[0] <= 0x7f {
		return uint64(b[0]), nil
	}
	if b[0] < 0xcc || b[0] > 0xd3 {
		return 0, errNoVersion
	}
	width := 1 << (b[0] & 3)
	if len(b) < 1+width {
		return 0, errNoVersion
	}
	version := uint64(0)
	for _, c := range b[1 : 1+width] {
		version = version<<8 | uint64(c)
	}
	return version, nil
}
