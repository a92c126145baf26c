package dist

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/coda-ml/coda/internal/gcm"
)

// After the handshake and the proofs a connection carries segments instead of
// TLS records. A segment is
//
//	uint32   length of the plain bytes, little-endian, 1 to 128 KiB
//	bytes    AES-128-GCM of them, and its tag of 16 bytes
//
// The length is the additional data, and the nonce is the number of the segment
// in its direction, which does not travel. Package doc says why that is safe.

const (
	maxSegment  = 128 << 10
	segmentHead = 4
	segmentTag  = gcm.TagSize
	// segmentsPerKey bounds what one key encrypts to 2^37 bytes, 2^33 blocks:
	// the bound on what an eavesdropper gains, blocks^2 / 2^129, is 2^-63 then
	// (TLS 1.3 asks for 2^-57: RFC 8446 section 5.5).
	segmentsPerKey = 1 << 20
	// smallRead is what is read before the length of the next segment is known:
	// enough for most messages that carry no tensors.
	smallRead = 16 << 10
	// A buffer for sending holds the segment of a header and a full one, so that
	// both leave in one system call. Where more comes in one message it grows to
	// four full ones: fewer system calls, and fewer times that the peer is woken.
	smallGather = 4<<10 + fullSegment
	bulkGather  = 4<<10 + 4*fullSegment
	fullSegment = segmentHead + maxSegment + segmentTag
)

// ErrSegment says that the bytes of a connection are not those that the peer
// sent, or not in that order.
var ErrSegment = errors.New("segment is not authentic")

// segmentCipher numbers, and gives the keys of, the segments of one direction.
type segmentCipher struct {
	secret []byte // of the next key
	perKey uint64
	count  uint64 // segments so far
	nonce  [gcm.NonceSize]byte
	aead   cipher.AEAD
}

func newSegmentCipher(secret []byte) *segmentCipher {
	return &segmentCipher{secret: secret, perKey: segmentsPerKey}
}

// next moves to the next segment: s.aead and s.nonce are its. Old keys cannot
// be had from new ones.
func (s *segmentCipher) next() error {
	if s.count%s.perKey == 0 {
		if err := s.rekey(); err != nil {
			return fmt.Errorf("key of segment %d: %w", s.count, err)
		}
	}
	binary.BigEndian.PutUint64(s.nonce[4:], s.count)
	s.count++
	return nil
}

func (s *segmentCipher) rekey() error {
	key, err := hkdf.Expand(sha256.New, s.secret, "coda segment key", gcm.KeySize)
	if err != nil {
		return err
	}
	if s.secret, err = hkdf.Expand(sha256.New, s.secret, "coda segment next", sha256.Size); err != nil {
		return err
	}
	s.aead, err = gcm.New(key)
	return err
}

// sealedStream sends and receives segments. One goroutine writes at a time and
// one reads. After an error in a direction that direction is at its end.
type sealedStream struct {
	c net.Conn
	// begun, if not nil, is called when a part of a segment has come and the
	// rest has to be waited for.
	begun func() error

	opening *segmentCipher
	in      []byte // the buffer
	have    int    // bytes of in that were read from c
	used    int    // of those, the ones that are done with
	plain   []byte // opened and not yet given; lies in the used part of in

	sealing *segmentCipher
	held    bool
	out     []byte // segments that are to be sent; its capacity is the buffer
}

func newSealedStream(c net.Conn, opening, sealing *segmentCipher) *sealedStream {
	return &sealedStream{
		c: c, opening: opening, sealing: sealing,
		in: make([]byte, fullSegment+segmentHead),
	}
}

// Write seals p straight from where it lies. While held, segments are gathered
// until the buffer is full or the hold is released.
func (s *sealedStream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+maxSegment)]
		if err := s.seal(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	if s.held {
		return n, nil
	}
	return n, s.flush()
}

func (s *sealedStream) seal(part []byte) error {
	if err := s.room(segmentHead + len(part) + segmentTag); err != nil {
		return err
	}
	if err := s.sealing.next(); err != nil {
		return err
	}
	start := len(s.out)
	s.out = binary.LittleEndian.AppendUint32(s.out, uint32(len(part)))
	s.out = s.sealing.aead.Seal(s.out, s.sealing.nonce[:], part, s.out[start:])
	return nil
}

// room makes room for n bytes in the buffer.
func (s *sealedStream) room(n int) error {
	switch {
	case len(s.out)+n <= cap(s.out):
		return nil
	case s.out == nil:
		s.out = make([]byte, 0, smallGather)
		return nil
	case cap(s.out) < bulkGather && s.held:
		s.out = append(make([]byte, 0, bulkGather), s.out...)
		return nil
	}
	return s.flush()
}

// hold starts to gather segments.
func (s *sealedStream) hold() { s.held = true }

// release ends the gathering and sends what was gathered.
func (s *sealedStream) release() error {
	s.held = false
	return s.flush()
}

func (s *sealedStream) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_, err := s.c.Write(s.out)
	s.out = s.out[:0]
	return err
}

// Read gives bytes that have been authenticated, and no others. A segment that
// fits into p is opened there, without a copy. io.EOF means an end between two
// segments.
func (s *sealedStream) Read(p []byte) (int, error) {
	if len(s.plain) == 0 && len(p) > 0 {
		if n, err := s.open(p); n > 0 || err != nil {
			return n, err
		}
	}
	n := copy(p, s.plain)
	s.plain = s.plain[n:]
	return n, nil
}

// open opens the next segment: into p, and gives its length, if it fits; else
// in place, and gives 0.
func (s *sealedStream) open(p []byte) (int, error) {
	size, err := s.fetch()
	if err != nil {
		return 0, err
	}
	body := s.in[segmentHead : segmentHead+size+segmentTag]
	dst := p[:0]
	if size > len(p) {
		dst = body[:0]
	}
	if err := s.opening.next(); err != nil {
		return 0, err
	}
	plain, err := s.opening.aead.Open(dst, s.opening.nonce[:], body, s.in[:segmentHead])
	if err != nil {
		return 0, fmt.Errorf("%w: number %d, of %d bytes", ErrSegment, s.opening.count-1, size)
	}
	s.used = segmentHead + len(body)
	if size <= len(p) {
		return size, nil
	}
	s.plain = plain
	return 0, nil
}

// fetch reads a whole segment to the front of the buffer and gives the length
// of its plain bytes.
func (s *sealedStream) fetch() (int, error) {
	s.have = copy(s.in, s.in[s.used:s.have])
	s.used = 0
	if err := s.fill(segmentHead, smallRead); err != nil {
		return 0, err
	}
	size := binary.LittleEndian.Uint32(s.in)
	if size == 0 || size > maxSegment {
		return 0, fmt.Errorf("%w: number %d says %d bytes, expected 1 to %d", ErrSegment, s.opening.count, size, maxSegment)
	}
	whole := segmentHead + int(size) + segmentTag
	return int(size), s.fill(whole, whole+segmentHead)
}

// fill reads until the buffer holds n bytes, and takes what comes with them up
// to most in all.
func (s *sealedStream) fill(n, most int) error {
	waited := false
	for s.have < n {
		if s.have > 0 && !waited && s.begun != nil {
			waited = true
			if err := s.begun(); err != nil {
				return err
			}
		}
		got, err := s.c.Read(s.in[s.have:most])
		s.have += got
		if err != nil && s.have < n {
			if err == io.EOF && s.have > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}
