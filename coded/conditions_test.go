package coded

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestTrigonometricConditions compares with values computed independently in
// NumPy over all survivor sets.
func TestTrigonometricConditions(t *testing.T) {
	for _, want := range []struct {
		n, k, sets            int
		worst, median, factor float64
	}{
		{6, 4, 15, 4.7, 2.5, 3.7},
		{8, 6, 28, 7.3, 3.7, 5.0},
		{10, 8, 45, 10, 3.5, 6.3},
		{12, 9, 220, 37, 6.9, 23},
		{18, 15, 816, 103, 9.1, 55},
	} {
		c, err := New(Spec{Name: "trigonometric", N: want.n, K: want.k})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Conditions(1000, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got.Sets != want.sets || !got.Exhaustive {
			t.Errorf("%v: %d sets, exhaustive %t; want all %d", c, got.Sets, got.Exhaustive, want.sets)
		}
		for what, v := range map[string][2]float64{
			"worst": {got.Worst, want.worst}, "median": {got.Median, want.median}, "amplification": {got.Amplification, want.factor},
		} {
			if math.Abs(v[0]-v[1]) > 0.05*v[1] {
				t.Errorf("%v: %s %.4g, want %.3g", c, what, v[0], v[1])
			}
		}
	}
}
