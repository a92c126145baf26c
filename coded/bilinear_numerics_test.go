package coded

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// published are condition numbers, the worst over sets of k tasks and the median,
// that were measured with another program when the codes were chosen.
type published struct {
	n, k, m, q    int
	worst, median float64
}

// TestBilinearNumerics compares the condition numbers of the codes of a product with those
// published, within a factor of 2. The worst sets of the polynomial codes lack
// neighbours, so that all these are tried where the others are drawn.
func TestBilinearNumerics(t *testing.T) {
	for name, rows := range map[string][]published{
		"polynomial": {
			{11, 8, 4, 2, 4.4e3, 685}, {18, 15, 5, 3, 1.7e6, 3.4e5}, {24, 20, 5, 4, 4.0e8, 3.8e7}, {31, 28, 7, 4, 1.4e11, 3.4e10},
		},
		"ortho-polynomial": {
			{11, 8, 4, 2, 1.6e3, 14}, {18, 15, 5, 3, 2.7e4, 31}, {24, 20, 5, 4, 2.2e6, 76}, {31, 28, 7, 4, 6.0e5, 62},
		},
		// The rotation code's are those of the roots of unity, see TestRotationCondition.
		"trigonometric": {
			{11, 8, 8, 1, 29, 6.6}, {18, 15, 15, 1, 103, 10}, {24, 20, 20, 1, 886, 17}, {31, 28, 28, 1, 404, 14},
		},
	} {
		for _, want := range rows {
			c := mustSpec(t, want.spec(name))
			t.Run(c.String(), func(t *testing.T) {
				worst, median := conditions(t, c)
				if !within(worst, want.worst, 2) || !within(median, want.median, 2) {
					t.Errorf("condition numbers %.3g/%.3g, want %.3g/%.3g", worst, median, want.worst, want.median)
				}
			})
		}
	}
}

// TestKhatriRaoNumerics: the random codes are of the order of magnitude of those
// published, which were single draws, and by the search the worst is no worse.
func TestKhatriRaoNumerics(t *testing.T) {
	for name, rows := range map[string][]published{
		"random-khatri-rao": {
			{11, 8, 4, 2, 1.9e4, 77}, {18, 15, 5, 3, 2.8e5, 205}, {24, 20, 5, 4, 1.7e5, 94}, {31, 28, 7, 4, 8.7e5, 167},
		},
		"systematic-khatri-rao": {
			{11, 8, 4, 2, 2.2e3, 17}, {18, 15, 5, 3, 3.7e4, 82}, {24, 20, 5, 4, 1.8e5, 64}, {31, 28, 7, 4, 4.5e7, 171},
		},
	} {
		for _, want := range rows {
			c := mustSpec(t, want.spec(name))
			t.Run(c.String(), func(t *testing.T) {
				worst, median := conditions(t, c)
				if worst > 2*want.worst || !within(median, want.median, 10) {
					t.Errorf("condition numbers %.3g/%.3g, want %.3g/%.3g", worst, median, want.worst, want.median)
				}
			})
		}
	}
}

func (p published) spec(name string) Spec {
	s := Spec{Name: name, N: p.n, M: p.m, Q: p.q}
	switch name {
	case "trigonometric":
		s.K, s.M, s.Q = p.k, 0, 0
	case "random-khatri-rao", "systematic-khatri-rao":
		s.Seed = 1
	}
	return s
}

func within(got, want, factor float64) bool { return got <= factor*want && got >= want/factor }

// conditions gives the worst and the median condition number over the sets of
// Threshold tasks: all of them up to 1,000, otherwise some of them and, for the
// worst, those that lack neighbours.
func conditions(t *testing.T, c *Code) (worst, median float64) {
	t.Helper()
	n, k := c.N(), c.Threshold()
	var conds []float64
	try := func(set []int) error {
		conds = append(conds, squareCondition(t, c, set))
		return nil
	}
	var err error
	if atMost(n, k, 1000) {
		err = eachSubset(n, k, try)
	} else {
		err = drawSubsets(n, k, 400, rand.New(rand.NewPCG(1, 2)), try)
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(conds)
	worst, median = conds[len(conds)-1], conds[len(conds)/2]
	for missing := range k + 1 {
		var set []int
		for w := range n {
			if w < missing || w >= missing+n-k {
				set = append(set, w)
			}
		}
		worst = max(worst, squareCondition(t, c, set))
	}
	return worst, median
}

// squareCondition gives the condition number of a set whose rows are square, by
// singular values.
func squareCondition(t *testing.T, c *Code, set []int) float64 {
	t.Helper()
	m := c.stack(set)
	rows, cols := m.Dims()
	var svd mat.SVD
	if rows != cols || !svd.Factorize(m, mat.SVDNone) {
		t.Fatalf("%v: tasks %v have %d x %d rows", c, set, rows, cols)
	}
	s := svd.Values(nil)
	return s[0] / s[len(s)-1]
}

// TestConditionsIllConditioned: where weights can no longer be computed to full
// precision, the condition number is still known.
func TestConditionsIllConditioned(t *testing.T) {
	c := mustSpec(t, Spec{Name: "polynomial", N: 25, M: 6, Q: 4})
	report, err := c.Conditions(25, nil)
	if err != nil {
		t.Fatal(err)
	}
	var worst float64
	if err := eachSubset(25, 24, func(set []int) error {
		worst = max(worst, squareCondition(t, c, set))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if worst < 1e8 || !within(report.Worst, worst, 1.01) {
		t.Errorf("worst condition number %.4g, by singular values %.4g, want more than 1e8", report.Worst, worst)
	}
	if math.IsInf(report.Median, 1) {
		t.Error("median +Inf")
	}
}

func mustSpec(t testing.TB, s Spec) *Code {
	t.Helper()
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
