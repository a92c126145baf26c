package dist

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/coda-ml/coda/internal/atomicfile"
)

// Key is the secret that the nodes of one cluster share. The zero Key stands
// for "no key": it is accepted on loopback only, where it protects nothing.
//
// A Key prints as "key(…)" whatever the verb, and in slog records too; only
// MarshalText gives the secret away. (A Key in an unexported field of a struct
// that is printed whole escapes this: fmt calls no methods there.)
type Key [32]byte

const redactedKey = "key(…)"

// ErrKeyRequired says that a node would be reachable from, or would speak to,
// other machines without a cluster key.
var ErrKeyRequired = errors.New("a cluster key is required off loopback (train keygen makes one, --key names its file)")

// NewKey makes a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails: crypto/rand ends the program instead
	return k
}

// ParseKey reads a key written as base64 (any of its usual alphabets, padded
// or not) or as 64 hexadecimal digits. Space around it is ignored.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	raw, err := decodeKey(text)
	if err != nil {
		return Key{}, err
	}
	var k Key
	if len(raw) != len(k) {
		return Key{}, fmt.Errorf("cluster key: %d bytes, expected %d", len(raw), len(k))
	}
	copy(k[:], raw)
	if k.IsZero() {
		return Key{}, errors.New("cluster key: all bytes are zero, expected a random key")
	}
	return k, nil
}

// decodeKey never puts the text into its errors: it may be a secret. Hex comes
// first, since 64 hex digits are valid base64 (of 48 bytes) as well.
func decodeKey(text string) ([]byte, error) {
	if text == "" {
		return nil, errors.New("cluster key: empty, expected base64 or hex of 32 bytes")
	}
	if raw, err := hex.DecodeString(text); err == nil && len(text) == 2*len(Key{}) {
		return raw, nil
	}
	text = strings.TrimRight(text, "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("cluster key: neither base64 nor hex (one line of 44 or 64 characters expected)")
	}
	return raw, nil
}

// maxKeyFile bounds what LoadKey reads: a key is at most 64 characters.
const maxKeyFile = 1 << 10

// LoadKey reads the one line of a key file. It refuses a file that others can
// use, as ssh does. The group of a file that belongs to root may read it, if this
// process is not root: so systemd and Kubernetes hand secrets over.
func LoadKey(path string) (Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return Key{}, fmt.Errorf("cluster key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Key{}, fmt.Errorf("cluster key: %w", err)
	}
	if perm := info.Mode().Perm(); perm&^allowedMode(ownedByRoot(info), os.Geteuid()) != 0 {
		return Key{}, fmt.Errorf("cluster key %s: mode %04o lets others use it, expected 0600 (chmod 600 %s): %w",
			path, perm, path, fs.ErrPermission)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return Key{}, fmt.Errorf("cluster key %s: %w", path, err)
	}
	if len(text) > maxKeyFile {
		return Key{}, fmt.Errorf("cluster key %s: more than %d bytes, expected one line", path, maxKeyFile)
	}
	k, err := ParseKey(string(text))
	if err != nil {
		return Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// allowedMode are the permissions that a key file may have.
func allowedMode(rootOwns bool, user int) fs.FileMode {
	if rootOwns && user != 0 {
		return 0o740
	}
	return 0o700
}

// WriteKeyFile writes the key to a new file with mode 0600, whole or not at
// all. A file that exists is never replaced (errors.Is fs.ErrExist): a lost
// key is a lost cluster.
func (k Key) WriteKeyFile(path string) error {
	text, err := k.MarshalText()
	if err != nil {
		return err
	}
	err = atomicfile.Create(path, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster key: %w", err)
	}
	return nil
}

// IsZero reports whether k stands for "no key".
func (k Key) IsZero() bool { return k == Key{} }

// MarshalText gives the secret as base64, as ParseKey reads it.
func (k Key) MarshalText() ([]byte, error) {
	if k.IsZero() {
		return nil, errors.New("cluster key: not set")
	}
	return base64.StdEncoding.AppendEncode(nil, k[:]), nil
}

// UnmarshalText is ParseKey.
func (k *Key) UnmarshalText(text []byte) error {
	parsed, err := ParseKey(string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

func (Key) String() string { return redactedKey }

// Format keeps the secret out of every verb, %x and %d included.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, redactedKey) }

// LogValue keeps the secret out of slog's handlers, which prefer MarshalText.
func (Key) LogValue() slog.Value { return slog.StringValue(redactedKey) }

// derive gives an independent key for one purpose (HKDF-SHA256, RFC 5869).
func (k Key) derive(purpose string) ([]byte, error) {
	sub, err := hkdf.Key(sha256.New, k[:], nil, purpose, len(k))
	if err != nil {
		return nil, fmt.Errorf("derive the %s key: %w", purpose, err)
	}
	return sub, nil
}
