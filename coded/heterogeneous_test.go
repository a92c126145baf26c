package coded

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestProportionalShares(t *testing.T) {
	for _, test := range []struct {
		speeds        []float64
		parts, copies int
		want          []int
	}{
		{[]float64{1, 1, 1}, 3, 2, []int{2, 2, 2}},
		{[]float64{1, 2, 3}, 12, 1, []int{2, 4, 6}},
		{[]float64{1, 1, 8}, 5, 2, []int{3, 2, 5}},       // nobody has a part twice
		{[]float64{1e-9, 1, 1}, 5, 1, []int{1, 2, 2}},    // everybody has one
		{[]float64{4, 2}, 1, 2, []int{1, 1}},             // a single part
		{[]float64{1, 2, 3, 4}, 4, 4, []int{4, 4, 4, 4}}, // all of them
	} {
		if got := proportionalShares(test.speeds, test.parts, test.copies); !slices.Equal(got, test.want) {
			t.Errorf("%v, %d parts %d times: %v, want %v", test.speeds, test.parts, test.copies, got, test.want)
		}
	}
}

// TestProportionalSharesOptimal: no share can be moved to another worker so that
// the last worker is done earlier.
func TestProportionalSharesOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		speeds := rapid.SliceOfN(rapid.Float64Range(0.1, 10), 2, 8).Draw(t, "speeds")
		parts := rapid.IntRange(len(speeds), 30).Draw(t, "parts")
		copies := rapid.IntRange(1, len(speeds)).Draw(t, "copies")
		shares := proportionalShares(speeds, parts, copies)
		total, last := 0, 0.0
		for w, share := range shares {
			if share < 1 || share > parts {
				t.Fatalf("worker %d of %v has %d of %d parts", w, speeds, share, parts)
			}
			total += share
			if share > 1 {
				last = max(last, float64(share)/speeds[w])
			}
		}
		if total != parts*copies {
			t.Fatalf("shares %v sum to %d, want %d", shares, total, parts*copies)
		}
		for w, share := range shares {
			if end := float64(share+1) / speeds[w]; share < parts && end < last*(1-1e-12) {
				t.Fatalf("shares %v: worker %d would be done with one more at %g, before the last at %g", shares, w, end, last)
			}
		}
	})
}

// TestCyclicShares: every part has the same number of different holders.
func TestCyclicShares(t *testing.T) {
	holders := cyclicShares([]int{3, 1, 4, 2}, 5)
	want := [][]int{{0, 2}, {0, 2}, {0, 2}, {1, 3}, {2, 3}}
	for p := range want {
		if !slices.Equal(holders[p], want[p]) {
			t.Errorf("part %d is known to %v, want %v", p, holders[p], want[p])
		}
	}
}

// TestNewHeterogeneous: any s stragglers are borne whatever the speeds, by exact
// rank and with small weights.
func TestNewHeterogeneous(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, test := range []struct {
		speeds  []float64
		s       int
		largest float64
	}{
		{[]float64{1, 1, 1, 1, 1, 1}, 0, 1.001},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 2, 9},
		{[]float64{1, 1, 1, 1, 8, 8}, 1, 2.7},
		{[]float64{8, 1, 1, 1, 1, 8}, 3, 2.7},
		{[]float64{0.01, 1, 1, 1, 100}, 2, 20},
	} {
		c, err := NewHeterogeneous(60, test.speeds, test.s)
		if err != nil {
			t.Fatal(err)
		}
		n := len(test.speeds)
		if c.Threshold() != n-test.s || c.Name() != "heterogeneous-gradients" || c.Kind() != Gradients {
			t.Errorf("%v: threshold %d, want %d", c, c.Threshold(), n-test.s)
		}
		if g := growthOf(t, c, 100); g.largest > test.largest {
			t.Errorf("speeds %v, s=%d: weights grow to %.3g, want at most %g", test.speeds, test.s, g.largest, test.largest)
		}
		exact, err := NewExactTracker(c)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			exact.Reset()
			order := rng.Perm(n)
			for _, w := range order[:n-test.s] {
				exact.Add(w)
			}
			if !exact.Ready() {
				t.Errorf("speeds %v: tasks %v do not decode", test.speeds, order[:n-test.s])
			}
		}
	}
}

// TestHeterogeneousEnds: workers of different speeds are done at the same time.
func TestHeterogeneousEnds(t *testing.T) {
	speeds := []float64{1, 2, 3, 4}
	c, err := NewHeterogeneous(100, speeds, 1)
	if err != nil {
		t.Fatal(err)
	}
	for w, v := range speeds {
		if got := float64(len(c.Parts(w))) / v; math.Abs(got-20) > 1e-9 {
			t.Errorf("worker %d, of speed %g, is done at %g, want 20", w, v, got)
		}
	}
}

func TestNewHeterogeneousRefuses(t *testing.T) {
	for _, test := range []struct {
		parts  int
		speeds []float64
		s      int
		want   string
	}{
		{4, nil, 0, "n must be 1 to 4096"},
		{0, []float64{1}, 0, "k must be at least 1"},
		{4, []float64{1, 0}, 1, "worker 1 has the speed 0, want a positive number"},
		{4, []float64{math.NaN(), 1}, 1, "worker 0 has the speed NaN"},
		{4, []float64{1, math.Inf(1)}, 1, "worker 1 has the speed +Inf"},
		{4, []float64{1, 1}, 2, "2 stragglers, want 0 to 1"},
		{4, []float64{1, 1}, -1, "-1 stragglers"},
		{2, []float64{1, 1, 1, 1, 1}, 1, "k*(s+1) must be at least n"},
		{1 << 24, []float64{1, 1}, 1, "k must be at most 8388608"},
	} {
		_, err := NewHeterogeneous(test.parts, test.speeds, test.s)
		if !errors.As(err, new(*SpecError)) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d parts, speeds %v, s=%d: %v, want %q", test.parts, test.speeds, test.s, err, test.want)
		}
	}
}
