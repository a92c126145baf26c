package dist

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
)

// segmentWire is a connection whose bytes lie in memory, to be read and
// changed. A read gives at most piece bytes, if that is not zero.
type segmentWire struct {
	net.Conn
	bytes.Buffer
	piece  int
	writes int
}

func (w *segmentWire) Write(p []byte) (int, error) { w.writes++; return w.Buffer.Write(p) }

func (w *segmentWire) Read(p []byte) (int, error) {
	if w.piece > 0 {
		p = p[:min(len(p), w.piece)]
	}
	return w.Buffer.Read(p)
}

func testSecret(name string) []byte {
	secret := sha256.Sum256([]byte(name))
	return secret[:]
}

// sealer and opener are the two ends of one direction.
func sealer(w *segmentWire) *sealedStream {
	return newSealedStream(w, newSegmentCipher(testSecret("other")), newSegmentCipher(testSecret("this")))
}

func opener(w *segmentWire) *sealedStream {
	return newSealedStream(w, newSegmentCipher(testSecret("this")), newSegmentCipher(testSecret("other")))
}

// sealEach gives the segments of the texts one by one.
func sealEach(t testing.TB, texts ...string) [][]byte {
	t.Helper()
	w := &segmentWire{}
	s := sealer(w)
	var segments [][]byte
	for _, text := range texts {
		if _, err := io.WriteString(s, text); err != nil {
			t.Fatal(err)
		}
		segments = append(segments, bytes.Clone(w.Bytes()))
		w.Reset()
	}
	return segments
}

// openAll reads until an error, and gives what came before it.
func openAll(b ...[]byte) (string, error) {
	w := &segmentWire{}
	w.Buffer.Write(bytes.Join(b, nil))
	got, err := io.ReadAll(opener(w))
	return string(got), err
}

// However the bytes are cut on their way in, on the wire and out, they arrive.
func TestSegmentsCarryAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &segmentWire{piece: rapid.SampledFrom([]int{0, 1 << 10, 70_000}).Draw(t, "piece")}
		s, o := sealer(w), opener(w)
		perKey := uint64(rapid.IntRange(1, 5).Draw(t, "segments per key"))
		s.sealing.perKey, o.opening.perKey = perKey, perKey
		var sent []byte
		for i := range rapid.IntRange(1, 6).Draw(t, "writes") {
			size := rapid.SampledFrom([]int{0, 1, 7, smallRead, 4 << 10, maxSegment - 1, maxSegment, maxSegment + 1, 3 * maxSegment}).Draw(t, "size")
			p := bytes.Repeat([]byte{byte(i + 1)}, size)
			if rapid.Bool().Draw(t, "hold") {
				s.hold()
			}
			if n, err := s.Write(p); n != size || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, size, err)
			}
			if rapid.Bool().Draw(t, "release") {
				if err := s.release(); err != nil {
					t.Fatal(err)
				}
			}
			sent = append(sent, p...)
		}
		if err := s.release(); err != nil {
			t.Fatal(err)
		}
		var got []byte
		buf := make([]byte, rapid.SampledFrom([]int{1000, maxSegment, 2 * maxSegment}).Draw(t, "buffer"))
		for {
			n, err := o.Read(buf)
			got = append(got, buf[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, sent) {
			t.Fatalf("%d bytes arrived, %d were sent, or they differ", len(got), len(sent))
		}
	})
}

// The bytes of a segment, made by hand. If this test has to change, so has the
// protocol's name (alpn).
func TestSegmentGolden(t *testing.T) {
	const key = "c2e64937bba83780b85347c7019df356" // HMAC-SHA256(SHA256("this"), "coda segment key" || 1)
	raw, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	got := sealEach(t, "hello", "world!")
	for i, text := range []string{"hello", "world!"} {
		head := []byte{byte(len(text)), 0, 0, 0}
		nonce := make([]byte, 12)
		nonce[11] = byte(i)
		if want := gcm.Seal(head, nonce, []byte(text), head); !bytes.Equal(got[i], want) {
			t.Errorf("segment %d is\n%x, expected\n%x", i, got[i], want)
		}
	}
}

// Whoever changes, drops, repeats, swaps, cuts or reflects segments is found
// out, and not a byte of what he touched is given.
func TestSegmentsAreProtected(t *testing.T) {
	s := sealEach(t, "one", "two", "three", "four")
	changed := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 0x20
		return b
	}
	w := &segmentWire{}
	if _, err := io.WriteString(opener(w), "back"); err != nil { // its own direction
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		wire [][]byte
		got  string
		want error
	}{
		"untouched":          {s, "onetwothreefour", nil},
		"changed length":     {[][]byte{s[0], changed(s[1], 0)}, "one", io.ErrUnexpectedEOF},
		"changed byte":       {[][]byte{s[0], changed(s[1], segmentHead)}, "one", ErrSegment},
		"changed tag":        {[][]byte{s[0], changed(s[1], len(s[1])-1)}, "one", ErrSegment},
		"shorter":            {[][]byte{s[0], {2, 0, 0, 0}, s[1][segmentHead:]}, "one", ErrSegment},
		"dropped":            {[][]byte{s[0], s[2]}, "one", ErrSegment},
		"the first dropped":  {s[1:], "", ErrSegment},
		"repeated":           {[][]byte{s[0], s[1], s[1]}, "onetwo", ErrSegment},
		"swapped":            {[][]byte{s[0], s[2], s[1], s[3]}, "one", ErrSegment},
		"reflected":          {[][]byte{w.Bytes()}, "", ErrSegment},
		"cut in the head":    {[][]byte{s[0], s[1][:3]}, "one", io.ErrUnexpectedEOF},
		"cut in the body":    {[][]byte{s[0], s[1][:segmentHead+1]}, "one", io.ErrUnexpectedEOF},
		"cut before the tag": {[][]byte{s[0], s[1][:len(s[1])-1]}, "one", io.ErrUnexpectedEOF},
		"empty":              {[][]byte{s[0], make([]byte, segmentHead+segmentTag)}, "one", ErrSegment},
		"too long":           {[][]byte{s[0], {1, 0, 2, 0}}, "one", ErrSegment},
		"far too long":       {[][]byte{s[0], {255, 255, 255, 255}}, "one", ErrSegment},
		"a TLS record":       {[][]byte{{23, 3, 3, 0, 64}, make([]byte, 64)}, "", ErrSegment},
	} {
		got, err := openAll(c.wire...)
		if got != c.got || !errors.Is(err, c.want) {
			t.Errorf("%s: got %q and %v, expected %q and %v", name, got, err, c.got, c.want)
		}
	}
}

// Every bit of a segment is vouched for.
func TestSegmentDamagedAnywhere(t *testing.T) {
	s := sealEach(t, "one")[0]
	for i := range s {
		for bit := range 8 {
			damaged := bytes.Clone(s)
			damaged[i] ^= 1 << bit
			if got, err := openAll(damaged); got != "" || err == nil {
				t.Fatalf("bit %d of byte %d is wrong: got %q and %v", bit, i, got, err)
			}
		}
	}
}

// An attacker's bytes never come out where the caller's memory lies, even for a
// moment after Read.
func TestSegmentForgedIntoTheCallersMemory(t *testing.T) {
	forged := sealEach(t, strings.Repeat("x", 1000))[0]
	forged[500] ^= 1
	w := &segmentWire{}
	w.Buffer.Write(forged)
	p := make([]byte, 2000)
	if n, err := opener(w).Read(p); n != 0 || !errors.Is(err, ErrSegment) {
		t.Fatalf("read %d: %v", n, err)
	}
	if !bytes.Equal(p, make([]byte, len(p))) {
		t.Error("bytes that were not authentic have been written")
	}
}

// Keys follow one another on both sides, and each has its own.
func TestSegmentKeysChange(t *testing.T) {
	a, b := newSegmentCipher(testSecret("a")), newSegmentCipher(testSecret("a"))
	a.perKey, b.perKey = 3, 3
	seen := map[string]int{}
	for i := range 9 {
		if err := errors.Join(a.next(), b.next()); err != nil {
			t.Fatal(err)
		}
		sealed := a.aead.Seal(nil, a.nonce[:], []byte("text"), nil)
		if _, err := b.aead.Open(nil, b.nonce[:], sealed, nil); err != nil {
			t.Fatalf("segment %d: the other side has another key or nonce: %v", i, err)
		}
		seen[string(a.secret)]++
		fixed := a.aead.Seal(nil, make([]byte, 12), []byte("text"), nil)
		seen[string(fixed)]++
	}
	if len(seen) != 6 {
		t.Errorf("%d secrets and keys for 9 segments of 3 a key, expected 3 and 3", len(seen))
	}
	for v, n := range seen {
		if n != 3 {
			t.Errorf("%x was there for %d segments, expected 3", v, n)
		}
	}
}

// Small messages cost one system call, bulk one for four segments; the memory
// for bulk is taken only where there is bulk.
func TestSegmentsPerWrite(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		want  int
	}{
		"header":               {[]int{100}, 1},
		"header and tensor":    {[]int{100, 50_000}, 1},
		"header and a segment": {[]int{100, maxSegment}, 1},
		"bulk":                 {[]int{100, 2 * maxSegment, 2 * maxSegment}, 1},
		"more bulk":            {[]int{100, 2 * maxSegment, 2 * maxSegment, 5 * maxSegment, 1}, 3},
	} {
		w := &segmentWire{}
		s := sealer(w)
		s.hold()
		for _, n := range c.sizes {
			if _, err := s.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.release(); err != nil || w.writes != c.want {
			t.Errorf("%s: %d writes, expected %d: %v", name, w.writes, c.want, err)
		}
		if bulk := len(c.sizes) > 2; (cap(s.out) > smallGather) != bulk {
			t.Errorf("%s: a buffer of %d bytes", name, cap(s.out))
		}
	}
}

// Bulk is opened in the memory that it is for, and sealed from where it lies.
func TestSegmentsAreNotCopied(t *testing.T) {
	w := &segmentWire{}
	s, o := sealer(w), opener(w)
	p := make([]byte, 2*maxSegment)
	if _, err := s.Write(p); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if n, err := o.Read(p); n != maxSegment || err != nil || o.plain != nil {
			t.Fatalf("read %d gave %d bytes, %d left over: %v", i, n, len(o.plain), err)
		}
	}
}

// sealedPair is a pair of sealed connections over net.Pipe.
func sealedPair() (a, b *Conn, wire net.Conn) {
	x, y := net.Pipe()
	secret := func(from byte) *segmentCipher { return newSegmentCipher(testSecret(string(from))) }
	a = newSealedConn(x, newSealedStream(x, secret(roleServer), secret(roleClient)))
	b = newSealedConn(y, newSealedStream(y, secret(roleClient), secret(roleServer)))
	return a, b, x
}

// A message that has begun must keep coming, also before its first byte can be
// opened; before that there is no hurry.
func TestSealedConnStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, wire := sealedPair()
		defer a.Close()
		defer b.Close()
		tap := &segmentWire{}
		stream := newSealedStream(tap, nil, newSegmentCipher(testSecret(string(rune(roleClient)))))
		if _, err := stream.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			time.Sleep(24 * time.Hour)
			for _, c := range tap.Bytes() { // slow loris
				time.Sleep(DefaultStall - time.Second)
				if _, err := wire.Write([]byte{c}); err != nil {
					return
				}
			}
		}()
		start := time.Now()
		err := b.Recv(new(Message))
		if want := 24*time.Hour + 2*DefaultStall - time.Second; !isTimeout(err) || time.Since(start) != want {
			t.Errorf("after %v: %v, expected a timeout after %v", time.Since(start), err, want)
		}
		<-over
	})
}

// What is damaged between two nodes ends the connection with an error that
// says where, and gives no message.
func TestSealedConnDamaged(t *testing.T) {
	noLeaks(t)
	a, b, wire := sealedPair()
	defer a.Close()
	defer b.Close()
	tap := &segmentWire{}
	a.io.(*sealedStream).c = tap
	m := &Message{Header: Header{Kind: KindState}, Tensors: []coded.Tensor{coded.NewTensor(100)}}
	if err := a.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	damaged := tap.Bytes()
	damaged[len(damaged)-30] ^= 1
	go wire.Write(damaged)
	err := b.Recv(new(Message))
	if !errors.Is(err, ErrSegment) || !strings.Contains(err.Error(), "receive from pipe: segment is not authentic: number 1, of 400 bytes") {
		t.Errorf("error %v", err)
	}
	if err := b.Recv(new(Message)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("afterwards: %v, expected a closed connection", err)
	}
}

// After the proofs there are no more TLS records, nothing is legible, and no
// two connections have a byte in common.
func TestNothingLegibleOnTheWire(t *testing.T) {
	noLeaks(t)
	key := NewKey()
	l, _ := listenTest(t, Wire{Key: key})
	var tails [][]byte
	for range 2 {
		tap := &recorder{Conn: dialRaw(t, l)}
		client, err := secure(t.Context(), tap, key, roleClient)
		if err != nil {
			t.Fatal(err)
		}
		tap.sent.Reset()
		m := &Message{Header: Header{Kind: KindState, Layer: "secret-layer"}, Tensors: []coded.Tensor{coded.NewTensor(1000)}}
		if err := client.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testDeadline)
		server, err := l.Accept(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, server, KindState, "secret-layer", 1)
		server.Close()
		client.Close()
		tails = append(tails, bytes.Clone(tap.sent.Bytes()))
	}
	for _, b := range tails {
		if bytes.Contains(b, []byte("secret")) || bytes.Contains(b, make([]byte, 16)) {
			t.Error("header or tensor can be read on the wire")
		}
	}
	if len(tails[0]) != len(tails[1]) || bytes.Equal(tails[0][segmentHead:segmentHead+8], tails[1][segmentHead:segmentHead+8]) {
		t.Error("the same message looks the same in two connections")
	}
}
