package dist

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// readerConn reads from a reader.
type readerConn struct {
	segmentWire
	r io.Reader
}

func (c *readerConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// TLS gets its records, one after another, and leaves what follows them.
func TestRecordConnStopsAtTheEnd(t *testing.T) {
	records := [][]byte{
		append([]byte{22, 3, 1, 0, 3}, "abc"...),
		{20, 3, 3, 0, 0}, // an empty one
		append([]byte{23, 3, 3, 1, 4}, bytes.Repeat([]byte{'x'}, 260)...),
	}
	for name, cut := range map[string]func(io.Reader) io.Reader{
		"whole":  func(r io.Reader) io.Reader { return r },
		"bytes":  iotest.OneByteReader,
		"halves": iotest.HalfReader,
	} {
		left := bytes.NewReader(append(slices.Concat(records...), "segment"...))
		r := &recordConn{Conn: &readerConn{r: cut(left)}}
		for i, want := range records {
			got := make([]byte, 0, 1000)
			for len(got) < len(want) {
				n, err := r.Read(got[len(got):cap(got)])
				if err != nil || n == 0 {
					t.Fatalf("%s, record %d: %d bytes: %v", name, i, n, err)
				}
				got = got[:len(got)+n]
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s, record %d: %q, expected %q", name, i, got, want)
			}
		}
		if rest, err := io.ReadAll(left); err != nil || string(rest) != "segment" {
			t.Errorf("%s: what follows is %q, expected %q: %v", name, rest, "segment", err)
		}
	}
}
