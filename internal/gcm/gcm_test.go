package gcm

import (
	"bytes"
	"crypto/cipher"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
)

func fill(rng *rand.ChaCha8, n int) []byte {
	b := make([]byte, n)
	rng.Read(b)
	return b
}

// both gives this package's AEAD and the standard library's.
func both(tb testing.TB, key []byte) (ours, standard cipher.AEAD) {
	tb.Helper()
	ours, err := New(key)
	if err != nil {
		tb.Fatal(err)
	}
	if standard, err = newStandard(key); err != nil {
		tb.Fatal(err)
	}
	return ours, standard
}

// The vectors 1 to 4 of McGrew and Viega's specification of GCM (2005).
func TestPublishedVectors(t *testing.T) {
	const (
		key  = "feffe9928665731c6d6a8f9467308308"
		text = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
		out  = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
	)
	for i, c := range []struct{ key, nonce, data, text, want string }{
		{"00000000000000000000000000000000", "000000000000000000000000", "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
		{"00000000000000000000000000000000", "000000000000000000000000", "", "00000000000000000000000000000000",
			"0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"},
		{key, "cafebabefacedbaddecaf888", "", text, out + "4d5c2af327cd64a62cf35abd2ba6fab4"},
		{key, "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2", text[:120], out[:120] + "5bc94fbc3221a5db94fae95ae7121a47"},
	} {
		bytesOf := func(s string) []byte {
			b, err := hex.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		ours, _ := both(t, bytesOf(c.key))
		got := ours.Seal(nil, bytesOf(c.nonce), bytesOf(c.text), bytesOf(c.data))
		if want := bytesOf(c.want); !bytes.Equal(got, want) {
			t.Errorf("vector %d is\n%x, expected\n%x", i+1, got, want)
		}
	}
}

// Every length through three groups and around larger ones: the bytes are the
// standard library's, both ways.
func TestEveryLength(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	sizes := []int{4095, 4096, 4097, 65_535, 128 << 10, 128<<10 + 17}
	for n := range 3*256 + 20 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		ours, standard := both(t, fill(rng, KeySize))
		nonce, text, data := fill(rng, NonceSize), fill(rng, n), fill(rng, n%37)
		want := standard.Seal([]byte("head"), nonce, text, data)
		if got := ours.Seal([]byte("head"), nonce, text, data); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes are sealed in another way", n)
		}
		if got, err := ours.Open([]byte("front"), nonce, want[4:], data); err != nil || !bytes.Equal(got[5:], text) || string(got[:5]) != "front" {
			t.Fatalf("%d bytes are opened in another way: %v", n, err)
		}
	}
}

// In place, and at any address.
func TestInPlace(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{2})
	ours, standard := both(t, fill(rng, KeySize))
	for shift := range 70 {
		n := 600 + shift
		nonce, buf := fill(rng, NonceSize), make([]byte, shift+n+TagSize)
		text := fill(rng, n)
		copy(buf[shift:], text)
		at := buf[shift:]
		if got := ours.Seal(at[:0], nonce, at[:n], nil); !bytes.Equal(got, standard.Seal(nil, nonce, text, nil)) || &got[0] != &at[0] {
			t.Fatalf("shift %d: sealed in another way, or elsewhere", shift)
		}
		if got, err := ours.Open(at[:0], nonce, at, nil); err != nil || !bytes.Equal(got, text) || &got[0] != &at[0] {
			t.Fatalf("shift %d: opened in another way, or elsewhere: %v", shift, err)
		}
	}
}

// Whatever is wrong, it is refused, and the memory holds nothing of the text.
func TestRefuses(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{3})
	ours, _ := both(t, fill(rng, KeySize))
	nonce, data := fill(rng, NonceSize), fill(rng, 5)
	for _, n := range []int{0, 1, 16, 100, 256, 700} {
		sealed := ours.Seal(nil, nonce, fill(rng, n), data)
		for bit := range 8 * len(sealed) {
			wrong := bytes.Clone(sealed)
			wrong[bit/8] ^= 1 << (bit % 8)
			memory := bytes.Repeat([]byte{7}, n)
			if _, err := ours.Open(memory[:0], nonce, wrong, data); err == nil {
				t.Fatalf("%d bytes, bit %d is wrong, and nobody noticed", n, bit)
			}
			if !bytes.Equal(memory, make([]byte, n)) {
				t.Fatalf("%d bytes: what was refused has left something", n)
			}
		}
		if _, err := ours.Open(nil, nonce, sealed, data[:4]); err == nil {
			t.Errorf("%d bytes: other data were accepted", n)
		}
		if _, err := ours.Open(nil, fill(rng, NonceSize), sealed, data); err == nil {
			t.Errorf("%d bytes: another nonce was accepted", n)
		}
		if _, err := ours.Open(nil, nonce, sealed[:min(n, TagSize-1)], data); err == nil {
			t.Errorf("%d bytes: less than a tag was accepted", n)
		}
	}
	if _, err := New(make([]byte, 15)); err == nil {
		t.Error("a key of 15 bytes was accepted")
	}
	mustPanic(t, func() { ours.Seal(nil, nonce[:11], nil, nil) })
	mustPanic(t, func() { ours.Open(nil, append(nonce, 1), make([]byte, TagSize), nil) })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("a nonce of a wrong length was accepted")
		}
	}()
	f()
}

func TestAllocatesNothing(t *testing.T) {
	ours, _ := both(t, make([]byte, KeySize))
	nonce, text, out := make([]byte, NonceSize), make([]byte, 1000), make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(100, func() {
		out = ours.Seal(out[:0], nonce, text, nonce)
		if _, err := ours.Open(text[:0], nonce, out, nonce); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for sealing and opening", n)
	}
}

func FuzzSameAsStandard(f *testing.F) {
	f.Add(make([]byte, KeySize), make([]byte, NonceSize), []byte("text"), []byte("data"))
	f.Add(bytes.Repeat([]byte{255}, KeySize), bytes.Repeat([]byte{255}, NonceSize), make([]byte, 300), []byte{})
	f.Fuzz(func(t *testing.T, key, nonce, text, data []byte) {
		if len(key) != KeySize || len(nonce) != NonceSize {
			return
		}
		ours, standard := both(t, key)
		sealed := standard.Seal(nil, nonce, text, data)
		if got := ours.Seal(nil, nonce, text, data); !bytes.Equal(got, sealed) {
			t.Fatalf("sealed as %x, expected %x", got, sealed)
		}
		if got, err := ours.Open(nil, nonce, sealed, data); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("opened as %x, expected %x: %v", got, text, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) { benchmark(b, false) }
func BenchmarkOpen(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, open bool) {
	for _, n := range []int{100, 128 << 10} {
		ours, standard := both(b, make([]byte, KeySize))
		for name, aead := range map[string]cipher.AEAD{"ours": ours, "standard": standard} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				nonce, text := make([]byte, NonceSize), make([]byte, n)
				sealed := aead.Seal(nil, nonce, text, nil)
				b.SetBytes(int64(n))
				for b.Loop() {
					if !open {
						aead.Seal(sealed[:0], nonce, text, nil)
					} else if _, err := aead.Open(text[:0], nonce, sealed, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
