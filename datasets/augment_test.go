package datasets

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// coloured is a set of n images whose pixels all differ within a channel as far
// as a byte allows.
func coloured(t testing.TB, n int, shape ...int) *Set {
	t.Helper()
	c := Contents{Name: "coloured", Split: "train", Classes: n, Shape: shape}
	for ch := range shape[0] {
		c.Mean = append(c.Mean, 0.25+float32(ch)/8)
		c.Std = append(c.Std, 0.5-float32(ch)/8)
	}
	size := shape[0] * shape[1] * shape[2]
	for i := range n {
		for p := range size {
			c.Pixels = append(c.Pixels, byte(1+(i*size+p)%255)) // never black
		}
		c.Labels = append(c.Labels, i)
	}
	s, err := NewSet(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// augmentPlainly is augment written down as its definition: one pixel at a time.
func augmentPlainly(s *Set, i int, a Augment, v augmentation) []float32 {
	height, width := s.Shape[1], s.Shape[2]
	x := make([]float32, 0, s.ImageSize())
	for c := range s.Shape[0] {
		for row := range height {
			for col := range width {
				from := col
				if v.flip {
					from = width - 1 - col
				}
				y, x0 := row+v.down, from+v.right
				if a.Reflect {
					y, x0 = mirrored(y, height), mirrored(x0, width)
				}
				var b byte
				if y >= 0 && y < height && x0 >= 0 && x0 < width {
					b = s.Image(i)[(c*height+y)*width+x0]
				}
				value := (float32(b)/255 - s.Mean[c]) / s.Std[c]
				dy, dx := row-(v.cutY-a.Cutout/2), col-(v.cutX-a.Cutout/2)
				if dy >= 0 && dy < a.Cutout && dx >= 0 && dx < a.Cutout {
					value = 0
				}
				x = append(x, value)
			}
		}
	}
	return x
}

// mirrored walks from 0 to i, turning round at both ends of 0..n-1.
func mirrored(i, n int) int {
	at, step := 0, 1
	for range max(i, -i) {
		if at+step < 0 || at+step >= n {
			step = -step
		}
		at += step
	}
	return at
}

func TestAugmentIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shape := []int{rapid.IntRange(1, 3).Draw(rt, "channels"), rapid.IntRange(1, 9).Draw(rt, "height"), rapid.IntRange(1, 9).Draw(rt, "width")}
		side := min(shape[1], shape[2])
		a := Augment{
			Pad:     rapid.IntRange(0, side-1).Draw(rt, "pad"),
			Reflect: rapid.Bool().Draw(rt, "reflect"),
			Flip:    rapid.Bool().Draw(rt, "flip"),
			Cutout:  rapid.IntRange(0, side).Draw(rt, "cutout"),
		}
		if err := a.check(shape); err != nil {
			rt.Fatal(err)
		}
		s := coloured(t, 2, shape...)
		v := a.draw(rapid.Uint64().Draw(rt, "seed"), 3, rapid.IntRange(0, 1e6).Draw(rt, "place"), 0, shape)
		got := make([]float32, s.ImageSize())
		fill(got, float32(math.NaN()))
		s.augment(got, 1, a, v)
		if want := augmentPlainly(s, 1, a, v); !slices.Equal(got, want) {
			rt.Fatalf("%+v, %+v:\n got %v\nwant %v", a, v, got, want)
		}
	})
}

// TestAugmentationByHand pins the directions.
func TestAugmentationByHand(t *testing.T) {
	s, err := NewSet(Contents{Name: "a", Split: "b", Classes: 1, Shape: []int{1, 3, 3}, Labels: []int{0},
		Pixels: []byte{10, 20, 30, 40, 50, 60, 70, 80, 90}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a    Augment
		v    augmentation
		want []byte
	}{
		{Augment{Pad: 2}, augmentation{down: 1, right: -2}, []byte{0, 0, 40, 0, 0, 70, 0, 0, 0}},
		{Augment{Pad: 1}, augmentation{down: -1, right: 1}, []byte{0, 0, 0, 20, 30, 0, 50, 60, 0}},
		{Augment{Pad: 2, Reflect: true}, augmentation{down: 1, right: -2}, []byte{60, 50, 40, 90, 80, 70, 60, 50, 40}},
		{Augment{Pad: 1, Reflect: true, Flip: true}, augmentation{down: -1, right: 1, flip: true}, []byte{50, 60, 50, 20, 30, 20, 50, 60, 50}},
		{Augment{Flip: true}, augmentation{flip: true}, []byte{30, 20, 10, 60, 50, 40, 90, 80, 70}},
		{Augment{Pad: 1, Flip: true}, augmentation{down: -1, right: 1, flip: true}, []byte{0, 0, 0, 0, 30, 20, 0, 60, 50}},
		{Augment{Cutout: 2}, augmentation{cutY: 1, cutX: 1}, []byte{0, 0, 30, 0, 0, 60, 70, 80, 90}},
		{Augment{Cutout: 2}, augmentation{cutY: 0, cutX: 2}, []byte{10, 0, 0, 40, 50, 60, 70, 80, 90}},
		{Augment{Cutout: 3}, augmentation{cutY: 2, cutX: 0}, []byte{10, 20, 30, 0, 0, 60, 0, 0, 90}},
	} {
		x := make([]float32, 9)
		s.augment(x, 0, c.a, c.v)
		for i, b := range c.want {
			if x[i] != float32(b)/255 {
				t.Errorf("%+v, %+v: got %v, want %v/255", c.a, c.v, x, c.want)
				break
			}
		}
	}
}

// TestDrawsAreUniform: every choice takes each of its values about equally
// often, over places and over epochs, and the choices do not depend on each
// other: chi-squared below the 1-1e-6 quantile. The draws are fixed, so this
// cannot fail by chance.
func TestDrawsAreUniform(t *testing.T) {
	const n = 40000
	a, shape := Augment{Pad: 4, Flip: true, Cutout: 8}, []int{3, 32, 32}
	for what, key := range map[string]func(i int) augmentation{
		"places": func(i int) augmentation { return a.draw(1, 0, i, 0, shape) },
		"epochs": func(i int) augmentation { return a.draw(1, i, 0, 0, shape) },
		"seeds":  func(i int) augmentation { return a.draw(uint64(i), 0, 0, 0, shape) },
	} {
		for name, value := range map[string]struct {
			cells int
			limit float64 // of chi-squared with cells-1 degrees of freedom
			of    func(v augmentation) int
		}{
			"crop":          {81, 152, func(v augmentation) int { return (v.down+4)*9 + v.right + 4 }},
			"flip and down": {18, 61, func(v augmentation) int { return (v.down+4)*2 + btoi(v.flip) }},
			"cutout":        {1024, 1245, func(v augmentation) int { return v.cutY*32 + v.cutX }},
			"flip, next":    {2, 24, func(v augmentation) int { return btoi(v.flip) }},
		} {
			counts := make([]int, value.cells)
			for i := range n {
				counts[value.of(key(i))]++
			}
			chi, mean := 0.0, float64(n)/float64(value.cells)
			for _, c := range counts {
				chi += (float64(c) - mean) * (float64(c) - mean) / mean
			}
			if chi > value.limit {
				t.Errorf("%s over %s: chi-squared %.0f, want at most %.0f", name, what, chi, value.limit)
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestAlternateFlips: every image is shown from both sides in two epochs, wherever
// the order places it, half of the images from the left first, and the other
// choices stay as they are without it.
func TestAlternateFlips(t *testing.T) {
	const n = 10000
	shape := []int{3, 32, 32}
	random, alternate := Augment{Pad: 4, Flip: true}, Augment{Pad: 4, Alternate: true}
	flipped := 0
	for image := range n {
		first := alternate.draw(1, 0, n-1-image, image, shape)
		for epoch := range 4 {
			place := (image*7 + epoch) % n
			v := alternate.draw(1, epoch, place, image, shape)
			if v.flip != (first.flip == (epoch%2 == 0)) {
				t.Fatalf("image %d: flipped %v in epoch 0 and %v in epoch %d", image, first.flip, v.flip, epoch)
			}
			other := random.draw(1, epoch, place, image, shape)
			if other.flip = v.flip; other != v {
				t.Fatalf("image %d, epoch %d: %v, with random flips %v", image, epoch, v, other)
			}
		}
		flipped += btoi(first.flip)
	}
	if flipped < n/2-300 || flipped > n/2+300 { // six standard deviations
		t.Errorf("%d of %d images are flipped in the first epoch", flipped, n)
	}
}

// TestDrawsDoNotChange pins the numbers: a run that is resumed by another
// version of the program must see the same images.
func TestDrawsDoNotChange(t *testing.T) {
	a, shape := Augment{Pad: 4, Flip: true, Cutout: 8}, []int{3, 32, 32}
	got := fmt.Sprint(a.draw(1, 2, 3, 0, shape), a.draw(1, 2, 4, 0, shape), a.draw(1, 3, 3, 0, shape), a.draw(2, 2, 3, 0, shape))
	const want = "{4 3 false 18 9} {0 0 false 17 1} {4 -3 false 24 20} {2 1 false 1 11}"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAugmentedBatchesDoNotDependOnTheLoader: whatever Workers, Prefetch and
// the first step are, and an image's variation not even on the batch size.
func TestAugmentedBatchesDoNotDependOnTheLoader(t *testing.T) {
	s := coloured(t, 50, 3, 8, 8)
	c := LoaderConfig{Batch: 8, Shuffle: true, Seed: 3, Augment: Augment{Pad: 2, Flip: true, Cutout: 4}}
	want := [][]uint64{digest(t, loader(t, s, c), 0, 0), digest(t, loader(t, s, c), 1, 0)}
	for _, prefetch := range []int{1, 3, 20} {
		for _, workers := range []int{1, 2, 5} {
			c.Prefetch, c.Workers = prefetch, workers
			l := loader(t, s, c)
			for first := range l.Steps() + 1 {
				for epoch := range want {
					if got := digest(t, l, epoch, first); !slices.Equal(got, want[epoch][first:]) {
						t.Fatalf("prefetch %d, %d workers: epoch %d from step %d has other batches", prefetch, workers, epoch, first)
					}
				}
			}
		}
	}
	all := func(batch int) (x []float32, labels []int32) {
		c.Batch = batch
		for b, err := range loader(t, s, c).Epoch(t.Context(), 4, 0) {
			if err != nil {
				t.Fatal(err)
			}
			x, labels = append(x, b.X...), append(labels, b.Labels...)
		}
		return x, labels
	}
	x, labels := all(8)
	x1, labels1 := all(13)
	if !slices.Equal(x, x1) || !slices.Equal(labels, labels1) {
		t.Error("another batch size has other images")
	}
}

// TestAugmentChangesEveryEpoch: the same images in the same order are varied
// anew, and without augmentation they are not.
func TestAugmentChangesEveryEpoch(t *testing.T) {
	s := coloured(t, 20, 1, 8, 8)
	c := LoaderConfig{Batch: 20, Augment: Augment{Pad: 2}}
	l := loader(t, s, c)
	if slices.Equal(digestX(t, l, 0), digestX(t, l, 1)) {
		t.Error("two epochs have the same crops")
	}
	first := digestX(t, l, 0)
	c.Seed++
	if slices.Equal(first, digestX(t, loader(t, s, c), 0)) {
		t.Error("two seeds have the same crops")
	}
	c.Augment = Augment{}
	l = loader(t, s, c)
	if !slices.Equal(digestX(t, l, 0), digestX(t, l, 1)) {
		t.Error("without augmentation two epochs differ")
	}
}

// digestX returns the values of the first batch of an epoch.
func digestX(t *testing.T, l *Loader, epoch int) []float32 {
	t.Helper()
	for b, err := range l.Epoch(t.Context(), epoch, 0) {
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(b.X)
	}
	return nil
}

func TestAugmentErrors(t *testing.T) {
	s := coloured(t, 4, 3, 8, 6)
	for _, c := range []struct {
		a    Augment
		text string
	}{
		{Augment{Pad: -1}, "datasets: coloured/train: crop with padding of -1 pixels of images of 8x6, expected 0 to 5"},
		{Augment{Pad: 6}, "padding of 6 pixels"},
		{Augment{Flip: true, Alternate: true}, "datasets: coloured/train: flips at random and in every second epoch: choose one"},
		{Augment{Cutout: -2}, "datasets: coloured/train: cutout of -2 pixels from images of 8x6, expected 0 to 6"},
		{Augment{Cutout: 7}, "cutout of 7 pixels"},
	} {
		if _, err := NewLoader(s, LoaderConfig{Batch: 1, Augment: c.a}); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: got %v, want %q", c.a, err, c.text)
		}
	}
	if _, err := NewLoader(s, LoaderConfig{Batch: 1, Augment: Augment{Pad: 5, Cutout: 6, Flip: true}}); err != nil {
		t.Error(err)
	}
}

func TestAugmentAllocatesNothing(t *testing.T) {
	s := coloured(t, 10, 3, 32, 32)
	a := Augment{Pad: 4, Flip: true, Cutout: 8}
	x, place := make([]float32, s.ImageSize()), 0
	if n := testing.AllocsPerRun(100, func() {
		s.augment(x, 3, a, a.draw(1, 2, place, 3, s.Shape))
		place++
	}); n > 0 {
		t.Errorf("%v allocations an image", n)
	}
}

func BenchmarkAugment(b *testing.B) {
	for _, c := range []struct {
		name string
		a    Augment
	}{{"none", Augment{}}, {"crop,flip", Augment{Pad: 4, Flip: true}}, {"crop,flip,cutout", Augment{Pad: 4, Flip: true, Cutout: 16}}} {
		b.Run(c.name+"/3x32x32", func(b *testing.B) {
			s := coloured(b, 1000, 3, 32, 32)
			l := loader(b, s, LoaderConfig{Batch: 1, Augment: c.a})
			batch := Batch{X: make([]float32, s.ImageSize()), Labels: make([]int32, 1), Index: make([]int, 1)}
			b.ReportAllocs()
			for step := 0; b.Loop(); step++ {
				batch.Step, batch.Index[0] = step, step%s.N
				if c.a == (Augment{}) {
					if err := s.BatchTo(batch.X, batch.Labels, batch.Index); err != nil {
						b.Fatal(err)
					}
					continue
				}
				l.vary(&batch)
			}
		})
	}
}
