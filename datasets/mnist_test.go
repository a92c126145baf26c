package datasets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// realMNIST is MNIST from the Go module, as every program gets it.
var realMNIST = sync.OnceValues(func() ([2]*Set, error) {
	train, test, err := Load(context.Background(), "mnist", Options{Offline: true})
	return [2]*Set{train, test}, err
})

func TestMNISTFromModule(t *testing.T) {
	sets, err := realMNIST()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		split     string
		n         int
		histogram []int
		imageSum  string // SHA-256 of the uncompressed file of images
		labelSum  string
	}{
		{"train", 60000, []int{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949},
			"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
			"65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
		{"test", 10000, []int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009},
			"0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
			"ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
	} {
		s := sets[i]
		if s.N != want.n || s.Split != want.split || s.Classes != 10 || !slices.Equal(s.Shape, []int{1, 28, 28}) {
			t.Errorf("%s: %d images of shape %v in %d classes", s, s.N, s.Shape, s.Classes)
		}
		images := sha256.New()
		images.Write(idxBytes(nil, uint32(s.N), 28, 28))
		histogram, labels := make([]int, 10), make([]byte, s.N)
		for j := range s.N {
			images.Write(s.Image(j))
			labels[j] = byte(s.Label(j))
			histogram[s.Label(j)]++
		}
		if !slices.Equal(histogram, want.histogram) {
			t.Errorf("%s: class histogram %v, want %v", s, histogram, want.histogram)
		}
		if got := fmt.Sprintf("%x", images.Sum(nil)); got != want.imageSum {
			t.Errorf("%s: images have SHA-256 %s, want %s", s, got, want.imageSum)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(idxBytes(labels, uint32(s.N)))); got != want.labelSum {
			t.Errorf("%s: labels have SHA-256 %s, want %s", s, got, want.labelSum)
		}
	}
}

// TestMNISTMoments checks the constants of normalisation against the data:
// normalised, the training pixels have mean 0 and deviation 1.
func TestMNISTMoments(t *testing.T) {
	sets, err := realMNIST()
	if err != nil {
		t.Fatal(err)
	}
	loader, err := NewLoader(sets[0], LoaderConfig{Batch: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var sum, squares float64
	for batch, err := range loader.Epoch(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range batch.X {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
	}
	n := float64(sets[0].N * 784)
	mean, sd := sum/n, math.Sqrt(squares/n)
	if math.Abs(mean) > 1e-3 || math.Abs(sd-1) > 1e-3 {
		t.Errorf("mean %v, deviation %v; want 0 and 1 within 1e-3", mean, sd)
	}
}

func TestLoadUnknownName(t *testing.T) {
	_, _, err := Load(t.Context(), "imagenet", Options{})
	const want = `datasets: unknown data set "imagenet", expected one of cifar10, cifar100, fashion-mnist, folder:PATH, mnist, synthetic`
	if !errors.Is(err, ErrUnknown) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadFashionMNISTFromDir(t *testing.T) {
	dir := t.TempDir()
	image := make([]byte, 784)
	image[783] = 9
	writeFiles(t, filepath.Join(dir, "fashion-mnist"), map[string][]byte{
		"train-images-idx3-ubyte":    idxBytes(image, 1, 28, 28),
		"train-labels-idx1-ubyte.gz": gzipped(t, idxBytes([]byte{9}, 1)),
		"t10k-images.idx3-ubyte":     idxBytes(image, 1, 28, 28),
		"t10k-labels.idx1-ubyte.gz":  gzipped(t, idxBytes([]byte{8}, 1)),
	})
	train, test, err := Load(t.Context(), "fashion-mnist", Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if train.N != 1 || train.Image(0)[783] != 9 || test.ClassNames[test.Label(0)] != "Bag" {
		t.Errorf("got %v with label %d and %v with label %d", train, train.Label(0), test, test.Label(0))
	}
}

func TestDecodeErrors(t *testing.T) {
	images := rawFile{"img", idxBytes(make([]byte, 12), 3, 2, 2)}
	labels := rawFile{"lab", idxBytes([]byte{1, 2, 3}, 3)}
	f, _ := tiny(t)
	if _, err := f.decode("train", images, labels); err != nil {
		t.Fatalf("the files that are altered below: %v", err)
	}
	for _, c := range []struct {
		images, labels []byte
		text           string
	}{
		{idxBytes(make([]byte, 18), 3, 2, 3), labels.data, "img: wrong image size: found 2x3, expected 2x2"},
		{idxBytes(make([]byte, 12), 12), labels.data, "img: not an IDX file: found 00 00 08 01 at the start, expected 00 00 08 03"},
		{images.data[:20], labels.data, "img: truncated: found 4 bytes of data"},
		{images.data, images.data, "lab: not an IDX file: found 00 00 08 03"},
		{images.data, idxBytes([]byte{1, 2}, 2), "lab: wrong number of labels: found 2, expected one for each of the 3 images of img"},
		{images.data, idxBytes([]byte{1, 10, 3}, 3), "lab: label 1 is out of range: found 10, expected 0 to 9"},
	} {
		_, err := f.decode("train", rawFile{"img", c.images}, rawFile{"lab", c.labels})
		if _, ok := errors.AsType[*FileError](err); !ok || !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
}

func TestReadFileWantsARegularFile(t *testing.T) {
	if _, err := readFile(t.TempDir()); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "expected a regular file") {
		t.Errorf("a folder: got %v", err)
	}
	large := filepath.Join(t.TempDir(), "large")
	file, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	// A sparse file: it takes no room on disk.
	if err := errors.Join(file.Truncate(maxFile+1), file.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(large); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "at most 268435456 bytes") {
		t.Errorf("a large file: got %v", err)
	}
	if _, err := readFile(filepath.Join(t.TempDir(), "none")); !isMissing(err) {
		t.Errorf("no file: got %v", err)
	}
}
