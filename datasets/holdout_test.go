package datasets

import (
	"fmt"
	"image/color"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// numberedFolder is an imageFolder without files: class c has counts[c] images.
func numberedFolder(counts []int) *imageFolder {
	d := &imageFolder{classes: make([]string, len(counts))}
	for c, n := range counts {
		for i := range n {
			d.train = append(d.train, labelled{imageFile{name: fmt.Sprintf("%d/%d", c, i)}, c})
		}
	}
	return d
}

// TestHoldOut: the two parts are a division of the images, each in the old
// order, every class keeps its share, and the seed decides alone.
func TestHoldOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 5).Draw(rt, "counts")
		fraction := rapid.Float64Range(0.01, 0.99).Draw(rt, "fraction")
		seed := rapid.Uint64().Draw(rt, "seed")
		d, again := numberedFolder(counts), numberedFolder(counts)
		all := d.train
		d.holdOut(fraction, seed)
		again.holdOut(fraction, seed)
		key := func(list []labelled) string {
			var names []string
			for _, f := range list {
				names = append(names, f.name)
			}
			return strings.Join(names, " ")
		}
		if key(d.train) != key(again.train) {
			rt.Fatal("the same seed gives another split")
		}
		held := make([]int, len(counts))
		i, j := 0, 0
		for _, f := range all {
			switch {
			case i < len(d.train) && d.train[i].name == f.name:
				i++
			case j < len(d.test) && d.test[j].name == f.name:
				held[f.class]++
				j++
			default:
				rt.Fatalf("%s is in no part, or in another place", f.name)
			}
		}
		if i != len(d.train) || j != len(d.test) {
			rt.Fatal("an image is in both parts")
		}
		for c, n := range counts {
			want := fraction * float64(n)
			if n > 1 && (held[c] < 1 || held[c] > n-1) || n == 1 && held[c] != 0 {
				rt.Fatalf("class %d: %d of %d held out", c, held[c], n)
			}
			if diff := float64(held[c]) - want; n > 1 && (diff > max(0.5, 1-want) || diff < -max(0.5, want-float64(n-1))) {
				rt.Fatalf("class %d: %d of %d held out, want %.2f", c, held[c], n, want)
			}
		}
	})
	// Which ones are held out must not change from version to version.
	d := numberedFolder([]int{20, 10})
	d.holdOut(0.1, 1)
	var names []string
	for _, f := range d.test {
		names = append(names, f.name)
	}
	if got := strings.Join(names, " "); got != "0/9 0/11 1/5" {
		t.Errorf("held out %s", got)
	}
}

func TestFolderWithoutTestFolder(t *testing.T) {
	for _, above := range []string{"", "train/"} {
		content := make(map[string][]byte)
		for i := range 10 {
			for _, class := range []string{"x", "y"} {
				content[fmt.Sprintf("%s%s/%d.png", above, class, i)] = pngOf(t, 1, 2, color.NRGBA{byte(i), 0, 0, 255})
			}
		}
		path := pack(t, content, true)
		train, test, err := Load(t.Context(), "folder:"+path, Options{})
		if err != nil || train.N != 18 || test.N != 2 {
			t.Errorf("a tenth by default: %v, %v, %v", train, test, err)
		}
		train, test, err = Load(t.Context(), "folder:"+path, Options{Folder: Folder{Test: 0.3}})
		if err != nil || train.N != 14 || test.N != 6 {
			t.Errorf("three tenths: %v, %v, %v", train, test, err)
		}
		for _, bad := range []float64{-1, 1, 2} {
			if _, _, err := Load(t.Context(), "folder:"+path, Options{Folder: Folder{Test: bad}}); err == nil || !strings.Contains(err.Error(), "expected more than 0 and less than 1") {
				t.Errorf("fraction %v: %v", bad, err)
			}
		}
	}
}
