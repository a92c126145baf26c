package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// mirror serves files and counts how often each was asked for.
type mirror struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func newMirror(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, name string)) *mirror {
	m := &mirror{asked: make(map[string]int)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/tiny/")
		m.mu.Lock()
		m.asked[name]++
		m.mu.Unlock()
		serve(w, r, name)
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		m.Close()
	})
	return m
}

func (m *mirror) total() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

func (m *mirror) count(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[name]
}

// serving answers with the content, altered for one file.
func serving(content map[string][]byte, name string, alter func([]byte) []byte) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, asked string) {
		data, ok := content[asked]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if asked == name {
			data = alter(slices.Clone(data))
		}
		w.Write(data)
	}
}

func same(b []byte) []byte { return b }

// downloadTiny finds the tiny data set where only mirrors have it.
func downloadTiny(t *testing.T, f family, cache string, mirrors ...string) ([numFiles]rawFile, error) {
	t.Helper()
	return find(t, f, Options{CacheDir: cache, Mirrors: mirrors, Client: http.DefaultClient}, noGo())
}

// wantFiles fails unless the cache folder holds exactly these files, whole.
func wantFiles(t *testing.T, cache string, content map[string][]byte, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "tiny"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
		if data, err := os.ReadFile(filepath.Join(cache, "tiny", e.Name())); err != nil || !bytes.Equal(data, content[e.Name()]) {
			t.Errorf("%s: other bytes than the mirror's (%v)", e.Name(), err)
		}
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("the cache folder holds %q, want %q", got, names)
	}
}

func allNames(content map[string][]byte) []string {
	var names []string
	for name := range content {
		names = append(names, name)
	}
	return names
}

func TestDownload(t *testing.T) {
	f, content := tiny(t)
	m := newMirror(t, serving(content, "", same))
	cache := filepath.Join(t.TempDir(), "not", "there", "yet")
	files, err := downloadTiny(t, f, cache, m.URL+"/tiny/")
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, cache, content, allNames(content)...)
	set, err := f.decode("test", files[testImages], files[testLabels])
	if err != nil || set.N != 2 || set.Image(0)[0] != 255 {
		t.Errorf("got %v, %v", set, err)
	}
	// The second time nothing is asked.
	if _, err := downloadTiny(t, f, cache, m.URL+"/tiny"); err != nil {
		t.Error(err)
	}
	for name := range content {
		if n := m.count(name); n != 1 {
			t.Errorf("%s was asked for %d times, want once", name, n)
		}
	}
}

// TestDownloadRepairs: of a cache with a damaged and a missing file only these
// two are downloaded.
func TestDownloadRepairs(t *testing.T) {
	f, content := tiny(t)
	m := newMirror(t, serving(content, "", same))
	cache := t.TempDir()
	writeFiles(t, filepath.Join(cache, "tiny"), map[string][]byte{
		"train-images-idx3-ubyte.gz": content["train-images-idx3-ubyte.gz"],
		"train-labels-idx1-ubyte.gz": content["train-labels-idx1-ubyte.gz"][:9],
		"t10k-images-idx3-ubyte.gz":  content["t10k-images-idx3-ubyte.gz"],
	})
	if _, err := downloadTiny(t, f, cache, m.URL+"/tiny/"); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, cache, content, allNames(content)...)
	if m.count("train-images-idx3-ubyte.gz") != 0 || m.count("train-labels-idx1-ubyte.gz") != 1 {
		t.Error("asked for another file than the two")
	}
}

// TestDownloadFallsBack: whatever is wrong with a file of the first mirror, the
// second one's is used, and with only the first one nothing of the file is
// left and the error says what was wrong.
func TestDownloadFallsBack(t *testing.T) {
	const name = "train-labels-idx1-ubyte.gz"
	f, content := tiny(t)
	size := len(content[name])
	for _, c := range []struct {
		what  string
		serve func(http.ResponseWriter, *http.Request, string)
		kind  error
		text  string
	}{
		{"wrong bytes", serving(content, name, func(b []byte) []byte { b[size/2] ^= 1; return b }),
			ErrChecksum, name + ": wrong SHA-256: found "},
		{"too short", serving(content, name, func(b []byte) []byte { return b[1:] }), ErrChecksum, name + ": wrong size: found "},
		{"too long", serving(content, name, func(b []byte) []byte { return append(b, 0) }), ErrChecksum, name + ": wrong size: found "},
		{"endless", func(w http.ResponseWriter, r *http.Request, asked string) {
			if asked != name {
				w.Write(content[asked])
				return
			}
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}, ErrChecksum, name + ": wrong size: found "},
		{"cut off", func(w http.ResponseWriter, r *http.Request, asked string) {
			if asked != name {
				w.Write(content[asked])
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.Write(content[asked][:5])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, nil, fmt.Sprintf("%s (after 5 of %d bytes: unexpected EOF)", name, size)},
		{"not there", func(w http.ResponseWriter, r *http.Request, asked string) {
			if asked != name {
				w.Write(content[asked])
				return
			}
			http.Error(w, "no", http.StatusForbidden)
		}, nil, name + " (answered 403 Forbidden)"},
	} {
		t.Run(c.what, func(t *testing.T) {
			bad, good := newMirror(t, c.serve), newMirror(t, serving(content, "", same))
			cache := t.TempDir()
			_, err := downloadTiny(t, f, cache, bad.URL+"/tiny")
			if !errors.Is(err, ErrNotFound) || c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("got %v, want ErrNotFound because of %v", err, c.kind)
			}
			if !strings.Contains(err.Error(), bad.URL) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with the address and %q", err, c.text)
			}
			// What arrived before the connection broke is kept.
			if part := filepath.Join(cache, "tiny", "."+name+".part"); c.what == "cut off" {
				if err := os.Remove(part); err != nil {
					t.Error(err)
				}
			}
			wantFiles(t, cache, content, "train-images-idx3-ubyte.gz")
			if _, err := downloadTiny(t, f, cache, bad.URL+"/tiny", good.URL+"/tiny"); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, cache, content, allNames(content)...)
			if good.count("train-images-idx3-ubyte.gz") != 0 || good.count(name) != 1 {
				t.Error("the second mirror was not asked for just the one file")
			}
		})
	}
}

// TestDownloadKeepsGzip: a server that marks the file as a compressed transfer
// must not make the client unpack it.
func TestDownloadKeepsGzip(t *testing.T) {
	f, content := tiny(t)
	m := newMirror(t, func(w http.ResponseWriter, r *http.Request, name string) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(content[name])
	})
	if _, err := downloadTiny(t, f, t.TempDir(), m.URL+"/tiny"); err != nil {
		t.Error(err)
	}
}

func TestDownloadNamesEveryMirror(t *testing.T) {
	f, _ := tiny(t)
	a, b := newMirror(t, serving(nil, "", same)), newMirror(t, serving(nil, "", same))
	_, err := downloadTiny(t, f, t.TempDir(), a.URL+"/tiny", b.URL+"/tiny", "not an address:")
	for _, part := range []string{a.URL, b.URL, "not an address:"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want it to have %q", err, part)
		}
	}
}

// TestDownloadEndsWithTheContext: a mirror that says nothing does not hold the
// caller beyond the context, and the next mirror is not tried.
func TestDownloadEndsWithTheContext(t *testing.T) {
	f, _ := tiny(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	silent := newMirror(t, func(w http.ResponseWriter, r *http.Request, name string) {
		cancel()
		<-r.Context().Done()
	})
	next := newMirror(t, serving(nil, "", same))
	cache := t.TempDir()
	err := download(ctx, Options{Client: http.DefaultClient, Log: discard}, []string{silent.URL, next.URL}, cache, []asset{f.files[0].asset()})
	if !errors.Is(err, context.Canceled) || next.total() > 0 {
		t.Errorf("got %v, and the next mirror was asked for %d files", err, next.total())
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestDownloadNeedsAFolder(t *testing.T) {
	f, _ := tiny(t)
	cache := t.TempDir()
	writeFiles(t, cache, map[string][]byte{"tiny": nil}) // a file where the folder should be
	_, err := downloadTiny(t, f, cache, "http://127.0.0.1:1/never-asked")
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "cache folder: mkdir") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultClientIsUsed(t *testing.T) {
	f, content := tiny(t)
	m := newMirror(t, serving(content, "", same))
	if _, err := find(t, f, Options{CacheDir: t.TempDir(), Mirrors: []string{m.URL + "/tiny"}}, noGo()); err != nil {
		t.Error(err)
	}
}

// TestMirrorsOfTheUserComeFirst, what they give is checked, and what they do not
// have comes from the data set's own.
func TestMirrorsOfTheUserComeFirst(t *testing.T) {
	f, content := tiny(t)
	damaged, lacking := f.files[0].name+".gz", f.files[1].name+".gz"
	mine := newMirror(t, func(w http.ResponseWriter, r *http.Request, name string) {
		if name == lacking {
			http.NotFound(w, r)
			return
		}
		serving(content, damaged, func(b []byte) []byte { b[20] ^= 1; return b })(w, r, name)
	})
	own := newMirror(t, serving(content, "", same))
	f.mirrors = []string{own.URL + "/tiny"}
	cache := t.TempDir()
	if _, err := downloadTiny(t, f, cache, mine.URL+"/tiny"); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, cache, content, allNames(content)...)
	for name := range content {
		want := 0
		if name == damaged || name == lacking {
			want = 1
		}
		if mine.count(name) != 1 || own.count(name) != want {
			t.Errorf("%s: asked for %d and %d times, want 1 and %d", name, mine.count(name), own.count(name), want)
		}
	}
}
