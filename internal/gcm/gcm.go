package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// KeySize, NonceSize and TagSize are in bytes.
const (
	KeySize   = 16
	NonceSize = 12
	TagSize   = 16
)

// New returns AES-128-GCM under a key of KeySize bytes.
func New(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("gcm: key of %d bytes, expected %d", len(key), KeySize)
	}
	if vectors() {
		return newVector([KeySize]byte(key)), nil
	}
	return newStandard(key)
}

// newStandard returns the standard library's.
func newStandard(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("gcm: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("gcm: %w", err)
	}
	return aead, nil
}
