package dist

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseKeyReadsEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		raw[0] |= 1 // not all zero
		want := Key(raw)
		space := rapid.SampledFrom([]string{"", "\n", " \r\n", "\t"}).Draw(t, "space")
		for _, text := range []string{
			hex.EncodeToString(raw),
			strings.ToUpper(hex.EncodeToString(raw)),
			base64.StdEncoding.EncodeToString(raw),
			base64.RawStdEncoding.EncodeToString(raw),
			base64.URLEncoding.EncodeToString(raw),
			base64.RawURLEncoding.EncodeToString(raw),
		} {
			got, err := ParseKey(space + text + space)
			if err != nil || got != want {
				t.Fatalf("ParseKey(%q): %v", text, err)
			}
		}
	})
}

func TestParseKeyRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":  {" \n", "empty"},
		"short":  {base64.StdEncoding.EncodeToString(make([]byte, 16)), "16 bytes, expected 32"},
		"long":   {base64.StdEncoding.EncodeToString(make([]byte, 33)), "33 bytes, expected 32"},
		"hex 31": {strings.Repeat("ab", 31), "expected 32"},
		"hex 33": {strings.Repeat("ab", 33), "expected"},
		"zero":   {hex.EncodeToString(make([]byte, 32)), "zero"},
		"noise":  {"correct horse battery staple!", "neither base64 nor hex"},
	} {
		_, err := ParseKey(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q in it", name, err, c.want)
		}
		if err != nil && len(c.text) > 8 && strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: the error shows the text", name)
		}
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.key")
	key := NewKey()
	if err := key.WriteKeyFile(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v; expected 0600", info.Mode(), err)
	}
	if got, err := LoadKey(path); err != nil || got != key {
		t.Fatalf("what was written does not come back: %v", err)
	}
	if err := NewKey().WriteKeyFile(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second key over the first: %v, expected ErrExist", err)
	}
	if got, err := LoadKey(path); err != nil || got != key {
		t.Errorf("the first key did not survive: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := (Key{}).WriteKeyFile(path + "0"); err == nil {
		t.Error("a zero key was written")
	}
	if err := key.WriteKeyFile(filepath.Join(path, "in-a-file")); err == nil {
		t.Error("writing under a file succeeded")
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := hex.EncodeToString([]byte(strings.Repeat("k", 32)))
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o660, 0o601, 0o644} {
		path := write("open", good, mode)
		_, err := LoadKey(path)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: error %v", mode, err)
		}
	}
	if _, err := LoadKey(write("readonly", good, 0o400)); err != nil {
		t.Errorf("mode 0400: %v", err)
	}
	if _, err := LoadKey(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := LoadKey(write("short", good[:40], 0o600)); err == nil || !strings.Contains(err.Error(), "short") {
		t.Errorf("the error does not name the file: %v", err)
	}
	if _, err := LoadKey(write("large", strings.Repeat("k", maxKeyFile+1), 0o600)); err == nil {
		t.Error("a large file was read")
	}
}

func TestKeyNeverPrints(t *testing.T) {
	key := NewKey()
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "key", key)
	slog.New(slog.NewTextHandler(&log, nil)).Info("start", "key", key)
	shown := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b"} {
		shown += fmt.Sprintf(verb, key) + fmt.Sprintf(verb, &key) + fmt.Sprintf(verb, Wire{Key: key}) + fmt.Sprintf(verb, MembershipConfig{Key: key})
	}
	shown += key.String() + fmt.Sprintln(key)
	for _, secret := range []string{string(text), hex.EncodeToString(key[:]), strings.ToUpper(hex.EncodeToString(key[:])), fmt.Sprint([32]byte(key)), fmt.Sprint(key[0:4])[1:]} {
		if strings.Contains(shown, strings.Trim(secret, "[]")) {
			t.Errorf("the secret %s shows in %s", secret, shown)
		}
	}
	var back struct{ Key Key }
	if err := json.Unmarshal(fmt.Appendf(nil, `{"Key":%q}`, text), &back); err != nil || back.Key != key {
		t.Errorf("text does not come back: %v", err)
	}
}

func TestDerivedKeysDiffer(t *testing.T) {
	derive := func(k Key, purpose string) string {
		sub, err := k.derive(purpose)
		if err != nil || len(sub) != 32 {
			t.Fatalf("%d bytes, %v", len(sub), err)
		}
		return string(sub)
	}
	key := Key{1}
	seen := map[string]string{string(key[:]): "the key itself"}
	for name, sub := range map[string]string{
		"gossip": derive(key, "gossip"), "proof": derive(key, "proof"), "another key's gossip": derive(Key{2}, "gossip"),
	} {
		if other, taken := seen[sub]; taken {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[sub] = name
	}
	if derive(key, "gossip") != derive(key, "gossip") {
		t.Error("the same purpose gave two keys")
	}
}

// The group of a file may read it only where root has put it there for others.
func TestAllowedMode(t *testing.T) {
	for _, test := range []struct {
		rootOwns bool
		user     int
		want     fs.FileMode
	}{{false, 0, 0o700}, {false, 1000, 0o700}, {true, 0, 0o700}, {true, 1000, 0o740}} {
		if got := allowedMode(test.rootOwns, test.user); got != test.want {
			t.Errorf("root owns it: %t, user %d: mode %04o, want %04o", test.rootOwns, test.user, got, test.want)
		}
	}
	path := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || ownedByRoot(info) != (os.Geteuid() == 0) {
		t.Errorf("a file of user %d belongs to root: %t, %v", os.Geteuid(), ownedByRoot(info), err)
	}
}
