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

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	failed := errors.New("out of ideas")
	if err := atomicfile.Create(path, 0o600, func(io.Writer) error { return failed }); !errors.Is(err, failed) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want %v with the path", err, failed)
	}
	for _, want := range []error{nil, os.ErrExist} {
		if err := atomicfile.Create(path, 0o600, write("first")); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		wantFolder(t, path, "first")
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

// TestOnlyFilesAreReplaced: a rename would replace a link too.
func TestOnlyFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(folder, write("x")); err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("onto a folder: error %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Logf("no links on this system: %v", err)
	} else if err := atomicfile.Write(link, write("x")); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("onto a link: error %v", err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
		t.Errorf("the folder holds %v, want nothing; error %v", entries, err)
	}
}

func TestRenameFolder(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "new"), filepath.Join(dir, "name")
	if err := os.Mkdir(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(from, "file"), write("text")); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.RenameFolder(from, to); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, filepath.Join(to, "file"), "text")
	if _, err := os.Stat(from); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old name is still there: error %v", err)
	}
}

func TestRenameFolderRefuses(t *testing.T) {
	dir := t.TempDir()
	full, empty, missing := filepath.Join(dir, "full"), filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	for _, d := range []string{full, empty} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := atomicfile.Write(filepath.Join(full, "file"), write("text")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		is       error
	}{
		{missing, filepath.Join(dir, "x"), os.ErrNotExist},
		{full, filepath.Join(missing, "x"), os.ErrNotExist},
		{full, empty, os.ErrExist}, // a bare rename would replace it
		{empty, full, os.ErrExist},
		{empty, filepath.Join(full, "file"), os.ErrExist},
	} {
		if err := atomicfile.RenameFolder(c.from, c.to); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.from) {
			t.Errorf("%s to %s: error %v, want %v with the folder's name", c.from, c.to, err, c.is)
		}
	}
	wantFolder(t, filepath.Join(full, "file"), "text")
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("the empty folder holds %v; error %v", entries, err)
	}
}

func TestRenameFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, text := range []string{"first", "second"} { // the second time there is a file already
		if err := os.WriteFile(from, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.RenameFile(from, to); err != nil {
			t.Fatal(err)
		}
		wantFolder(t, to, text)
	}
	if err := atomicfile.RenameFile(from, to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want one that says the file does not exist", err)
	}
	wantFolder(t, to, "second")
}
