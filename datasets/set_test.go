package datasets

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// twoChannels is a set of three 2x1x2 images.
func twoChannels(t *testing.T) *Set {
	t.Helper()
	s, err := NewSet(Contents{
		Name: "two", Split: "train", Classes: 3, Shape: []int{2, 1, 2},
		Mean: []float32{0, 0.5}, Std: []float32{1, 0.25},
		Pixels: []byte{0, 255, 0, 255, 51, 102, 51, 102, 1, 2, 3, 4},
		Labels: []int{2, 0, 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBatchToNormalisesByChannel(t *testing.T) {
	s := twoChannels(t)
	x, labels := make([]float32, 8), make([]int32, 2)
	if err := s.BatchTo(x, labels, []int{1, 0}); err != nil {
		t.Fatal(err)
	}
	want := []float32{0.2, 0.4, -1.2, -0.4, 0, 1, -2, 2}
	for i, w := range want {
		if math.Abs(float64(x[i]-w)) > 1e-6 {
			t.Fatalf("got %v, want %v", x, want)
		}
	}
	if !slices.Equal(labels, []int32{0, 2}) {
		t.Errorf("labels %v, want [0 2]", labels)
	}
}

// TestNormalisationBits pins the values: every operation rounded to float32, in
// the order of torchvision's ToTensor and Normalize with MNIST's constants. The
// outer two are the familiar range of MNIST in PyTorch, -0.4242 to 2.8215.
func TestNormalisationBits(t *testing.T) {
	s, err := NewSet(Contents{Name: "m", Split: "s", Classes: 1, Shape: []int{1, 1, 3},
		Mean: []float32{0.1307}, Std: []float32{0.3081}, Pixels: []byte{0, 127, 255}, Labels: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 3)
	if err := s.BatchTo(x, make([]int32, 1), []int{0}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{-0.42421296, 1.1922727, 2.8214867} {
		if x[i] != want {
			t.Errorf("value %d: got %.9g, want %.9g", i, x[i], want)
		}
	}
}

func TestBatchToErrors(t *testing.T) {
	s := twoChannels(t)
	for _, c := range []struct {
		x, labels int
		index     []int
		text      string
	}{
		{7, 2, []int{0, 1}, "two/train: batch of 2 images: room for 7 values and 2 labels, expected 8 and 2"},
		{8, 1, []int{0, 1}, "room for 8 values and 1 labels"},
		{4, 1, []int{3}, "image 3 does not exist, expected 0 to 2"},
		{4, 1, []int{-1}, "image -1 does not exist"},
	} {
		err := s.BatchTo(make([]float32, c.x), make([]int32, c.labels), c.index)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
}

func TestSubset(t *testing.T) {
	s := twoChannels(t)
	sub, err := s.Subset(2)
	if err != nil {
		t.Fatal(err)
	}
	if sub.N != 2 || s.N != 3 || sub.ImageSize() != 4 || !slices.Equal(sub.Image(1), s.Image(1)) || sub.Label(0) != 2 {
		t.Errorf("subset is not the first two images: %+v", sub)
	}
	if err := sub.BatchTo(make([]float32, 4), make([]int32, 1), []int{2}); err == nil {
		t.Error("an image outside the subset was read")
	}
	for _, n := range []int{-1, 0, 4} {
		if _, err := s.Subset(n); err == nil || !strings.Contains(err.Error(), "expected 1 to 3") {
			t.Errorf("subset of %d: got %v", n, err)
		}
	}
}

func TestNewSetDefaults(t *testing.T) {
	s, err := NewSet(Contents{Name: "a", Split: "b", Classes: 2, Shape: []int{1, 1, 1}, Pixels: []byte{255}, Labels: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 1)
	if err := s.BatchTo(x, make([]int32, 1), []int{0}); err != nil || x[0] != 1 {
		t.Errorf("got %v, %v; want 1: pixels scaled to [0,1]", x, err)
	}
	if !slices.Equal(s.ClassNames, []string{"0", "1"}) {
		t.Errorf("class names %v", s.ClassNames)
	}
}

func TestNewSetErrors(t *testing.T) {
	good := Contents{Name: "a", Split: "b", Classes: 2, Shape: []int{1, 2, 1}, Pixels: make([]byte, 4), Labels: []int{0, 1}}
	for _, c := range []struct {
		text   string
		change func(*Contents)
	}{
		{"datasets: a/b: label of image 1 is 2, expected 0 to 1", func(c *Contents) { c.Labels = []int{0, 2} }},
		{"label of image 0 is -1", func(c *Contents) { c.Labels = []int{-1, 0} }},
		{"no images", func(c *Contents) { c.Labels, c.Pixels = nil, nil }},
		{"0 classes", func(c *Contents) { c.Classes, c.Labels = 0, nil }},
		{"1 class names for 2 classes", func(c *Contents) { c.ClassNames = []string{"x"} }},
		{"datasets: a/b: 3 bytes of pixels for 2 labels, expected 2 bytes for each image of shape [1 2 1]", func(c *Contents) { c.Pixels = make([]byte, 3) }},
		{"shape [2 1], expected channels", func(c *Contents) { c.Shape = []int{2, 1} }},
		{"shape [1 0 2]", func(c *Contents) { c.Shape = []int{1, 0, 2} }},
		{"shape [4294967296 4294967296 4294967296]", func(c *Contents) { c.Shape = []int{1 << 32, 1 << 32, 1 << 32} }},
		{"2 means and 0 deviations for 1 channels", func(c *Contents) { c.Mean = []float32{0, 0} }},
		{"0 means and 2 deviations for 1 channels", func(c *Contents) { c.Std = []float32{1, 1} }},
		{"standard deviation 0, expected a positive number", func(c *Contents) { c.Std = []float32{0} }},
		{"standard deviation NaN", func(c *Contents) { c.Std = []float32{float32(math.NaN())} }},
	} {
		bad := good
		c.change(&bad)
		if _, err := NewSet(bad); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
}

func BenchmarkBatchTo(b *testing.B) {
	for _, shape := range [][]int{{1, 28, 28}, {3, 32, 32}} {
		b.Run(times(append([]int{128}, shape...)), func(b *testing.B) {
			train, _, err := loadSynthetic(b.Context(), Options{Synthetic: Synthetic{Shape: shape}})
			if err != nil {
				b.Fatal(err)
			}
			x, labels, index := make([]float32, 128*train.ImageSize()), make([]int32, 128), make([]int, 128)
			shuffle(index, 1, 1)
			b.SetBytes(int64(4 * len(x)))
			b.ReportAllocs()
			for b.Loop() {
				if err := train.BatchTo(x, labels, index); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
