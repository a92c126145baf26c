package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/coda-ml/coda/internal/safetensors"
)

func encode(t testing.TB, tensors []safetensors.Tensor, meta map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(raw []byte) (*safetensors.File, error) {
	return safetensors.Read(bytes.NewReader(raw), int64(len(raw)))
}

// file puts a header and data together, in whatever state they are.
func file(header string, data int) []byte {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	raw = append(raw, header...)
	return append(raw, make([]byte, data)...)
}

func tensorsGen(t *rapid.T) []safetensors.Tensor {
	var list []safetensors.Tensor
	for i := range rapid.IntRange(0, 4).Draw(t, "tensors") {
		shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
		n := 1
		for _, d := range shape {
			n *= d
		}
		list = append(list, safetensors.Tensor{
			Name:  fmt.Sprintf("t%d.%s", i, rapid.String().Draw(t, "name")),
			Shape: shape,
			Data:  rapid.SliceOfN(rapid.Float32(), n, n).Draw(t, "data"),
		})
	}
	return list
}

// TestFormat pins the bytes of a file. Those of other programs are read by the
// tests of package golden.
func TestFormat(t *testing.T) {
	got := encode(t, []safetensors.Tensor{
		{Name: "b", Shape: []int{2, 1}, Data: []float32{1, -2}},
		{Name: "a", Data: []float32{0.5}},
	}, map[string]string{"k": "v"})
	header := `{"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},` +
		`"a":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}` + "  "
	want := "\x88\x00\x00\x00\x00\x00\x00\x00" + header + "\x00\x00\x80\x3f" + "\x00\x00\x00\xc0" + "\x00\x00\x00\x3f"
	if string(got) != want {
		t.Errorf("file\n%q, want\n%q", got, want)
	}
}

// TestInts: whole numbers are written as int64, between float32 tensors.
func TestInts(t *testing.T) {
	many := make([]int64, 20_000) // more than a chunk
	for i := range many {
		many[i] = int64(i) - 1<<40
	}
	tensors := []safetensors.Tensor{
		{Name: "count", Ints: []int64{math.MinInt64}}, {Name: "w", Shape: []int{1}, Data: []float32{2}},
		{Name: "many", Shape: []int{2, 10_000}, Ints: many}, {Name: "none", Shape: []int{0}, Ints: []int64{}},
	}
	f, err := decode(encode(t, tensors, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range f.Entries {
		want := tensors[i]
		if e.Name != want.Name || (e.DType == "I64") != (want.Ints != nil) {
			t.Errorf("entry %d is %s of type %s, want %s", i, e.Name, e.DType, want.Name)
		}
		if want.Ints == nil {
			continue
		}
		if got, err := f.Int64s(e); err != nil || !cmp.Equal(got, want.Ints) {
			t.Errorf("%s: %d numbers; error %v", e.Name, len(got), err)
		}
	}
	for _, bad := range []safetensors.Tensor{
		{Name: "both", Shape: []int{1}, Data: []float32{1}, Ints: []int64{1}}, {Name: "short", Shape: []int{2}, Ints: []int64{1}},
	} {
		if err := safetensors.Write(io.Discard, []safetensors.Tensor{bad}, nil); err == nil || !strings.Contains(err.Error(), bad.Name) {
			t.Errorf("%s: error %v", bad.Name, err)
		}
	}
}

// TestRoundTrip: what is written is read, in order.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tensors := tensorsGen(rt)
		meta := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,4}`), rapid.StringMatching(`[ -~]{0,9}`), 0, 3).Draw(rt, "text")
		raw := encode(t, tensors, meta)
		f, err := decode(raw)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(meta, f.Metadata, cmpopts.EquateEmpty()); d != "" {
			rt.Errorf("text (-want +got):\n%s", d)
		}
		var got []safetensors.Tensor
		for _, e := range f.Entries {
			data, err := f.Float32s(e)
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, safetensors.Tensor{Name: e.Name, Shape: e.Shape, Data: data})
		}
		// Empty tensors that stand at one place come in any order.
		byName := cmpopts.SortSlices(func(a, b safetensors.Tensor) bool { return a.Name < b.Name })
		if d := cmp.Diff(tensors, got, cmpopts.EquateEmpty(), byName); d != "" {
			rt.Errorf("(-want +got):\n%s", d)
		}
	})
}

// TestLarge has more numbers than a chunk of the reader and the writer holds.
func TestLarge(t *testing.T) {
	data := make([]float32, 70_001)
	for i := range data {
		data[i] = float32(i)
	}
	f, err := decode(encode(t, []safetensors.Tensor{{Name: "w", Shape: []int{70_001}, Data: data}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Float32s(f.Entries[0])
	if err != nil || !cmp.Equal(got, data) {
		t.Errorf("the numbers differ; error %v", err)
	}
}

func TestOtherTypes(t *testing.T) {
	raw := file(`{"a":{"dtype":"I64","shape":[2],"data_offsets":[8,24]},"b":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`, 0)
	raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(2.5))
	raw = binary.LittleEndian.AppendUint64(raw, 7)
	raw = binary.LittleEndian.AppendUint64(raw, math.MaxUint64)
	f, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, a := f.Entries[0], f.Entries[1]
	if v, err := f.Float64s(b); err != nil || !cmp.Equal(v, []float64{2.5}) {
		t.Errorf("F64: %v, error %v", v, err)
	}
	if v, err := f.Int64s(a); err != nil || !cmp.Equal(v, []int64{7, -1}) {
		t.Errorf("I64: %v, error %v", v, err)
	}
	if _, err := f.Float32s(a); err == nil || !strings.Contains(err.Error(), `"a" is I64, want F32`) {
		t.Errorf("I64 read as F32: error %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	tensor := func(offsets string) string { return `"a":{"dtype":"F32","shape":[2],"data_offsets":` + offsets + `}` }
	for _, c := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"empty", nil, "file of 0 bytes"},
		{"short", make([]byte, 7), "file of 7 bytes"},
		{"header longer than the file", file("{}", 0)[:9], "header of 2 bytes in a file of 9"},
		{"huge header", append(bytes.Repeat([]byte{0xff}, 8), 0), "header of 18446744073709551615 bytes"},
		{"no header", file("", 0), "EOF"},
		{"array", file("[]", 0), "not a JSON object"},
		{"cut JSON", file("{", 0), "EOF"},
		{"after the object", file("{}x", 0), "1 bytes after the JSON object"},
		{"text of numbers", file(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		{"no dtype", file(`{"a":null}`, 0), `unknown type ""`},
		{"unknown dtype", file(`{"a":{"dtype":"F8","shape":[],"data_offsets":[0,1]}}`, 1), `unknown type "F8"`},
		{"negative dimension", file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4), "shape [-1]"},
		{"overflow", file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "shape [4294967296 4294967296]"},
		{"overflow by a fraction", file(`{"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,0]}}`, 0), "shape [9223372036854775807]"},
		{"not a dimension", file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), `tensor "a"`},
		{"wrong size", file("{"+tensor("[0,4]")+"}", 4), "bytes 0 to 4 for F32 of shape [2]"},
		{"negative offset", file("{"+tensor("[-8,0]")+"}", 8), "bytes -8 to 0"},
		{"gap", file("{"+tensor("[8,16]")+"}", 16), "begins at byte"},
		{"beyond the end", file("{"+tensor("[0,8]")+"}", 7), "ends at byte"},
		{"more data", file("{"+tensor("[0,8]")+"}", 9), "1 bytes after the last tensor"},
		{"name twice", file("{"+tensor("[0,8]")+","+tensor("[8,16]")+"}", 16), "the name is taken"},
		{"overlap", file("{"+tensor("[0,8]")+`,"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, 8), `"b" begins at byte`},
	} {
		if _, err := decode(c.raw); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want it to say %q", c.name, err, c.want)
		}
	}
}

// TestTruncated: a file cut anywhere is refused.
func TestTruncated(t *testing.T) {
	raw := encode(t, []safetensors.Tensor{{Name: "a", Shape: []int{3}, Data: []float32{1, 2, 3}}}, nil)
	for n := range raw {
		if _, err := decode(raw[:n]); err == nil {
			t.Errorf("a file cut after %d of %d bytes is taken", n, len(raw))
		}
	}
}

type failingReader struct{ after int64 }

var errBroken = errors.New("broken disk")

func (r failingReader) ReadAt(b []byte, at int64) (int, error) {
	if at >= r.after {
		return 0, errBroken
	}
	return copy(b, file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)[at:]), nil
}

func TestReadErrorsAreReported(t *testing.T) {
	size := int64(len(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)))
	for _, after := range []int64{0, 8} {
		if _, err := safetensors.Read(failingReader{after}, size); !errors.Is(err, errBroken) {
			t.Errorf("reads fail from byte %d: error %v", after, err)
		}
	}
	f, err := safetensors.Read(failingReader{size - 8}, size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Float32s(f.Entries[0]); !errors.Is(err, errBroken) {
		t.Errorf("data cannot be read: error %v", err)
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

func TestWriteRefuses(t *testing.T) {
	one := safetensors.Tensor{Name: "a", Shape: []int{1}, Data: []float32{1}}
	for _, c := range []struct {
		tensors []safetensors.Tensor
		want    string
	}{
		{[]safetensors.Tensor{{Name: "a", Shape: []int{2}, Data: []float32{1}}}, "1 numbers for shape [2]"},
		{[]safetensors.Tensor{{Name: "a", Shape: []int{-1}}}, "shape [-1]"},
		{[]safetensors.Tensor{one, one}, "the name is taken"},
		{[]safetensors.Tensor{{Name: "__metadata__", Shape: []int{1}, Data: []float32{1}}}, "the name is taken"},
	} {
		if err := safetensors.Write(io.Discard, c.tensors, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want it to say %q", err, c.want)
		}
	}
	for _, left := range []int{0, 8, 65} {
		if err := safetensors.Write(&failingWriter{left}, []safetensors.Tensor{one}, nil); !errors.Is(err, errBroken) {
			t.Errorf("a writer that fails after %d bytes: error %v", left, err)
		}
	}
}

// FuzzRead: whatever the bytes, Read fails or gives tensors that can be read.
func FuzzRead(f *testing.F) {
	f.Add(encode(f, []safetensors.Tensor{{Name: "a", Shape: []int{2, 1}, Data: []float32{1, 2}}}, map[string]string{"k": "v"}))
	f.Add(file("{}", 0))
	f.Add(file(`{"a":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := decode(raw)
		if err != nil {
			return
		}
		total := 0
		for _, e := range file.Entries {
			if e.DType != "F32" {
				continue
			}
			data, err := file.Float32s(e)
			if err != nil {
				t.Errorf("tensor %q passed the checks: %v", e.Name, err)
			}
			total += 4 * len(data)
		}
		if total > len(raw) {
			t.Errorf("%d bytes of tensors from a file of %d", total, len(raw))
		}
	})
}
