package datasets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sample is a file and its asset.
func sample(n int) (asset, []byte) {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * i)
	}
	return asset{"sample.gz", int64(n), sha256Hex(data)}, data
}

// ranges answers like a server that knows ranges.
func ranges(data []byte) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, name string) {
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
	}
}

// breaking sends the first n bytes of an answer of the whole file and breaks
// the connection.
func breaking(data []byte, n int) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, name string) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func get(t *testing.T, dir string, file asset, mirrors ...string) error {
	t.Helper()
	return download(t.Context(), Options{Client: http.DefaultClient, Log: discard}, mirrors, dir, []asset{file})
}

// wantOnly fails unless the folder holds this file and nothing else.
func wantOnly(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != name {
		t.Fatalf("the folder holds %v, %v; want %s", entries, err, name)
	}
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s holds other bytes (%v)", name, err)
	}
}

// TestDownloadResumes: wherever the connection broke, the next download asks
// only for the rest.
func TestDownloadResumes(t *testing.T) {
	file, data := sample(40)
	for n := 1; n < len(data); n += 6 {
		var asked []string
		bad := newMirror(t, breaking(data, n))
		good := newMirror(t, func(w http.ResponseWriter, r *http.Request, name string) {
			asked = append(asked, r.Header.Get("Range"))
			ranges(data)(w, r, name)
		})
		dir := t.TempDir()
		if err := get(t, dir, file, bad.URL); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(after %d of 40 bytes: ", n)) {
			t.Errorf("broken after %d bytes: got %v", n, err)
		}
		wantOnly(t, dir, ".sample.gz.part", data[:n])
		if err := get(t, dir, file, good.URL); err != nil {
			t.Fatal(err)
		}
		wantOnly(t, dir, "sample.gz", data)
		if want := []string{fmt.Sprintf("bytes=%d-", n)}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
	}
}

// TestDownloadResumesAtTheNextMirror: in one call.
func TestDownloadResumesAtTheNextMirror(t *testing.T) {
	file, data := sample(40)
	bad, good := newMirror(t, breaking(data, 30)), newMirror(t, func(w http.ResponseWriter, r *http.Request, name string) {
		if r.Header.Get("Range") != "bytes=30-" {
			t.Errorf("asked for %q", r.Header.Get("Range"))
		}
		ranges(data)(w, r, name)
	})
	dir := t.TempDir()
	if err := get(t, dir, file, bad.URL, good.URL); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, dir, "sample.gz", data)
}

// TestDownloadDoesNotTrustParts: whatever lies there and whatever a server
// makes of the range, the file becomes whole, with at most this many requests.
func TestDownloadDoesNotTrustParts(t *testing.T) {
	file, data := sample(40)
	header := func(value string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, r *http.Request, name string) {
			if r.Header.Get("Range") == "" {
				w.Write(data)
				return
			}
			w.Header().Set("Content-Range", value)
			w.WriteHeader(http.StatusPartialContent)
			w.Write(data[10:])
		}
	}
	for _, c := range []struct {
		what     string
		part     []byte
		serve    func(http.ResponseWriter, *http.Request, string)
		requests int
	}{
		{"another file", bytes.Repeat([]byte{7}, 10), ranges(data), 2},
		{"a whole other file", bytes.Repeat([]byte{7}, 40), ranges(data), 1},
		{"too long", append(slices.Clone(data), 0), ranges(data), 1},
		{"already whole", data, ranges(data), 0},
		{"empty", nil, ranges(data), 1},
		{"no ranges", data[:10], serving(map[string][]byte{"/sample.gz": data}, "", same), 1},
		{"another range", data[:10], header("bytes 9-39/40"), 2},
		{"another size", data[:10], header("bytes 10-39/41"), 2},
		{"no range named", data[:10], header(""), 2},
		{"not satisfiable", data[:10], func(w http.ResponseWriter, r *http.Request, name string) {
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			w.Write(data)
		}, 2},
	} {
		dir := t.TempDir()
		writeFiles(t, dir, map[string][]byte{".sample.gz.part": c.part})
		m := newMirror(t, c.serve)
		if err := get(t, dir, file, m.URL); err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		wantOnly(t, dir, "sample.gz", data)
		if n := m.count("/sample.gz"); n != c.requests {
			t.Errorf("%s: %d requests, want %d", c.what, n, c.requests)
		}
	}
}

// TestPartsHaveOneOwner: a part that another process may be writing to is left
// alone, one that nobody has written to for long is taken over.
func TestPartsHaveOneOwner(t *testing.T) {
	file, data := sample(40)
	for _, c := range []struct {
		age  time.Duration
		want string // range asked for
	}{{0, ""}, {abandoned + time.Minute, "bytes=15-"}} {
		dir := t.TempDir()
		writeFiles(t, dir, map[string][]byte{".sample.gz.123.part": data[:15], ".sample.txt.9.part": nil})
		old := time.Now().Add(-c.age)
		if err := os.Chtimes(filepath.Join(dir, ".sample.gz.123.part"), old, old); err != nil {
			t.Fatal(err)
		}
		asked := "none"
		m := newMirror(t, func(w http.ResponseWriter, r *http.Request, name string) {
			asked = r.Header.Get("Range")
			if again := leftover(filepath.Join(dir, "sample.gz")); again != "" {
				t.Errorf("a part %v old: a third one could take %s over as well", c.age, again)
			}
			ranges(data)(w, r, name)
		})
		if err := get(t, dir, file, m.URL); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(dir, ".sample.gz.123.part"))
		if asked != c.want || isMissing(err) != (c.age > 0) {
			t.Errorf("a part %v old: asked for %q, want %q; left: %v", c.age, asked, c.want, err)
		}
	}
}

// TestDownloadsAtTheSameTime do not disturb each other.
func TestDownloadsAtTheSameTime(t *testing.T) {
	file, data := sample(1000)
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{".sample.gz.part": data[:500]})
	m := newMirror(t, ranges(data))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := get(t, dir, file, m.URL); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantOnly(t, dir, "sample.gz", data)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// drip gives one byte every interval, n in all, and then nothing until the
// context ends.
type drip struct {
	ctx      context.Context
	interval time.Duration
	data     []byte
}

func (d *drip) Read(b []byte) (int, error) {
	wait := time.Duration(math.MaxInt64)
	if len(d.data) > 0 {
		wait = d.interval
	}
	select {
	case <-time.After(wait):
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	n := copy(b[:1], d.data)
	d.data = d.data[n:]
	return n, nil
}

func (d *drip) Close() error { return nil }

// TestSilentMirror: a slow mirror is waited for, one that falls silent is not,
// and what it sent is kept.
func TestSilentMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, data := sample(40)
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: 40, Body: &drip{r.Context(), silence - time.Second, data[:12]}}, nil
		})}
		dir := t.TempDir()
		began := time.Now()
		err := fetch(t.Context(), client, "http://slow/sample.gz", filepath.Join(dir, "sample.gz"), file)
		if !errors.Is(err, errSilent) || !strings.Contains(err.Error(), "http://slow/sample.gz (after 12 of 40 bytes: the mirror fell silent)") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 12*(silence-time.Second)+silence {
			t.Errorf("gave up after %v", took)
		}
		wantOnly(t, dir, ".sample.gz.part", data[:12])
	})
}

// TestAttemptDeadline: a mirror that drips for ever is left in the end.
func TestAttemptDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, _ := sample(1 << 20)
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: &drip{r.Context(), time.Second, make([]byte, 330)}}, nil
		})}
		began := time.Now()
		err := fetch(t.Context(), client, "http://slow/sample.gz", filepath.Join(t.TempDir(), "sample.gz"), file)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != attemptDeadline+16*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}
