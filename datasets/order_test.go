package datasets

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestShuffleGolden pins orders for ever: a run that is resumed by another
// version of this package must see the same batches.
func TestShuffleGolden(t *testing.T) {
	for _, c := range []struct {
		seed  uint64
		epoch int
		want  []int
	}{
		{0, 0, []int{4, 5, 1, 8, 7, 0, 9, 3, 6, 2}},
		{0, 1, []int{7, 6, 8, 5, 3, 2, 0, 4, 1, 9}},
		{1, 0, []int{3, 5, 0, 8, 7, 4, 9, 2, 6, 1}},
		{math.MaxUint64, 1 << 40, []int{3, 7, 1, 9, 8, 0, 4, 6, 2, 5}},
	} {
		got := make([]int, 10)
		shuffle(got, c.seed, c.epoch)
		if !slices.Equal(got, c.want) {
			t.Errorf("seed %d, epoch %d: got %#v, want %v", c.seed, c.epoch, got, c.want)
		}
	}
}

func TestShuffleIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := make([]int, rapid.IntRange(0, 300).Draw(t, "n"))
		shuffle(order, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1<<30).Draw(t, "epoch"))
		slices.Sort(order)
		for i, v := range order {
			if v != i {
				t.Fatalf("not a permutation: %v", order)
			}
		}
	})
}

// TestShuffleIsUniform counts the 24 permutations of 4 over consecutive epochs
// of one seed, the way in which they are used, and over consecutive seeds.
func TestShuffleIsUniform(t *testing.T) {
	const draws = 24000
	for name, draw := range map[string]func(order []int, i int){
		"epochs": func(order []int, i int) { shuffle(order, 1, i) },
		"seeds":  func(order []int, i int) { shuffle(order, uint64(i), 0) },
	} {
		counts := make(map[[4]int]int)
		for i := range draws {
			var order [4]int
			draw(order[:], i)
			counts[order]++
		}
		chi := 0.0
		for _, n := range counts {
			d := float64(n) - draws/24
			chi += d * d / (draws / 24)
		}
		// 23 degrees of freedom: 49.7 is the 0.999 quantile. The draws are
		// fixed, so the test cannot fail by chance.
		if len(counts) != 24 || chi > 49.7 {
			t.Errorf("%s: %d permutations, chi-squared %.1f", name, len(counts), chi)
		}
	}
}

func TestBelow(t *testing.T) {
	pcg := rand.NewPCG(1, 2)
	for _, n := range []uint64{1, 2, 3, 1<<63 + 1, math.MaxUint64} {
		for range 100 {
			if v := below(pcg, n); v >= n {
				t.Fatalf("drew %d below %d", v, n)
			}
		}
	}
}

func BenchmarkShuffle(b *testing.B) {
	order := make([]int, 60000)
	b.ReportAllocs()
	for epoch := 0; b.Loop(); epoch++ {
		shuffle(order, 1, epoch)
	}
}
