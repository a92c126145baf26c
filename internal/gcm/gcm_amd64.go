//go:build !noasm

package gcm

import (
	"crypto/cipher"
	"crypto/fips140"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/cpu"
)

// vectors says whether this processor, and what is asked of this process, allow
// for the code in assembly.
func vectors() bool {
	x := &cpu.X86
	return x.HasAES && x.HasPCLMULQDQ && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL &&
		x.HasAVX512VAES && x.HasAVX512VPCLMULQDQ && !fips140.Enabled()
}

const (
	blockSize = 16
	groupSize = 16 * blockSize // what the loops in assembly take at a time
	// maxText is how far a counter of 32 bits reaches.
	maxText = (1<<32 - 2) * blockSize
)

var errOpen = errors.New("gcm: message authentication failed")

// vector is the AEAD in assembly.
type vector struct {
	rounds [11 * blockSize]byte
	powers [16][2]uint64 // H^16 to H, each times x
}

//go:noescape
func expandKey(rounds *[176]byte, key *[16]byte)

//go:noescape
func encryptBlock(rounds *[176]byte, dst, src *[16]byte)

// multiply gives a b / x in GF(2^128); low word first.
//
//go:noescape
func multiply(dst, a, b *[2]uint64)

// sealGroups and openGroups en- or decrypt groups of 256 bytes, at least one, and
// take the ciphertext into the hash. The counter is that of the first block, its
// last byte first. dst and src are the same memory or have none in common.
//
//go:noescape
func sealGroups(rounds *[176]byte, powers *[16][2]uint64, hash *[2]uint64, counter *[16]byte, dst, src *byte, groups int)

//go:noescape
func openGroups(rounds *[176]byte, powers *[16][2]uint64, hash *[2]uint64, counter *[16]byte, dst, src *byte, groups int)

func newVector(key [KeySize]byte) cipher.AEAD {
	v := &vector{}
	expandKey(&v.rounds, &key)
	var block [blockSize]byte
	encryptBlock(&v.rounds, &block, &block)
	h := words(&block)
	// Times x: the bit that falls out at the top comes back as the polynomial.
	carry := -(h[1] >> 63)
	h[1] = h[1]<<1 | h[0]>>63
	h[0] <<= 1
	h[0] ^= carry & 1
	h[1] ^= carry & 0xc2 << 56
	v.powers[15] = h
	for i := 14; i >= 0; i-- {
		multiply(&v.powers[i], &v.powers[i+1], &h)
	}
	return v
}

func (v *vector) NonceSize() int { return NonceSize }
func (v *vector) Overhead() int  { return TagSize }

// Seal is as cipher.AEAD says.
func (v *vector) Seal(dst, nonce, text, data []byte) []byte {
	v.check(nonce, len(text))
	out := slices.Grow(dst, len(text)+TagSize)[:len(dst)+len(text)+TagSize]
	sealed := out[len(dst):]
	m := v.begin(nonce, data)
	m.seal(sealed[:len(text)], text)
	tag := m.tag(len(data), len(text))
	copy(sealed[len(text):], tag[:])
	return out
}

// Open is as cipher.AEAD says.
func (v *vector) Open(dst, nonce, sealed, data []byte) ([]byte, error) {
	size := len(sealed) - TagSize
	if size < 0 {
		return nil, errOpen
	}
	v.check(nonce, size)
	out := slices.Grow(dst, size)[:len(dst)+size]
	text := out[len(dst):]
	// Where text is opened in place the tag stays, since it lies behind.
	m := v.begin(nonce, data)
	m.open(text, sealed[:size])
	tag := m.tag(len(data), size)
	if subtle.ConstantTimeCompare(tag[:], sealed[size:]) != 1 {
		clear(text)
		return nil, errOpen
	}
	return out, nil
}

// check panics, as the standard library does, at what only a mistake of the
// caller can bring about.
func (v *vector) check(nonce []byte, size int) {
	if len(nonce) != NonceSize {
		panic("gcm: nonce of a wrong length")
	}
	if uint64(size) > maxText {
		panic("gcm: message too long")
	}
}

// message is one that is being sealed or opened.
type message struct {
	*vector
	counter [blockSize]byte // big-endian, of the next block
	mask    [blockSize]byte // of the tag
	hash    [2]uint64
}

func (v *vector) begin(nonce, data []byte) message {
	m := message{vector: v}
	copy(m.counter[:], nonce)
	m.count(1)
	encryptBlock(&v.rounds, &m.mask, &m.counter)
	m.count(1)
	for len(data) > 0 {
		var block [blockSize]byte
		data = data[copy(block[:], data):]
		m.add(&block)
	}
	return m
}

// count moves the counter on.
func (m *message) count(blocks int) {
	at := m.counter[NonceSize:]
	binary.BigEndian.PutUint32(at, binary.BigEndian.Uint32(at)+uint32(blocks))
}

// add takes a block into the hash.
func (m *message) add(block *[blockSize]byte) {
	w := words(block)
	m.hash[0] ^= w[0]
	m.hash[1] ^= w[1]
	multiply(&m.hash, &m.hash, &m.powers[15])
}

func (m *message) seal(dst, src []byte) {
	dst, src = m.groups(dst, src, true)
	for len(src) > 0 {
		var block [blockSize]byte
		n := copy(block[:], src)
		m.crypt(&block)
		clear(block[n:])
		copy(dst, block[:n])
		m.add(&block)
		dst, src = dst[n:], src[n:]
	}
}

func (m *message) open(dst, src []byte) {
	dst, src = m.groups(dst, src, false)
	for len(src) > 0 {
		var block [blockSize]byte
		n := copy(block[:], src)
		m.add(&block)
		m.crypt(&block)
		copy(dst, block[:n])
		dst, src = dst[n:], src[n:]
	}
}

// groups has the whole groups done and gives what is left.
func (m *message) groups(dst, src []byte, seal bool) (_, _ []byte) {
	n := len(src) / groupSize
	if n == 0 {
		return dst, src
	}
	counter := m.counter
	slices.Reverse(counter[:])
	if seal {
		sealGroups(&m.rounds, &m.powers, &m.hash, &counter, &dst[0], &src[0], n)
	} else {
		openGroups(&m.rounds, &m.powers, &m.hash, &counter, &dst[0], &src[0], n)
	}
	m.count(n * groupSize / blockSize)
	return dst[n*groupSize:], src[n*groupSize:]
}

// crypt en- or decrypts a block with the next counter.
func (m *message) crypt(block *[blockSize]byte) {
	var pad [blockSize]byte
	encryptBlock(&m.rounds, &pad, &m.counter)
	m.count(1)
	subtle.XORBytes(block[:], block[:], pad[:])
}

// tag ends the hash with the lengths in bits.
func (m *message) tag(data, text int) [TagSize]byte {
	var block [blockSize]byte
	binary.BigEndian.PutUint64(block[:8], 8*uint64(data))
	binary.BigEndian.PutUint64(block[8:], 8*uint64(text))
	m.add(&block)
	binary.BigEndian.PutUint64(block[:8], m.hash[1])
	binary.BigEndian.PutUint64(block[8:], m.hash[0])
	subtle.XORBytes(block[:], block[:], m.mask[:])
	return block
}

// words gives a block as a number of two words, low word first.
func words(block *[blockSize]byte) [2]uint64 {
	return [2]uint64{binary.BigEndian.Uint64(block[8:]), binary.BigEndian.Uint64(block[:8])}
}
