package coded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestNumerics holds the condition numbers of codes of k blocks against published
// ones, or those of the same construction by others: worst, median and the worst
// norm of a row of decode weights. Random codes are of the same order, others
// within a factor of 2 (better is no mistake).
func TestNumerics(t *testing.T) {
	type figures struct{ worst, median, factor float64 }
	for name, sizes := range map[string]map[[2]int]figures{
		"trigonometric": {
			{6, 4}: {4.7, 2.5, 3.7}, {8, 6}: {7.3, 3.7, 5.0}, {10, 8}: {10, 3.5, 6.3}, {12, 9}: {37, 6.9, 23},
			{18, 15}: {103, 9.1, 55}, {31, 28}: {404, 13, 168}, {40, 32}: {1.7e6, 94, 8e5}, {64, 60}: {2.8e4, 36, 8.9e3},
		},
		"systematic-trigonometric": {
			{6, 4}: {11, 5.7, 3.3}, {8, 6}: {14, 5.5, 5.1}, {10, 8}: {27, 8.8, 7.2}, {12, 9}: {73, 11, 29},
			{18, 15}: {252, 18, 83}, {31, 28}: {1.4e3, 40, 329}, {64, 60}: {1.1e5, 138, 1.9e4},
		},
		"gaussian":            {{6, 4}: {15, 7.2, 3.8}, {8, 6}: {56, 11, 12}, {12, 9}: {458, 21, 57}, {18, 15}: {1.7e3, 30, 115}},
		"systematic-gaussian": {{6, 4}: {8.6, 3.8, 6.1}, {8, 6}: {34, 8.8, 20}, {12, 9}: {372, 11, 203}, {18, 15}: {1.3e3, 20, 926}},
	} {
		factor := 2.0
		if name == "gaussian" || name == "systematic-gaussian" {
			factor = 10
		}
		for size, want := range sizes {
			got, err := mustCode(t, name, size[0], size[1]).Conditions(30, rand.New(rand.NewPCG(1, 2)))
			if err != nil {
				t.Fatal(err)
			}
			for what, v := range map[string][2]float64{
				"worst": {got.Worst, want.worst}, "median": {got.Median, want.median}, "amplification": {got.Amplification, want.factor},
			} {
				if v[0] > factor*v[1] {
					t.Errorf("%s %v: %s %.3g, want %.3g or less", name, size, what, v[0], v[1])
				}
			}
		}
	}
}

// TestSystematic: the first k tasks of a systematic code hold the blocks.
func TestSystematic(t *testing.T) {
	for _, name := range []string{"systematic-trigonometric", "systematic-gaussian"} {
		for _, size := range [][2]int{{1, 1}, {5, 5}, {7, 3}, {12, 9}} {
			c := mustCode(t, name, size[0], size[1])
			for j := range c.K() {
				if !slices.Equal(c.Row(j), unit(c.K(), j)) {
					t.Errorf("%v: task %d holds %v", c, j, c.Row(j))
				}
			}
		}
	}
	if _, err := systematicForm(field.Real{}, [][]float64{{1, 2}, {2, 4}, {0, 1}}); err == nil {
		t.Error("dependent rows became the identity")
	}
}

// TestSpreadFirst: the rows in front are as far from each other as they can be.
func TestSpreadFirst(t *testing.T) {
	for n := 1; n <= 20; n++ {
		for k := 1; k <= n; k++ {
			g := make([][]float64, n)
			for w := range g {
				g[w] = make([]float64, k)
				g[w][0] = float64(w)
			}
			var front []int
			for _, row := range spreadFirst(g)[:k] {
				front = append(front, int(row[0]))
			}
			for i := range front {
				gap := front[(i+1)%k] - front[i]
				if i == k-1 {
					gap += n
				}
				if gap < n/k || gap > (n+k-1)/k {
					t.Fatalf("%d of %d: %v, with a gap of %d", k, n, front, gap)
				}
			}
		}
	}
}

// TestDrawn: the seed decides which matrix is drawn.
func TestDrawn(t *testing.T) {
	for _, name := range []string{"gaussian", "systematic-gaussian", "low-weight"} {
		build := func(seed uint64) []float64 {
			c, err := New(Spec{Name: name, N: 7, K: 5, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			return c.Row(6)
		}
		if a, b := build(3), build(3); !slices.Equal(a, b) {
			t.Errorf("%s: one seed gives %v and %v", name, a, b)
		}
		if a, b := build(3), build(4); slices.Equal(a, b) {
			t.Errorf("%s: two seeds give %v", name, a)
		}
	}
}

// TestLowWeight: every block is held by at least n-k+1 workers, each of which
// combines ceil(k(n-k+1)/n), and any k workers decode.
func TestLowWeight(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 7; n++ {
		for k := 1; k <= n; k++ {
			c := mustCode(t, "low-weight", n, k)
			held := make([]int, k)
			for w := range n {
				weight := 0
				for j, v := range c.Row(w) {
					if v != 0 {
						held[j]++
						weight++
					}
				}
				if want := int(math.Ceil(float64(k*(n-k+1)) / float64(n))); weight != want {
					t.Errorf("%v: worker %d combines %d blocks, want %d", c, w, weight, want)
				}
			}
			if slices.Min(held) < n-k+1 {
				t.Errorf("%v: the blocks are held %v times, want at least %d", c, held, n-k+1)
			}
			report, err := c.CheckThreshold(300, rng)
			if err != nil || report.Refuted != nil || !report.Exhaustive {
				t.Errorf("%v: %+v, error %v", c, report, err)
			}
		}
	}
}

// TestChebyshevFrame: the columns are orthonormal, and those of the polynomials.
func TestChebyshevFrame(t *testing.T) {
	c := mustCode(t, "chebyshev", 9, 5)
	for i := range 5 {
		for j := range 5 {
			var sum float64
			for w := range 9 {
				sum += c.Row(w)[i] * c.Row(w)[j]
			}
			if want := unit(5, i)[j]; math.Abs(sum-want) > 1e-14 {
				t.Errorf("columns %d and %d have the product %g", i, j, sum)
			}
		}
	}
	x := 0.3
	want := []float64{1, x, 2*x*x - 1, 4*x*x*x - 3*x}
	if got := chebyshevRow(field.Real{}, x, 4); fmt.Sprintf("%.12f", got) != fmt.Sprintf("%.12f", want) {
		t.Errorf("T_0 .. T_3 at %g are %v, want %v", x, got, want)
	}
	if got := chebyshevRow(field.Real{}, x, 1); len(got) != 1 {
		t.Errorf("T_0 alone is %v", got)
	}
}
