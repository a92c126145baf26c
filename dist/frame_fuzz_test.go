package dist

import (
	"bytes"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
)

// Any bytes: no panic, no memory beyond the limit, and what is accepted means
// the same when it is sent on.
func FuzzReadFrame(f *testing.F) {
	f.Add(encodeFrame(f, sampleMessage()))
	f.Add(encodeFrame(f, &Message{Header: Header{Kind: KindHello, Run: "r", From: "w1"}}))
	f.Add(encodeFrame(f, &Message{Header: Header{
		Kind:   KindPlace,
		Place:  &coded.Layer{Name: "fc1", Kind: "linear", Code: coded.Spec{Name: "uncoded", N: 2, K: 2}, Chunks: 3, Config: []byte{1, 2}},
		Update: &coded.Update{Step: 1, LR: 0.1},
	}}))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		taken := 0
		read := func(b []byte) (Message, error) {
			r := newFrameReader(bytes.NewReader(b), testLimit)
			r.alloc = func(n int) []float32 {
				if taken += 4 * n; taken > 2*testLimit {
					t.Fatalf("%d bytes taken", taken)
				}
				return make([]float32, n)
			}
			var m Message
			return m, r.next(&m)
		}
		m, err := read(b)
		if err != nil {
			return
		}
		again := encodeFrame(t, &m)
		back, err := read(again)
		if err != nil {
			t.Fatalf("what was accepted is refused when it comes from us: %v", err)
		}
		// Compared as bytes: numbers may be NaN.
		if last := encodeFrame(t, &back); !bytes.Equal(again, last) {
			t.Fatalf("%x became %x", again, last)
		}
	})
}

// Any bytes in place of segments: no panic, and nothing comes out but what the
// peer has sealed, in its order.
func FuzzSegments(f *testing.F) {
	texts := []string{"one", "two", "three"}
	s := sealEach(f, texts...)
	f.Add(bytes.Join(s, nil))
	f.Add(bytes.Join([][]byte{s[1], s[0]}, nil))
	f.Add(bytes.Join([][]byte{s[0], s[0]}, nil))
	f.Add([]byte{0, 0, 2, 0})
	f.Add([]byte("\x17\x03\x03\x00\x20"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := openAll(b)
		sent, whole := "", 0
		for i := 0; i < len(s) && bytes.HasPrefix(b[whole:], s[i]); i++ {
			sent, whole = sent+texts[i], whole+len(s[i])
		}
		if got != sent {
			t.Fatalf("%q came out, expected %q", got, sent)
		}
		if clean := whole == len(b); clean != (err == nil) {
			t.Fatalf("%d of %d bytes are the peer's: %v", whole, len(b), err)
		}
	})
}

// A header that the walk accepts is decoded without much memory, whatever it
// claims; and the walk accepts all that the encoder makes.
func FuzzHeader(f *testing.F) {
	for _, h := range []Header{{Version: 1, Kind: KindPing}, sampleMessage().Header, {Version: 1, Shapes: [][]int{{1, 1 << 40}}, DType: "f32"}} {
		b, err := msgpack.Marshal(&h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x82, 0xa1, 'v', 1, 0xa1, 'x', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxHeader {
			return
		}
		var h Header
		r := newFrameReader(nil, testLimit)
		if err := r.decode(b, &h); err != nil {
			return
		}
		if n := len(h.Shapes) + len(h.Slots) + len(h.Error) + len(h.Layer); n > len(b) {
			t.Fatalf("%d bytes of header became %d things", len(b), n)
		}
		encoded, err := msgpack.Marshal(&h)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMsgpack(encoded); err != nil {
			t.Fatalf("our own header %x: %v", encoded, err)
		}
	})
}

// Metadata come from the network as well.
func FuzzMetadata(f *testing.F) {
	b, err := encodeMeta(Member{Name: "w1", Addr: "127.0.0.1:1", Role: RoleWorker, Speed: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		encoded, err := encodeMeta(m)
		if err != nil {
			t.Fatalf("%+v was accepted and cannot be sent: %v", m, err)
		}
		if back, err := decodeMeta(encoded); err != nil || back != m {
			t.Fatalf("%+v became %+v: %v", m, back, err)
		}
	})
}
