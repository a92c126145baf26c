package datasets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func synthetic(t testing.TB, s Synthetic) (train, test *Set) {
	t.Helper()
	train, test, err := Load(t.Context(), "synthetic", Options{Synthetic: s})
	if err != nil {
		t.Fatal(err)
	}
	return train, test
}

func TestSyntheticDefaults(t *testing.T) {
	train, test := synthetic(t, Synthetic{})
	if train.N != 2048 || test.N != 512 || train.Classes != 10 || !slices.Equal(test.Shape, []int{1, 28, 28}) {
		t.Errorf("got %d and %d images of shape %v in %d classes", train.N, test.N, test.Shape, train.Classes)
	}
	if train.String() != "synthetic/train" || test.String() != "synthetic/test" {
		t.Errorf("called %s and %s", train, test)
	}
}

// TestSyntheticIsSeparable classifies the test images by the nearest mean of
// the training images: every one is right.
func TestSyntheticIsSeparable(t *testing.T) {
	for _, s := range []Synthetic{
		{Seed: 1},
		{Seed: 2, Shape: []int{3, 32, 32}, Classes: 100, Train: 1000, Test: 200},
		{Seed: 3, Shape: []int{1, 5, 9}, Classes: 4, Train: 40, Test: 20}, // sides that cells do not divide
		{Seed: 4, Shape: []int{1, 1, 1}, Classes: 2, Train: 200, Test: 20},
	} {
		train, test := synthetic(t, s)
		means := make([][]float64, train.Classes)
		for c := range means {
			means[c] = make([]float64, train.ImageSize())
		}
		for i := range train.N {
			for p, b := range train.Image(i) {
				means[train.Label(i)][p] += float64(b) * float64(train.Classes) / float64(train.N)
			}
		}
		for i := range test.N {
			best, nearest := -1, 0.0
			for c, mean := range means {
				d := 0.0
				for p, b := range test.Image(i) {
					d += (float64(b) - mean[p]) * (float64(b) - mean[p])
				}
				if best < 0 || d < nearest {
					best, nearest = c, d
				}
			}
			if best != test.Label(i) {
				t.Fatalf("%+v: image %d of class %d looks like class %d", s, i, test.Label(i), best)
			}
		}
	}
}

func TestSyntheticIsBalanced(t *testing.T) {
	train, _ := synthetic(t, Synthetic{Train: 103, Test: 1, Classes: 10})
	counts := make([]int, 10)
	for i := range train.N {
		counts[train.Label(i)]++
	}
	if slices.Min(counts) != 10 || slices.Max(counts) != 11 {
		t.Errorf("classes have %v images, want 10 or 11 of 103", counts)
	}
}

func pixelSum(s *Set) string { return fmt.Sprintf("%x", sha256.Sum256(s.pixels))[:16] }

func TestSyntheticIsSeeded(t *testing.T) {
	small := Synthetic{Seed: 7, Train: 50, Test: 50, Shape: []int{1, 8, 8}}
	train, test := synthetic(t, small)
	again, _ := synthetic(t, small)
	if pixelSum(train) != pixelSum(again) {
		t.Error("the same seed gave other pixels")
	}
	if got := pixelSum(train); got != "00115dc122aafe52" {
		t.Errorf("pixels have SHA-256 %s.., which changes the runs of every user", got)
	}
	other := small
	other.Seed++
	if different, _ := synthetic(t, other); pixelSum(different) == pixelSum(train) || pixelSum(test) == pixelSum(train) {
		t.Error("another seed, or the other part, gave the same pixels")
	}
}

func TestSyntheticErrors(t *testing.T) {
	for _, c := range []struct {
		s    Synthetic
		text string
	}{
		{Synthetic{Train: -1}, "-1 and 512 images"},
		{Synthetic{Test: 1 << 50}, "images of shape [1 28 28]"},
		{Synthetic{Classes: 1}, "1 classes, expected 2 to 65536"},
		{Synthetic{Classes: 1 << 17}, "131072 classes"},
		{Synthetic{Shape: []int{28, 28}}, "expected channels, height and width"},
		{Synthetic{Shape: []int{1, 4, 5}, Classes: 5}, "5 classes, but shape [1 4 5] has only 4 different patterns"},
	} {
		_, _, err := Load(t.Context(), "synthetic", Options{Synthetic: c.s})
		if err == nil || !strings.HasPrefix(err.Error(), "datasets: synthetic: ") || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Load(ctx, "synthetic", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
