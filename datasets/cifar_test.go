package datasets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tinyCIFAR is a data set of 2x1x2 images in three files, two of them for
// training, with one label byte or two, and the content of its files.
func tinyCIFAR(coarse int) (*cifar, map[string][]byte) {
	c := &cifar{
		name:       "tiny",
		files:      []cifarFile{{"a.bin", "train", 2}, {"b.bin", "train", 1}, {"t.bin", "test", 1}},
		folder:     "tiny-bin",
		classNames: []string{"zero", "one", "two"},
		coarse:     coarse,
		shape:      []int{2, 1, 2},
		mean:       []float32{0, 0}, std: []float32{1, 1},
	}
	record := func(label, pixel byte) []byte {
		r := []byte{label, pixel, pixel + 1, pixel + 2, pixel + 3}
		if coarse > 0 {
			r = append([]byte{byte(coarse - 1)}, r...)
		}
		return r
	}
	content := map[string][]byte{
		"a.bin": append(record(2, 10), record(0, 20)...),
		"b.bin": record(1, 30),
		"t.bin": record(1, 40),
	}
	return c, content
}

// tarred packs files into a tar archive, in the order of the names.
func tarred(t testing.TB, content map[string][]byte, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content[name]))}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withArchive gives a data set the archive of its files, which are in a folder
// and in another order.
func withArchive(t testing.TB, c *cifar, content map[string][]byte) []byte {
	t.Helper()
	inFolder := make(map[string][]byte)
	names := []string{"tiny-bin/", "tiny-bin/readme.html"}
	for _, f := range slices.Backward(c.files) {
		inFolder["tiny-bin/"+f.name] = content[f.name]
		names = append(names, "tiny-bin/"+f.name)
	}
	archive := gzipped(t, tarred(t, inFolder, names...))
	c.archive = asset{"tiny.tar.gz", int64(len(archive)), sha256Hex(archive)}
	return archive
}

func loadCIFAR(t *testing.T, c *cifar, o Options) (train, test *Set, err error) {
	t.Helper()
	o.Log = discard
	return c.load(t.Context(), o)
}

// wantTiny fails unless the sets are those of tinyCIFAR.
func wantTiny(t *testing.T, train, test *Set, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if train.String() != "tiny/train" || test.String() != "tiny/test" || train.N != 3 || test.N != 1 || train.Classes != 3 {
		t.Fatalf("got %s with %d and %s with %d images in %d classes", train, train.N, test, test.N, train.Classes)
	}
	for i, want := range [][]byte{{2, 10, 11, 12, 13}, {0, 20, 21, 22, 23}, {1, 30, 31, 32, 33}} {
		if got := append([]byte{byte(train.Label(i))}, train.Image(i)...); !bytes.Equal(got, want) {
			t.Errorf("image %d: label and pixels %v, want %v", i, got, want)
		}
	}
	if test.Label(0) != 1 || test.Image(0)[3] != 43 || test.ClassNames[1] != "one" {
		t.Errorf("test image: label %d, pixels %v", test.Label(0), test.Image(0))
	}
}

func TestCIFARFromDir(t *testing.T) {
	for _, coarse := range []int{0, 2} {
		c, content := tinyCIFAR(coarse)
		archive := withArchive(t, c, content)
		for _, sub := range []string{".", "tiny", "tiny-bin", "tiny/tiny-bin"} {
			dir := t.TempDir()
			writeFiles(t, filepath.Join(dir, sub), content)
			train, test, err := loadCIFAR(t, c, Options{Dir: dir})
			wantTiny(t, train, test, err)
		}
		for name, data := range map[string][]byte{"tiny.tar.gz": archive, "tiny.tar": gunzipped(t, archive)} {
			for _, sub := range []string{".", "tiny"} {
				dir := t.TempDir()
				writeFiles(t, filepath.Join(dir, sub), map[string][]byte{name: data})
				train, test, err := loadCIFAR(t, c, Options{Dir: dir})
				wantTiny(t, train, test, err)
			}
		}
	}
}

func TestCIFARFromCache(t *testing.T) {
	c, content := tinyCIFAR(0)
	archive := withArchive(t, c, content)
	cache := t.TempDir()
	writeFiles(t, filepath.Join(cache, "tiny"), map[string][]byte{"tiny.tar.gz": archive})
	train, test, err := loadCIFAR(t, c, Options{CacheDir: cache, Offline: true})
	wantTiny(t, train, test, err)
	archive[len(archive)-1] ^= 1
	writeFiles(t, filepath.Join(cache, "tiny"), map[string][]byte{"tiny.tar.gz": archive})
	_, _, err = loadCIFAR(t, c, Options{CacheDir: cache, Offline: true})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "tiny.tar.gz: wrong SHA-256") ||
		!strings.Contains(err.Error(), "--data-dir, or allow downloading") {
		t.Errorf("a damaged archive: got %v", err)
	}
}

// TestCIFARDownload: the archive arrives with a broken connection in between.
func TestCIFARDownload(t *testing.T) {
	c, content := tinyCIFAR(2)
	archive := withArchive(t, c, content)
	first, second := newMirror(t, breaking(archive, len(archive)/2)), newMirror(t, ranges(archive))
	c.mirrors = []string{first.URL, second.URL}
	cache := t.TempDir()
	train, test, err := loadCIFAR(t, c, Options{CacheDir: cache})
	wantTiny(t, train, test, err)
	wantOnly(t, filepath.Join(cache, "tiny"), "tiny.tar.gz", archive)
	if n := second.count("/tiny.tar.gz"); n != 1 {
		t.Errorf("the second mirror was asked %d times", n)
	}
}

func TestCIFARNotFound(t *testing.T) {
	c, content := tinyCIFAR(0)
	c.archive.name = "tiny.tar.gz"
	dir := t.TempDir()
	_, _, err := loadCIFAR(t, c, Options{Dir: dir})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), dir+" (no a.bin ..)") || !strings.Contains(err.Error(), "the folder of a.bin, b.bin and t.bin, or of tiny.tar.gz, with --data-dir") {
		t.Errorf("an empty folder: got %v", err)
	}
	delete(content, "b.bin")
	writeFiles(t, dir, content)
	_, _, err = loadCIFAR(t, c, Options{Dir: dir})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), dir+" (no b.bin)") {
		t.Errorf("one file is missing: got %v", err)
	}
}

// TestCIFARErrors: every error says file, what was found and what was
// expected, for files in a folder and, with the entry, in an archive.
func TestCIFARErrors(t *testing.T) {
	change := func(name string, alter func([]byte) []byte) func(map[string][]byte) {
		return func(content map[string][]byte) { content[name] = alter(slices.Clone(content[name])) }
	}
	for _, c := range []struct {
		coarse int
		alter  func(map[string][]byte)
		kind   error
		text   string
	}{
		{0, change("a.bin", func(b []byte) []byte { return b[:7] }), ErrTruncated,
			"a.bin: truncated: found 7 bytes, expected 10 bytes (2 records of 5)"},
		{0, change("a.bin", func(b []byte) []byte { return b[:5] }), ErrTruncated, "a.bin: truncated: found 5 bytes"},
		{2, change("t.bin", func(b []byte) []byte { return append(b, 0) }), ErrFormat,
			"t.bin: too long: found 7 bytes, expected 6 bytes (1 records of 6)"},
		{0, change("a.bin", func(b []byte) []byte { b[5] = 3; return b }), ErrFormat,
			"a.bin: label of record 1 is out of range: found 3, expected 0 to 2"},
		{2, change("b.bin", func(b []byte) []byte { b[0] = 2; return b }), ErrFormat,
			"b.bin: coarse label of record 0 is out of range: found 2, expected 0 to 1"},
		{2, change("b.bin", func(b []byte) []byte { b[1] = 255; return b }), ErrFormat,
			"b.bin: label of record 0 is out of range: found 255, expected 0 to 2"},
		{0, change("b.bin", func(b []byte) []byte { return nil }), ErrTruncated, "b.bin: truncated: found 0 bytes"},
	} {
		set, content := tinyCIFAR(c.coarse)
		c.alter(content)
		archive := withArchive(t, set, content)
		for entry, files := range map[string]map[string][]byte{"": content, "tiny.tar.gz: tiny-bin/": {"tiny.tar.gz": archive}} {
			dir := t.TempDir()
			writeFiles(t, dir, files)
			_, _, err := loadCIFAR(t, set, Options{Dir: dir})
			if want := dir + "/" + entry + c.text; !errors.Is(err, c.kind) || !strings.HasPrefix(filepath.ToSlash(err.Error()), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}

func TestCIFARArchiveErrors(t *testing.T) {
	c, content := tinyCIFAR(0)
	withArchive(t, c, content)
	good := tarred(t, content, "a.bin", "b.bin", "t.bin")
	z := gzipped(t, good)
	flipped := slices.Clone(z)
	flipped[len(flipped)-5] ^= 1 // the sum
	header := slices.Clone(good)
	header[1024+100] ^= 1 // the mode of b.bin
	for _, bad := range []struct {
		archive []byte
		kind    error
		text    string
	}{
		{tarred(t, content, "a.bin", "t.bin"), ErrFormat, ": incomplete: found no b.bin, expected 3 files (a.bin ..)"},
		{tarred(t, content, "a.bin", "b.bin", "a.bin", "t.bin"), ErrFormat, ": a.bin: there twice: found a second a.bin, expected one"},
		{nil, ErrTruncated, ": truncated: found the end of the file"},
		{z[:len(z)/2], ErrTruncated, "truncated: found the end of the file"},
		{z[:len(z)-1], ErrTruncated, "truncated: found the end of the file"},
		{z[:3], ErrTruncated, ": truncated: found the end of the file, expected the rest of the archive"},
		{flipped, ErrFormat, ": t.bin: damaged: found a broken compressed stream (gzip: invalid checksum)"},
		{good[:512+5], ErrTruncated, ": a.bin: truncated: found the end of the file in record 1, expected 10 bytes (2 records of 5)"},
		{good[:512+5+300], ErrTruncated, ": a.bin: truncated: found the end of the file"},
		{header, ErrFormat, ": a.bin: damaged: found a broken tar header after this entry, expected a tar archive, gzipped or not"},
		{bytes.Repeat([]byte("no archive "), 100), ErrFormat, ": not an archive: found no tar header at the start"},
		{append([]byte{0x1f, 0x8b, 9}, z[3:]...), ErrFormat, ": damaged: found a broken compressed stream (gzip: invalid header)"},
	} {
		dir := t.TempDir()
		writeFiles(t, dir, map[string][]byte{"tiny.tar.gz": bad.archive})
		_, _, err := loadCIFAR(t, c, Options{Dir: dir})
		if !errors.Is(err, bad.kind) || !strings.HasPrefix(err.Error(), filepath.Join(dir, "tiny.tar.gz")) || !strings.Contains(err.Error(), bad.text) {
			t.Errorf("got %v, want %q", err, bad.text)
		}
	}
}

func TestCIFAREndsWithTheContext(t *testing.T) {
	c, content := tinyCIFAR(0)
	archive := withArchive(t, c, content)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the user left")
	cancel(reason)
	for _, files := range []map[string][]byte{content, {"tiny.tar.gz": archive}} {
		dir := t.TempDir()
		writeFiles(t, dir, files)
		if _, _, err := c.load(ctx, Options{Dir: dir, Log: discard}); !errors.Is(err, reason) {
			t.Errorf("got %v, want the cause", err)
		}
	}
}

// TestCIFARSets checks what is known of the official data sets without having
// them.
func TestCIFARSets(t *testing.T) {
	for _, c := range []struct {
		set                     *cifar
		classes, record, labels int
		some                    map[int]string
	}{
		{cifar10, 10, 3073, 1, map[int]string{0: "airplane", 6: "frog", 9: "truck"}},
		{cifar100, 100, 3074, 2, map[int]string{0: "apple", 19: "cattle", 48: "motorcycle", 71: "sea", 99: "worm"}},
	} {
		if len(c.set.classNames) != c.classes || c.set.recordSize() != c.record || c.set.labelBytes() != c.labels {
			t.Errorf("%s: %d classes in records of %d bytes with %d labels", c.set.name, len(c.set.classNames), c.set.recordSize(), c.set.labelBytes())
		}
		if !slices.IsSorted(c.set.classNames) {
			t.Errorf("%s: the class names are not in their alphabetical order", c.set.name)
		}
		for i, name := range c.some {
			if c.set.classNames[i] != name {
				t.Errorf("%s: class %d is %s, want %s", c.set.name, i, c.set.classNames[i], name)
			}
		}
		n := map[string]int{}
		for _, f := range c.set.files {
			n[f.split] += f.records
		}
		if n["train"] != 50000 || n["test"] != 10000 {
			t.Errorf("%s: %v records", c.set.name, n)
		}
	}
}

func TestLoadCIFARByName(t *testing.T) {
	for _, name := range []string{"cifar10", "cifar100"} {
		_, _, err := Load(t.Context(), name, Options{Dir: t.TempDir()})
		if !errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "datasets: "+name+" not found") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{"train.bin": make([]byte, 3074), "test.bin": nil})
	_, _, err := Load(t.Context(), "cifar100", Options{Dir: dir})
	want := "datasets: " + filepath.Join(dir, "train.bin") + ": truncated: found 3074 bytes, expected 153700000 bytes (50000 records of 3074)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzCIFARRecords: whatever the bytes and the promised size, the reader ends
// with all labels in range or with an error.
func FuzzCIFARRecords(f *testing.F) {
	for _, coarse := range []int{0, 2} {
		_, content := tinyCIFAR(coarse)
		f.Add(coarse > 0, int64(len(content["a.bin"])), content["a.bin"])
	}
	f.Add(false, int64(10), []byte{0, 1, 2})
	f.Add(false, int64(1)<<62, []byte{})
	f.Add(true, int64(-1), []byte{9})
	f.Fuzz(func(t *testing.T, two bool, size int64, data []byte) {
		coarse := 0
		if two {
			coarse = 2
		}
		c, _ := tinyCIFAR(coarse)
		r := newCIFARReader(c)
		err := r.read(0, recordFile{"f", "e", size, bytes.NewReader(data)})
		if err != nil {
			if _, ok := errors.AsType[*FileError](err); !ok || r.done[0] {
				t.Fatalf("got %v, done %v", err, r.done[0])
			}
			return
		}
		if size != int64(2*c.recordSize()) || len(data) < int(size) {
			t.Fatalf("%d of %d bytes were enough", len(data), size)
		}
		for i, l := range r.splits["train"].labels {
			if int(l) >= len(c.classNames) {
				t.Fatalf("label %d of image %d", l, i)
			}
		}
	})
}

// FuzzTar: whatever the archive, the walk ends, and with an error it is one of
// a file.
func FuzzTar(f *testing.F) {
	content := map[string][]byte{"a/b": []byte("12345"), "a/": nil, "c": bytes.Repeat([]byte{1}, 700)}
	archive := tarred(f, content, "a/", "a/b", "c")
	f.Add(archive)
	f.Add(gzipped(f, archive))
	f.Add(archive[:700])
	huge := slices.Clone(archive)
	copy(huge[512+124:], "77777777777") // size of a/b: 8 GiB
	f.Add(huge)
	f.Fuzz(func(t *testing.T, data []byte) {
		total := 0
		err := walkTar(t.Context(), "archive", bytes.NewReader(data), func(entry string, size int64, r io.Reader) error {
			n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			total += int(n)
			if err == nil && n != min(size, 1<<20) {
				t.Fatalf("%s: %d bytes, promised %d", entry, n, size)
			}
			return err
		})
		if _, ok := errors.AsType[*FileError](err); err != nil && !ok {
			t.Fatalf("an error without a file: %v", err)
		}
	})
}

func BenchmarkCIFARRecords(b *testing.B) {
	c := *cifar10
	c.files = []cifarFile{{"a.bin", "train", 1000}}
	data := make([]byte, 1000*c.recordSize())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := newCIFARReader(&c).read(0, recordFile{"a.bin", "", int64(len(data)), bytes.NewReader(data)}); err != nil {
			b.Fatal(err)
		}
	}
}

func gunzipped(t testing.TB, z []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(z))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
