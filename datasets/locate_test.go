package datasets

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var discard = slog.New(slog.DiscardHandler)

// noGo is a machine without Go and a program without build information.
func noGo() goEnv { return (&fakeGo{}).env() }

func find(t *testing.T, f family, o Options, g goEnv) ([numFiles]rawFile, error) {
	t.Helper()
	o.Log = discard
	return f.find(t.Context(), o, g)
}

func TestFindInDir(t *testing.T) {
	f, content := tiny(t)
	for _, sub := range []string{".", "tiny"} {
		dir := t.TempDir()
		writeFiles(t, filepath.Join(dir, sub), content)
		files, err := find(t, f, Options{Dir: dir}, noGo())
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			name := f.files[i].name + ".gz"
			if file.path != filepath.Join(dir, sub, name) || !slices.Equal(file.data, content[name]) {
				t.Errorf("%s: read %s", name, file.path)
			}
		}
	}
}

// TestFindPrefersTheSubfolder: a folder of data sets may hold files of the same
// names that belong to another one.
func TestFindPrefersTheSubfolder(t *testing.T) {
	f, content := tiny(t)
	dir := t.TempDir()
	writeFiles(t, dir, content)
	writeFiles(t, filepath.Join(dir, "tiny"), content)
	files, err := find(t, f, Options{Dir: dir}, noGo())
	if err != nil || filepath.Dir(files[0].path) != filepath.Join(dir, "tiny") {
		t.Errorf("read %s, %v", files[0].path, err)
	}
}

// TestFindInDirTakesOtherFiles: whoever names a folder may put other data there
// than the original.
func TestFindInDirTakesOtherFiles(t *testing.T) {
	f, content := tiny(t)
	content["t10k-labels-idx1-ubyte.gz"] = gzipped(t, idxBytes([]byte{3, 4}, 2))
	dir := t.TempDir()
	writeFiles(t, dir, content)
	if _, err := find(t, f, Options{Dir: dir}, noGo()); err != nil {
		t.Error(err)
	}
}

func TestFindInDirFails(t *testing.T) {
	f, content := tiny(t)
	delete(content, "t10k-labels-idx1-ubyte.gz")
	partial, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	writeFiles(t, partial, content)
	writeFiles(t, filepath.Dir(file), map[string][]byte{"file": nil})
	cache := t.TempDir()
	for dir, want := range map[string]string{
		partial:                            partial + " (no t10k-labels-idx1-ubyte)",
		t.TempDir():                        "(none of its files)",
		filepath.Join(t.TempDir(), "gone"): "gone (no such folder)",
		file:                               file + " (not a folder)",
	} {
		_, err := find(t, f, Options{Dir: dir, CacheDir: cache}, noGo())
		missing, ok := errors.AsType[*NotFoundError](err)
		if !ok || !errors.Is(err, ErrNotFound) {
			t.Fatalf("%s: got %v, want a NotFoundError", dir, err)
		}
		for _, part := range []string{want, "tiny not found; looked at", "--data-dir"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %q, want it to have %q", err, part)
			}
		}
		if len(missing.Looked) != 2 || strings.Contains(err.Error(), "\n") {
			t.Errorf("looked at %q, want the subfolder and the folder, on one line", missing.Looked)
		}
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) > 0 {
		t.Errorf("a named folder has no data, and the cache was touched: %v, %v", entries, err)
	}
}

func TestFindInSystemFolder(t *testing.T) {
	f, content := tiny(t)
	dir := t.TempDir()
	writeFiles(t, dir, content)
	f.system = []string{filepath.Join(dir, "none"), dir}
	if _, err := find(t, f, Options{Offline: true}, noGo()); err != nil {
		t.Error(err)
	}
}

func TestFindInCache(t *testing.T) {
	f, content := tiny(t)
	cache := t.TempDir()
	writeFiles(t, filepath.Join(cache, "tiny"), content)
	if _, err := find(t, f, Options{CacheDir: cache, Offline: true}, noGo()); err != nil {
		t.Error(err)
	}
}

func TestFindInUserCacheDir(t *testing.T) {
	f, content := tiny(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // Linux
	t.Setenv("HOME", t.TempDir())           // macOS
	t.Setenv("LocalAppData", t.TempDir())   // Windows
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, filepath.Join(base, "coda", "tiny"), content)
	if _, err := find(t, f, Options{Offline: true}, noGo()); err != nil {
		t.Error(err)
	}
}

func TestFindOffline(t *testing.T) {
	f, content := tiny(t)
	f.mirrors = []string{"http://127.0.0.1:1/never-asked"}
	cache := t.TempDir()
	content["train-labels-idx1-ubyte.gz"][20] ^= 1
	writeFiles(t, filepath.Join(cache, "tiny"), content)
	_, err := find(t, f, Options{CacheDir: cache, Offline: true}, noGo())
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	for _, part := range []string{
		"build information (none in this program)",
		"go list -m example.com/Tiny (no go command)",
		"train-labels-idx1-ubyte.gz: wrong SHA-256: found ", ", expected " + f.files[trainLabels].sha256,
		"no mirror (offline)", "the folder of train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte with --data-dir",
		"t10k-labels-idx1-ubyte.gz from http://127.0.0.1:1/never-asked into " + filepath.Join(cache, "tiny"), "or allow downloading",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want it to have %q", err, part)
		}
	}
}

func TestFindWithoutChecksumsNeverDownloads(t *testing.T) {
	_, _, err := Load(t.Context(), "fashion-mnist", Options{Dir: t.TempDir()})
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	f := fashionMNIST
	f.system = []string{filepath.Join(t.TempDir(), "none")}
	_, err = find(t, f, Options{CacheDir: t.TempDir(), Mirrors: []string{"http://127.0.0.1:1/never-asked"}}, noGo())
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "dataset-fashion-mnist") {
		t.Errorf("got %v, want the Debian package named", err)
	}
}

func TestFindEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the user left")
	cancel(reason)
	if _, _, err := Load(ctx, "mnist", Options{}); !errors.Is(err, reason) {
		t.Errorf("got %v, want the cause", err)
	}
}
