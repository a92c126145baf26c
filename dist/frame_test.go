package dist

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

const testLimit = 1 << 20

func encodeFrame(tb testing.TB, m *Message) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := newFrameWriter(&out, testLimit)
	if err := w.prepare(m); err != nil {
		tb.Fatal(err)
	}
	n, err := w.write(m)
	if err != nil || n != int64(out.Len()) {
		tb.Fatalf("wrote %d bytes, counted %d: %v", out.Len(), n, err)
	}
	return out.Bytes()
}

func decodeFrame(b []byte) (Message, error) {
	var m Message
	return m, newFrameReader(bytes.NewReader(b), testLimit).next(&m)
}

// rawFrame frames any header and any body, with a right checksum.
func rawFrame(head, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(head)))
	b = append(append(b, head...), body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[4:], castagnoli))
}

// headerFrame frames a header of any content, with a body of zeros.
func headerFrame(tb testing.TB, h any, body int) []byte {
	tb.Helper()
	head, err := msgpack.Marshal(h)
	if err != nil {
		tb.Fatal(err)
	}
	return rawFrame(head, make([]byte, body))
}

func sampleMessage() *Message {
	return &Message{
		Header:  Header{Kind: KindResult, Layer: "fc1", Round: 7, Slots: []int{1, 2}, Weight: 0.5},
		Tensors: []coded.Tensor{{Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}}, {Shape: []int{1}, Data: []float32{-1}}},
	}
}

// The bytes of a frame are a promise to the other nodes: if this test has to
// change, so has protocolVersion.
func TestFrameGolden(t *testing.T) {
	m := &Message{Header: Header{Kind: KindPing}, Tensors: []coded.Tensor{{Shape: []int{1, 2}, Data: []float32{1, -2}}}}
	const want = "13000000" + // 19 bytes of header
		"84" + "a17601" + "a16b0e" + "a1789192" + "0102" + "a17aa3663332" + // {v:1 k:14 x:[[1 2]] z:f32}
		"0000803f" + "000000c0"
	got := encodeFrame(t, m)
	if body := hex.EncodeToString(got[:len(got)-4]); body != want {
		t.Errorf("frame is\n%s, expected\n%s", body, want)
	}
	if sum := binary.LittleEndian.Uint32(got[len(got)-4:]); sum != crc32.Checksum(got[4:len(got)-4], castagnoli) {
		t.Errorf("checksum %08x", sum)
	}
}

func TestFrameRoundTrip(t *testing.T) {
	for _, native := range []bool{true, false} {
		withByteOrder(t, native, func() { rapid.Check(t, checkRoundTrip) })
	}
}

// withByteOrder runs f with the fast path or the portable one. Both must give
// little-endian bytes, whatever the machine.
func withByteOrder(t *testing.T, native bool, f func()) {
	was := littleEndian
	if native && !was {
		t.Log("the fast path is not for this machine")
		return
	}
	littleEndian = native
	defer func() { littleEndian = was }()
	f()
}

func checkRoundTrip(t *rapid.T) {
	shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 5)
	m := &Message{Header: Header{
		Kind:  Kind(rapid.Byte().Draw(t, "kind")),
		Layer: rapid.String().Draw(t, "layer"),
		Round: rapid.Uint64().Draw(t, "round"),
		Step:  rapid.Int().Draw(t, "step"),
		Slots: rapid.SliceOf(rapid.Int()).Draw(t, "slots"),
	}}
	for range rapid.IntRange(0, 3).Draw(t, "tensors") {
		tensor := coded.NewTensor(shape.Draw(t, "shape")...)
		for i := range tensor.Data {
			// Any bits: signalling NaNs, infinities and denormals travel as they are.
			tensor.Data[i] = math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		}
		m.Tensors = append(m.Tensors, tensor)
	}
	var out bytes.Buffer
	w := newFrameWriter(&out, testLimit)
	r := newFrameReader(&out, testLimit)
	got := Message{Header: Header{Error: "old"}, Tensors: make([]coded.Tensor, 5)}
	for range 2 { // the second message finds the state of the first
		if err := w.prepare(m); err != nil {
			t.Fatal(err)
		}
		if _, err := w.write(m); err != nil {
			t.Fatal(err)
		}
		if err := r.next(&got); err != nil {
			t.Fatal(err)
		}
		if got.Kind != m.Kind || got.Layer != m.Layer || got.Round != m.Round || got.Step != m.Step || got.Error != "" || !slices.Equal(got.Slots, m.Slots) {
			t.Fatalf("header %+v, expected %+v", got.Header, m.Header)
		}
		if len(got.Tensors) != len(m.Tensors) {
			t.Fatalf("%d tensors, expected %d", len(got.Tensors), len(m.Tensors))
		}
		for i, tensor := range m.Tensors {
			if !slices.Equal(got.Tensors[i].Shape, tensor.Shape) {
				t.Fatalf("shape %v, expected %v", got.Tensors[i].Shape, tensor.Shape)
			}
			if !bytes.Equal(floatBytes(got.Tensors[i].Data), floatBytes(tensor.Data)) {
				t.Fatalf("tensor %d changed", i)
			}
		}
	}
	if m.Version != 0 || m.Shapes != nil || m.DType != "" {
		t.Fatal("sending has written to the message")
	}
}

func TestFrameLargerThanAChunk(t *testing.T) {
	m := &Message{Header: Header{Kind: KindState}, Tensors: []coded.Tensor{coded.NewTensor(bulkChunk/4 + 3)}}
	for i := range m.Tensors[0].Data {
		m.Tensors[0].Data[i] = float32(i)
	}
	for _, native := range []bool{true, false} {
		withByteOrder(t, native, func() {
			got, err := decodeFrame(encodeFrame(t, m))
			if err != nil || !bytes.Equal(floatBytes(got.Tensors[0].Data), floatBytes(m.Tensors[0].Data)) {
				t.Errorf("native %v: %v", native, err)
			}
		})
	}
}

func TestFrameTruncatedAnywhere(t *testing.T) {
	frame := encodeFrame(t, sampleMessage())
	if _, err := decodeFrame(nil); err != io.EOF {
		t.Errorf("nothing: %v, expected io.EOF itself", err)
	}
	for n := 1; n < len(frame); n++ {
		if _, err := decodeFrame(frame[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: %v, expected an unexpected EOF", n, len(frame), err)
		}
	}
}

func TestFrameDamagedAnywhere(t *testing.T) {
	frame := encodeFrame(t, sampleMessage())
	for i := range frame {
		for bit := range 8 {
			damaged := bytes.Clone(frame)
			damaged[i] ^= 1 << bit
			if _, err := decodeFrame(damaged); err == nil {
				t.Fatalf("bit %d of byte %d is wrong, and nobody noticed", bit, i)
			}
		}
	}
	frame[len(frame)-6] ^= 1 // a tensor's
	if _, err := decodeFrame(frame); !errors.Is(err, ErrFrameChecksum) {
		t.Errorf("damaged tensor: %v", err)
	}
}

// A hostile header: what it is refused for, and that no memory was taken.
func TestFrameRefuses(t *testing.T) {
	type shapes [][]int
	head := func(s any, dtype string) []byte {
		return headerFrame(t, &struct {
			V int    `msgpack:"v"`
			X any    `msgpack:"x"`
			Z string `msgpack:"z"`
		}{protocolVersion, s, dtype}, 64)
	}
	repeat := func(n int, shape ...int) shapes {
		s := make(shapes, n)
		for i := range s {
			s[i] = shape
		}
		return s
	}
	type versioned struct {
		V any `msgpack:"v"`
	}
	for name, c := range map[string]struct {
		frame []byte
		want  error
		text  string
	}{
		"no header":         {[]byte{0, 0, 0, 0}, ErrFrameHeader, "0 bytes"},
		"huge header":       {[]byte{0xff, 0xff, 0xff, 0xff}, ErrFrameSize, "4294967295 bytes, at most 65536"},
		"header over limit": {binary.LittleEndian.AppendUint32(nil, maxHeader+1), ErrFrameSize, "65537"},
		"HTTP":              {[]byte("GET / HTTP/1.1\r\n\r\n"), ErrFrameSize, "header of"},
		"not msgpack":       {rawFrame([]byte("hello, world"), nil), ErrFrameHeader, "version"},
		"a string":          {headerFrame(t, "v", 0), ErrFrameHeader, "version"},
		"an array":          {headerFrame(t, []int{1, 2}, 0), ErrFrameHeader, "version"},
		"empty map":         {headerFrame(t, map[string]int{}, 0), ErrFrameHeader, "version"},
		"other key first":   {headerFrame(t, map[string]int{"k": 1}, 0), ErrFrameHeader, "version"},
		"version 2":         {headerFrame(t, versioned{2}, 0), ErrFrameVersion, "found 2, expected 1"},
		"version 300":       {headerFrame(t, versioned{uint16(300)}, 0), ErrFrameVersion, "found 300"},
		"version -1":        {headerFrame(t, versioned{int8(-1)}, 0), ErrFrameVersion, "expected 1"},
		"version as text":   {headerFrame(t, versioned{"1"}, 0), ErrFrameHeader, "version"},
		"wrong field type":  {rawFrame(unhex(t, "82a17601a16ba0"), nil), ErrFrameHeader, "msgpack"},
		"trailing bytes":    {rawFrame(unhex(t, "81a1760100"), nil), ErrFrameHeader, "1 bytes after"},
		"claimed array":     {rawFrame(unhex(t, "82a17601a178ddffffffff"), nil), ErrFrameHeader, "length"},
		"claimed slots":     {rawFrame(unhex(t, "82a17601a164dd7fffffff01"), nil), ErrFrameHeader, "length"},
		"claimed string":    {rawFrame(unhex(t, "82a17601a172dbffffffff41"), nil), ErrFrameHeader, "length"},
		"extension type":    {rawFrame(unhex(t, "82a17601a178c70001"), nil), ErrFrameHeader, "0xc7"},
		"deep nesting":      {rawFrame(append(unhex(t, "82a17601a171"), bytes.Repeat([]byte{0x91}, 1000)...), nil), ErrFrameHeader, "nested"},
		"65 tensors":        {head(repeat(65, 1), "f32"), ErrFrameSize, "65 tensors, at most 64"},
		"9 dimensions":      {head(repeat(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), "f32"), ErrFrameShape, "9 dimensions, at most 8"},
		"zero dimension":    {head(repeat(1, 3, 0), "f32"), ErrFrameShape, "[3 0]"},
		"negative":          {head(repeat(1, -1), "f32"), ErrFrameShape, "not positive"},
		"two negatives":     {head(repeat(1, -2, -2), "f32"), ErrFrameShape, "not positive"},
		"overflow":          {head(repeat(1, 1<<32, 1<<32), "f32"), ErrFrameShape, "too large"},
		"overflow to 0":     {head(repeat(1, 1<<31, 1<<31, 4), "f32"), ErrFrameShape, "too large"},
		"largest int":       {head(repeat(1, math.MaxInt64, 1), "f32"), ErrFrameShape, "too large"},
		"over the limit":    {head(repeat(1, testLimit/4+1), "f32"), ErrFrameSize, "more than 1048576 bytes"},
		"limit in total":    {head(repeat(2, testLimit/8+1), "f32"), ErrFrameSize, "number 1"},
		"other type":        {head(repeat(1, 2), "f64"), ErrFrameShape, `"f64", expected "f32"`},
		"no type":           {head(repeat(1, 2), ""), ErrFrameShape, `"", expected "f32"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFrameReader(bytes.NewReader(c.frame), testLimit)
			r.alloc = func(n int) []float32 {
				t.Errorf("memory for %d values was taken", n)
				return make([]float32, n)
			}
			var m Message
			err := r.next(&m)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, expected %v and %q in it", err, c.want, c.text)
			}
		})
	}
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestFrameLimitIsInclusive(t *testing.T) {
	m := &Message{Header: Header{Kind: KindState}, Tensors: []coded.Tensor{coded.NewTensor(testLimit / 4)}}
	if _, err := decodeFrame(encodeFrame(t, m)); err != nil {
		t.Error(err)
	}
}

func TestSenderRefusesWhatReceiversWould(t *testing.T) {
	tensors := func(n int) []coded.Tensor {
		list := make([]coded.Tensor, n)
		for i := range list {
			list[i] = coded.NewTensor(1)
		}
		return list
	}
	for name, c := range map[string]struct {
		m    Message
		want error
	}{
		"empty tensor":  {Message{Tensors: []coded.Tensor{{}}}, ErrFrameShape},
		"shape too big": {Message{Tensors: []coded.Tensor{{Shape: []int{3}, Data: make([]float32, 2)}}}, ErrFrameShape},
		"zero dim":      {Message{Tensors: []coded.Tensor{{Shape: []int{0}}}}, ErrFrameShape},
		"many tensors":  {Message{Tensors: tensors(maxTensors + 1)}, ErrFrameSize},
		"many bytes":    {Message{Tensors: []coded.Tensor{coded.NewTensor(testLimit/4 + 1)}}, ErrFrameSize},
		"long header":   {Message{Header: Header{Error: strings.Repeat("x", maxHeader)}}, ErrFrameSize},
	} {
		var out bytes.Buffer
		w := newFrameWriter(&out, testLimit)
		if err := w.prepare(&c.m); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
		ok := &Message{Tensors: tensors(maxTensors)}
		if err := w.prepare(ok); err != nil {
			t.Errorf("%s: the next message is refused too: %v", name, err)
		}
	}
}

func TestFrameAllocator(t *testing.T) {
	frame := encodeFrame(t, sampleMessage())
	buf := make([]float32, 100)
	r := newFrameReader(bytes.NewReader(frame), testLimit)
	r.alloc = func(n int) []float32 { b := buf[:n+2]; buf = buf[n+2:]; return b } // larger than asked
	var m Message
	if err := r.next(&m); err != nil || len(m.Tensors[0].Data) != 6 || cap(m.Tensors[0].Data) != 6 {
		t.Errorf("tensor %v, %v", m.Tensors[0], err)
	}
	r = newFrameReader(bytes.NewReader(frame), testLimit)
	r.alloc = func(n int) []float32 { return nil }
	if err := r.next(&m); err == nil || !strings.Contains(err.Error(), "allocator gave 0 values, expected 6") {
		t.Errorf("an allocator without memory: %v", err)
	}
	// What was taken before the failure comes back for recycling.
	r = newFrameReader(bytes.NewReader(frame[:len(frame)-8]), testLimit)
	if err := r.next(&m); err == nil || len(m.Tensors) != 2 {
		t.Errorf("%d buffers after %v, expected 2", len(m.Tensors), err)
	}
}

func TestFrameSteadyStateAllocatesNoTensors(t *testing.T) {
	m := &Message{Header: Header{Kind: KindOperand}, Tensors: []coded.Tensor{coded.NewTensor(64, 1024)}}
	var wire bytes.Buffer
	w, r := newFrameWriter(&wire, testLimit), newFrameReader(&wire, testLimit)
	buf := make([]float32, 64*1024)
	r.alloc = func(n int) []float32 { return buf[:n] }
	var got Message
	run := func() {
		wire.Reset()
		if err := w.prepare(m); err != nil {
			t.Fatal(err)
		}
		if _, err := w.write(m); err != nil {
			t.Fatal(err)
		}
		if err := r.next(&got); err != nil {
			t.Fatal(err)
		}
	}
	run() // buffers grow once
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		run()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / runs; each > 8<<10 {
		t.Errorf("%d bytes are allocated for a message of %d", each, 4*len(buf))
	}
}
