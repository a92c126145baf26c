package atomicfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coda-ml/coda/internal/atomicfile"
)

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// wantFolder checks that the folder holds this one file and nothing else.
func wantFolder(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %.20q, want %.20q; error %v", path, got, want, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, want one file; error %v", entries, err)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	large := strings.Repeat("abcdefgh", 100_000)
	for _, text := range []string{"first", large, ""} {
		if err := atomicfile.Write(path, write(text)); err != nil {
			t.Fatal(err)
		}
		wantFolder(t, path, text)
	}
}

func TestModeIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(path, write("x")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600; error %v", info.Mode(), err)
	}
}

// TestFailureLeavesTheOldFile: also when much has been written already.
func TestFailureLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := atomicfile.Write(path, write("old")); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("out of ideas")
	err := atomicfile.Write(path, func(w io.Writer) error {
		if err := write(strings.Repeat("new", 100_000))(w); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want %v with the path", err, failed)
	}
	wantFolder(t, path, "old")
}

func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "file")
	if err := atomicfile.Write(path, write("x")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that says the folder does not exist", err)
	}
}
