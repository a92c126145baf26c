package datasets

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// pngOf encodes an image of one colour but for its first pixel, which is black.
func pngOf(t testing.TB, width, height int, c color.NRGBA) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		img.SetNRGBA(i%width, i/width, c)
	}
	img.SetNRGBA(0, 0, color.NRGBA{A: 255})
	return encoded(t, img)
}

func encoded(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// animals is a small data set of 3x2 images in the layout split/class/file.
func animals(t testing.TB) map[string][]byte {
	t.Helper()
	return map[string][]byte{
		"train/cat/1.png":   pngOf(t, 3, 2, color.NRGBA{10, 20, 30, 255}),
		"train/cat/0.PNG":   pngOf(t, 3, 2, color.NRGBA{11, 21, 31, 255}),
		"train/bee/0.jpg":   jpegOf(t, image.NewGray(image.Rect(0, 0, 3, 2))),
		"test/cat/7.png":    pngOf(t, 3, 2, color.NRGBA{12, 22, 32, 255}),
		"train/notes.txt":   []byte("not an image"),
		"train/cat/._1.png": []byte("hidden"),
	}
}

// unpack writes files with folders.
func unpack(t testing.TB, dir string, content map[string][]byte) string {
	t.Helper()
	for name, data := range content {
		writeFiles(t, filepath.Join(dir, filepath.Dir(name)), map[string][]byte{filepath.Base(name): data})
	}
	return dir
}

// pack writes an archive of files, in the opposite order of their names.
func pack(t testing.TB, content map[string][]byte, compress bool) string {
	t.Helper()
	names := allNames(content)
	slices.Sort(names)
	slices.Reverse(names)
	data := tarred(t, content, names...)
	if compress {
		data = gzipped(t, data)
	}
	path := filepath.Join(t.TempDir(), "images")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// under puts a folder above every file.
func under(above string, content map[string][]byte) map[string][]byte {
	moved := make(map[string][]byte)
	for name, data := range content {
		moved[above+name] = data
	}
	return moved
}

func TestFolder(t *testing.T) {
	for what, path := range map[string]string{
		"folder":               unpack(t, t.TempDir(), animals(t)),
		"tar":                  pack(t, animals(t), false),
		"tar.gz":               pack(t, animals(t), true),
		"tar with a dot":       pack(t, under("./", animals(t)), false),
		"tar with a folder":    pack(t, under("data/set/", animals(t)), true),
		"folder with a folder": unpack(t, t.TempDir(), under("set/", animals(t))),
	} {
		train, test, err := Load(t.Context(), "folder:"+path, Options{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if train.N != 3 || test.N != 1 || !slices.Equal(train.Shape, []int{3, 2, 3}) || !slices.Equal(test.ClassNames, []string{"bee", "cat"}) {
			t.Errorf("%s: %d and %d images of shape %v in classes %v", what, train.N, test.N, train.Shape, test.ClassNames)
		}
		if train.String() != "folder:"+path+"/train" {
			t.Errorf("%s: called %s", what, train)
		}
		for i, want := range []struct {
			label int
			red   byte // of the last pixel
		}{{0, 0}, {1, 11}, {1, 10}} {
			if got := train.Image(i); train.Label(i) != want.label || got[5] != want.red {
				t.Errorf("%s: image %d has label %d and pixels %v", what, i, train.Label(i), got)
			}
		}
		if got, want := test.Image(0), []byte{0, 12, 12, 12, 12, 12, 0, 22, 22, 22, 22, 22, 0, 32, 32, 32, 32, 32}; test.Label(0) != 1 || !slices.Equal(got, want) {
			t.Errorf("%s: test image has label %d and pixels %v, want 1 and %v", what, test.Label(0), got, want)
		}
		if !slices.Equal(train.Mean, test.Mean) || !slices.Equal(train.Std, test.Std) {
			t.Errorf("%s: the parts are normalised differently", what)
		}
	}
}

// TestFolderFollowsLinks: data sets are often selections made of links.
func TestFolderFollowsLinks(t *testing.T) {
	real, dir := unpack(t, t.TempDir(), animals(t)), t.TempDir()
	if err := os.Symlink(filepath.Join(real, "train"), filepath.Join(dir, "train")); err != nil {
		t.Logf("no links on this system: %v", err)
		return
	}
	unpack(t, dir, map[string][]byte{"test/cat/notes.txt": nil})
	if err := os.Symlink(filepath.Join(real, "test/cat/7.png"), filepath.Join(dir, "test/cat/link.png")); err != nil {
		t.Fatal(err)
	}
	if train, test, err := Load(t.Context(), "folder:"+dir, Options{}); err != nil || train.N != 3 || test.N != 1 {
		t.Errorf("%v, %v, %v", train, test, err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "circle")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(t.Context(), "folder:"+dir, Options{}); err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("a circle: %v", err)
	}
}

// TestFolderForTesting: of the names for the second part the first one counts.
func TestFolderForTesting(t *testing.T) {
	content := map[string][]byte{"train/a/0.png": pngOf(t, 2, 2, color.NRGBA{A: 255})}
	for i, name := range slices.Backward(testFolders) {
		content[name+"/a/0.png"] = pngOf(t, 2, 2, color.NRGBA{R: byte(i + 1), A: 255})
		_, test, err := Load(t.Context(), "folder:"+pack(t, content, false), Options{})
		if err != nil || test.N != 1 || test.Image(0)[3] != byte(i+1) {
			t.Errorf("%s was not used (%v)", name, err)
		}
	}
}

func TestFolderIsInsideDir(t *testing.T) {
	dir := unpack(t, t.TempDir(), under("pets/", animals(t)))
	if train, _, err := Load(t.Context(), "folder:pets", Options{Dir: dir}); err != nil || train.N != 3 {
		t.Errorf("%v, %v", train, err)
	}
	if train, _, err := Load(t.Context(), "folder:"+filepath.Join(dir, "pets"), Options{Dir: t.TempDir()}); err != nil || train.N != 3 {
		t.Errorf("an absolute path: %v, %v", train, err)
	}
}

// TestFolderErrors: file, entry, found, expected; in a folder and in an
// archive.
func TestFolderErrors(t *testing.T) {
	good := pngOf(t, 3, 2, color.NRGBA{1, 2, 3, 255})
	photo := jpegOf(t, image.NewYCbCr(image.Rect(0, 0, 3, 2), image.YCbCrSubsampleRatio420))
	damaged := slices.Clone(good)
	damaged[len(damaged)-20] ^= 1
	for _, c := range []struct {
		name string
		data []byte
		kind error
		text string
	}{
		{"train/cat/9.png", pngOf(t, 2, 3, color.NRGBA{}), ErrFormat,
			"wrong image size: found 2x3, expected 3x2 (width x height), as train/bee/0.jpg"},
		{"test/cat/9.png", pngOf(t, 3, 3, color.NRGBA{}), ErrFormat, "wrong image size: found 3x3, expected 3x2"},
		{"train/cat/9.png", []byte("GIF89a"), ErrFormat, "not an image: found 47 49 46 38 at the start, expected a JPEG or PNG image"},
		{"train/cat/9.png", nil, ErrTruncated, "truncated: found an empty file, expected a JPEG or PNG image"},
		{"train/cat/9.png", good[:20], ErrTruncated, "truncated image: found unexpected EOF, expected a whole JPEG or PNG image"},
		{"train/cat/9.png", good[:len(good)-14], ErrTruncated, "truncated image: found unexpected EOF"},
		{"train/cat/9.jpg", photo[:len(photo)-9], ErrFormat, "damaged image: found invalid JPEG format: short Huffman data"},
		{"train/cat/9.jpg", photo[:len(photo)-1], ErrTruncated, "truncated image: found unexpected EOF"},
		{"train/cat/9.jpg", photo[:3], ErrTruncated, "truncated image"},
		{"train/cat/9.png", damaged, ErrFormat, "damaged image: found png: invalid format"},
		{"test/dog/9.png", good, ErrFormat, "unknown class: found dog, expected one of the 2 classes of train/"},
		{"9.png", good, ErrFormat, "unexpected place: found it in no folder, expected all images as train/CLASS/FILE"},
		{"train/cat/young/9.png", good, ErrFormat, "unexpected place"},
		{"zoo/train/cat/9.png", good, ErrFormat, "unexpected place: found it beside test/cat/7.png"},
		{"train/pig.png", good, ErrFormat, "unexpected place"},
	} {
		content := animals(t)
		content[c.name] = c.data
		dir, archive := unpack(t, t.TempDir(), content), pack(t, content, true)
		for root, place := range map[string]string{dir: filepath.Join(dir, c.name), archive: archive + ": " + c.name} {
			_, _, err := Load(t.Context(), "folder:"+root, Options{})
			if want := "datasets: " + place + ": " + c.text; !errors.Is(err, c.kind) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}

func TestFolderArchiveErrors(t *testing.T) {
	good := pngOf(t, 2, 2, color.NRGBA{})
	write := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "images.tar")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	content := map[string][]byte{"train/a/0.png": good, "train/a/1.png": good}
	archive := tarred(t, content, "train/a/0.png", "train/a/1.png")
	for _, c := range []struct {
		path string
		text string
	}{
		{write(tarred(t, content, "train/a/0.png", "train/a/1.png", "train/a/0.png")), "train/a/0.png: there twice: found a second entry of this name, expected one"},
		{write(archive[:600]), "train/a/0.png: truncated: found the end of the file, expected the rest of the archive"},
		{write(archive[:len(archive)-1024]), "train/a/1.png: truncated: found the end of the file, expected the rest of the archive"},
		{write(nil), "truncated: found the end of the file"},
		{write([]byte(strings.Repeat("x", 2000))), "not an archive: found no tar header at the start"},
		{pack(t, map[string][]byte{"a.txt": nil}, true), "no images: found 1 other files, expected JPEG or PNG files as train/CLASS/FILE"},
		{pack(t, map[string][]byte{"test/a/0.png": good}, true), "no training images: found only test/, expected train/CLASS/FILE"},
		{pack(t, map[string][]byte{"train/a/0.png": good}, true), "no images for testing: found one image in each of 1 classes"},
		{pack(t, map[string][]byte{"0.png": good}, true), "0.png: unexpected place"},
	} {
		_, _, err := Load(t.Context(), "folder:"+c.path, Options{})
		if _, ok := errors.AsType[*FileError](err); !ok || !strings.HasPrefix(err.Error(), "datasets: "+c.path) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
	_, _, err := Load(t.Context(), "folder:"+filepath.Join(t.TempDir(), "none"), Options{})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "no such file or folder") {
		t.Errorf("no path: got %v", err)
	}
	if _, _, err := Load(t.Context(), "folder:", Options{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an empty path: got %v", err)
	}
}

// TestEntriesAreBounded: an entry that says it is huge is refused, and one that
// does not keep its promise takes no memory for it.
func TestEntriesAreBounded(t *testing.T) {
	list := func(size int64) error {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "a/b.png", Typeflag: tar.TypeReg, Size: size}); err != nil {
			t.Fatal(err)
		}
		return (&imageList{root: "x.tar"}).addArchive(t.Context(), &b)
	}
	for _, size := range []int64{maxImageFile + 1, 1 << 50} {
		want := fmt.Sprintf("x.tar: a/b.png: too large: found %d bytes, expected an image file of at most 67108864 bytes", size)
		if err := list(size); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := list(maxImageFile)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrTruncated) || taken > maxImageFile/16 {
		t.Errorf("got %v after taking %d bytes", err, taken)
	}
}

func TestFolderEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the user left")
	cancel(reason)
	for _, path := range []string{unpack(t, t.TempDir(), animals(t)), pack(t, animals(t), true)} {
		if _, _, err := Load(ctx, "folder:"+path, Options{}); !errors.Is(err, reason) {
			t.Errorf("got %v, want the cause", err)
		}
	}
	if err := parallel(ctx, 5, func(int) error { return nil }); !errors.Is(err, reason) {
		t.Errorf("decoding: got %v", err)
	}
}

// TestParallelError: of several errors it is always the one of the lowest
// number.
func TestParallelError(t *testing.T) {
	for range 50 {
		err := parallel(t.Context(), 100, func(i int) error {
			if i >= 7 {
				return fmt.Errorf("number %d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "number 7" {
			t.Fatalf("got %v", err)
		}
	}
}

// FuzzFolder: whatever the archive, it becomes a data set or an error.
func FuzzFolder(f *testing.F) {
	content := animals(f)
	names := allNames(content)
	slices.Sort(names)
	archive := tarred(f, content, names...)
	f.Add(archive)
	f.Add(gzipped(f, archive))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &imageList{root: "x.tar"}
		err := l.addArchive(t.Context(), bytes.NewReader(data))
		if err != nil {
			if _, ok := errors.AsType[*FileError](err); !ok {
				t.Fatalf("an error without a file: %v", err)
			}
			return
		}
		d, err := l.arrange()
		if err != nil {
			return
		}
		if len(d.test) == 0 {
			d.holdOut(0.5, 1)
		}
		if c, err := configOf(d.train[0].imageFile); err != nil || c.Width*c.Height > 1<<16 {
			return // decoding a large image is not what is tested
		}
		train, _, err := d.decode(t.Context())
		if err == nil && train.N != len(d.train) {
			t.Fatalf("%d images of %d", train.N, len(d.train))
		}
	})
}
