// Package safetensors reads and writes the safetensors format (Hugging Face,
// version 0.4) without holding a file in memory: 8 bytes of header length, a
// JSON header that names the tensors, and their little-endian bytes.
//
//	err := safetensors.Write(w, tensors, map[string]string{"step": "1200"})
//	...
//	f, err := safetensors.Read(r, size)
//	for _, e := range f.Entries {
//		data, err := f.Float32s(e)
//	}
//
// A model is written and read in chunks of 64 KiB, in the order given, so that a
// checkpoint costs no second copy of the weights; the library for Go that there
// is reads whole files, takes tensors as bytes, and sorts them.
//
// A header from outside is checked in full before anything is taken from it:
// its length, the types, that every shape fits its bytes, and that the
// tensors cover the rest of the file without a gap or an overlap.
//
// A File may be used by several goroutines if its reader may.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// maxHeader is the format's own bound on the length of the header.
const maxHeader = 100_000_000

// metadataKey is the header's entry for text, in place of a tensor's.
const metadataKey = "__metadata__"

// Tensor is a tensor to be written, float32 unless it has Ints. Names must
// differ. Readers that map files want int64 tensors to stand first, where they
// are aligned.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
	Ints  []int64 // in place of Data, unless nil: an int64 tensor
}

// layout returns the type of the tensor, the size of an entry in bytes, and how
// many entries there are.
func (t Tensor) layout() (dtype string, width, count int64) {
	if t.Ints != nil {
		return "I64", 8, int64(len(t.Ints))
	}
	return "F32", 4, int64(len(t.Data))
}

// Entry is a tensor in a file.
type Entry struct {
	Name   string
	DType  string // "F32", "F64", "I64", ...
	Shape  []int
	offset int64 // of its first byte in the file
	size   int64 // in bytes
}

// File is an opened file: its text and its tensors in the order of their bytes.
type File struct {
	Metadata map[string]string
	Entries  []Entry
	r        io.ReaderAt
}

// head is a tensor's value in the JSON header.
type head struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

var widths = map[string]int64{
	"BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}

// Write writes the tensors in their order.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	chunk := make([]byte, 0, 1<<16)
	for _, t := range tensors {
		for part := range slices.Chunk(t.Data, cap(chunk)/4) {
			chunk = chunk[:0]
			for _, v := range part {
				chunk = binary.LittleEndian.AppendUint32(chunk, math.Float32bits(v))
			}
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
		for part := range slices.Chunk(t.Ints, cap(chunk)/8) {
			chunk = chunk[:0]
			for _, v := range part {
				chunk = binary.LittleEndian.AppendUint64(chunk, uint64(v))
			}
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodeHeader writes the JSON by hand around its values, to keep the order
// of the tensors, and pads it with spaces to a multiple of 8.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
		return nil
	}
	if len(metadata) > 0 {
		if err := put(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	seen := make(map[string]bool, len(tensors))
	var offset int64
	for _, t := range tensors {
		dtype, width, count := t.layout()
		size, err := bytesOf(t.Shape, width)
		if err != nil || size != width*count || t.Ints != nil && t.Data != nil {
			return nil, fmt.Errorf("tensor %q: %d numbers for shape %v", t.Name, len(t.Data)+len(t.Ints), t.Shape)
		}
		if seen[t.Name] || t.Name == metadataKey {
			return nil, fmt.Errorf("tensor %q: the name is taken", t.Name)
		}
		seen[t.Name] = true
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		if err := put(t.Name, head{dtype, shape, [2]int64{offset, offset + size}}); err != nil {
			return nil, err
		}
		offset += size
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len() > maxHeader {
		return nil, fmt.Errorf("header of %d bytes, want at most %d", b.Len(), maxHeader)
	}
	return b.Bytes(), nil
}

// Read reads and checks the header of a file of size bytes.
func Read(r io.ReaderAt, size int64) (*File, error) {
	f, err := read(r, size)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return f, nil
}

func read(r io.ReaderAt, size int64) (*File, error) {
	var prefix [8]byte
	if size < int64(len(prefix)) {
		return nil, fmt.Errorf("file of %d bytes, want at least 8", size)
	}
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, fmt.Errorf("length of the header: %w", err)
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("header of %d bytes in a file of %d, want at most %d", n, size, min(maxHeader, size-8))
	}
	raw := make([]byte, n)
	if _, err := r.ReadAt(raw, 8); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	f := &File{r: r}
	if err := f.parse(raw); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return f, f.check(8+int64(n), size)
}

// parse reads the header key by key, because a map would hide a name that is
// used twice.
func (f *File) parse(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return errors.Join(errors.New("not a JSON object"), err)
	}
	seen := make(map[string]bool)
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := tok.(string)
		if !ok || seen[name] {
			return fmt.Errorf("tensor %v: the name is taken", tok)
		}
		seen[name] = true
		if name == metadataKey {
			if err := dec.Decode(&f.Metadata); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		var h head
		if err := dec.Decode(&h); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		width, ok := widths[h.DType]
		if !ok {
			return fmt.Errorf("tensor %q: unknown type %q", name, h.DType)
		}
		want, err := bytesOf(h.Shape, width)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if h.Offsets[0] < 0 || h.Offsets[1]-h.Offsets[0] != want {
			return fmt.Errorf("tensor %q: bytes %d to %d for %s of shape %v", name, h.Offsets[0], h.Offsets[1], h.DType, h.Shape)
		}
		f.Entries = append(f.Entries, Entry{Name: name, DType: h.DType, Shape: h.Shape, offset: h.Offsets[0], size: want})
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if rest := bytes.TrimLeft(raw[dec.InputOffset():], " "); len(rest) > 0 {
		return fmt.Errorf("%d bytes after the JSON object", len(rest))
	}
	return nil
}

// check verifies that the tensors cover the file from start to size, each
// byte once, and makes their offsets count from the beginning of the file.
func (f *File) check(start, size int64) error {
	slices.SortStableFunc(f.Entries, func(a, b Entry) int {
		switch {
		case a.offset != b.offset:
			return sign(a.offset - b.offset)
		default: // an empty tensor before the one that begins where it stands
			return sign(a.size - b.size)
		}
	})
	at := start
	for i := range f.Entries {
		e := &f.Entries[i]
		if start+e.offset != at {
			return fmt.Errorf("tensor %q begins at byte %d, want %d", e.Name, start+e.offset, at)
		}
		e.offset = at
		if at += e.size; at > size {
			return fmt.Errorf("tensor %q ends at byte %d of a file of %d", e.Name, at, size)
		}
	}
	if at != size {
		return fmt.Errorf("%d bytes after the last tensor", size-at)
	}
	return nil
}

func sign(v int64) int {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return 0
}

// bytesOf returns the size of a tensor; it fails where that is not a sane number.
func bytesOf(shape []int, width int64) (int64, error) {
	n := width
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/4/int64(d) {
			return 0, fmt.Errorf("shape %v", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// Float32s reads an F32 tensor.
func (f *File) Float32s(e Entry) ([]float32, error) {
	return numbers(f, e, "F32", func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// Float64s reads an F64 tensor.
func (f *File) Float64s(e Entry) ([]float64, error) {
	return numbers(f, e, "F64", func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
}

// Int64s reads an I64 tensor.
func (f *File) Int64s(e Entry) ([]int64, error) {
	return numbers(f, e, "I64", func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
}

// numbers reads a tensor of a type. Read has made sure that it is no longer
// than the file.
func numbers[T any](f *File, e Entry, dtype string, decode func([]byte) T) ([]T, error) {
	if e.DType != dtype {
		return nil, fmt.Errorf("safetensors: tensor %q is %s, want %s", e.Name, e.DType, dtype)
	}
	width := int(widths[dtype])
	out := make([]T, e.size/int64(width))
	chunk := make([]byte, min(e.size, 1<<16))
	at := e.offset
	for rest := out; len(rest) > 0; {
		n := min(len(rest), len(chunk)/width)
		if _, err := f.r.ReadAt(chunk[:n*width], at); err != nil {
			return nil, fmt.Errorf("safetensors: tensor %q: %w", e.Name, err)
		}
		for i := range n {
			rest[i] = decode(chunk[i*width:])
		}
		rest, at = rest[n:], at+int64(n*width)
	}
	return out, nil
}
