package datasets

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDecodeIDXRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dims := rapid.SliceOfN(rapid.Uint32Range(1, 6), 1, 3).Draw(rt, "dims")
		size, want := 1, make([]int, len(dims))
		for i, d := range dims {
			size, want[i] = size*int(d), int(d)
		}
		data := rapid.SliceOfN(rapid.Byte(), size, size).Draw(rt, "data")
		raw := idxBytes(data, dims...)
		if rapid.Bool().Draw(rt, "gzip") {
			raw = gzipped(t, raw)
		}
		gotDims, got, err := decodeIDX("f", raw, len(dims))
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.Equal(gotDims, want) || !bytes.Equal(got, data) {
			rt.Fatalf("got %v %v, want %v %v", gotDims, got, want, data)
		}
	})
}

func TestDecodeIDXErrors(t *testing.T) {
	good := idxBytes([]byte{1, 2, 3, 4, 5, 6}, 6)
	z := gzipped(t, good)
	flip := func(b []byte, i int) []byte {
		b = slices.Clone(b)
		b[i] ^= 0xff
		return b
	}
	for _, c := range []struct {
		name string
		raw  []byte
		rank int
		kind error
		text string
	}{
		{"empty", nil, 1, ErrTruncated, "truncated: found the end of the file, expected a header of 8 bytes"},
		{"half a magic", good[:2], 1, ErrTruncated, "expected a header of 8 bytes"},
		{"half a header", good[:6], 1, ErrTruncated, "expected a header of 8 bytes"},
		{"text", []byte("<html>not here</html>"), 1, ErrFormat, "not an IDX file: found 3c 68 74 6d at the start, expected 00 00 08 01 (bytes in 1 dimensions)"},
		{"short text", []byte("no"), 1, ErrFormat, "not an IDX file: found 6e 6f at the start"},
		{"labels for images", good, 3, ErrFormat, "found 00 00 08 01 at the start, expected 00 00 08 03"},
		{"floats", flip(good, 2), 1, ErrFormat, "not an IDX file"},
		{"no data", good[:8], 1, ErrTruncated, "found a file that holds at most 8 bytes"},
		{"no byte of data", idxBytes(nil, 6), 1, ErrTruncated, "found 0 bytes of data, expected 6 bytes of data (6)"},
		{"one byte short", good[:13], 1, ErrTruncated, "found 5 bytes of data, expected 6 bytes of data (6)"},
		{"one byte more", append(slices.Clone(good), 0), 1, ErrFormat, "too long: found more bytes after the data"},
		{"size zero", idxBytes(nil, 5, 0), 2, ErrFormat, "impossible sizes: found 00 00 00 05 00 00 00 00"},
		{"size beyond all bounds", idxBytes(nil, 1<<31), 1, ErrFormat, "impossible sizes"},
		{"product beyond all bounds", idxBytes(nil, 1<<16, 1<<16, 1<<16), 3, ErrFormat, "in all at most 1073741824 bytes"},
		{"more than the file holds", idxBytes(nil, 1<<10, 1<<10, 1<<10), 3, ErrTruncated, "expected 1073741824 bytes of data (1024x1024x1024)"},
		{"more than the gzip file can hold", gzipped(t, idxBytes(nil, 1<<10, 1<<10, 1<<10)), 3, ErrTruncated, "(1024x1024x1024)"},
		{"gzip header only", z[:4], 1, ErrTruncated, "expected a gzip header"},
		{"gzip header damaged", flip(z, 2), 1, ErrFormat, "damaged: found a broken compressed stream"},
		{"gzip cut in the data", z[:len(z)-10], 1, ErrTruncated, "truncated"},
		{"gzip cut in the sum", z[:len(z)-6], 1, ErrTruncated, "truncated"},
		{"gzip sum wrong", flip(z, len(z)-8), 1, ErrFormat, "damaged: found a broken compressed stream (gzip: invalid checksum)"},
		{"gzip of text", gzipped(t, []byte("hello, world")), 1, ErrFormat, "not an IDX file: found 68 65 6c 6c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "no data" {
				c.raw = idxBytes(nil, 9)
			}
			_, _, err := decodeIDX("dir/file", c.raw, c.rank)
			var file *FileError
			if !errors.As(err, &file) || file.Path != "dir/file" || !errors.Is(err, c.kind) {
				t.Fatalf("got %#v, want a FileError of kind %q", err, c.kind)
			}
			if !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, c.text)
			}
		})
	}
}

// FuzzDecodeIDX checks that any input gives an error of the right type or data
// that encodes to the input again, and never more of it than the input can
// hold.
func FuzzDecodeIDX(f *testing.F) {
	good := idxBytes([]byte{1, 2, 3, 4}, 1, 2, 2)
	f.Add(good, 3)
	f.Add(gzipped(f, good), 3)
	f.Add(idxBytes([]byte{1, 2}, 2), 1)
	f.Add(idxBytes(nil, 1<<30), 1)
	f.Add(gzipped(f, idxBytes(nil, 1<<15, 1<<15)), 2)
	f.Add(good[:9], 3)
	f.Fuzz(func(t *testing.T, raw []byte, rank int) {
		if rank < 1 || rank > 3 {
			return
		}
		dims, data, err := decodeIDX("f", raw, rank)
		if err != nil {
			if _, ok := errors.AsType[*FileError](err); !ok {
				t.Fatalf("error of another type: %v", err)
			}
			return
		}
		if len(data) > maxDeflate*len(raw) {
			t.Fatalf("%d bytes out of %d", len(data), len(raw))
		}
		again := make([]uint32, len(dims))
		for i, d := range dims {
			again[i] = uint32(d)
		}
		if plain := idxBytes(data, again...); raw[0] == 0 && !bytes.Equal(plain, raw) {
			t.Fatal(cmp.Diff(plain, raw))
		}
	})
}
