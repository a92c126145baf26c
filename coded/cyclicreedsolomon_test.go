package coded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// growth is how large decode weights become over all sets of exactly Threshold
// tasks if they are few, and otherwise over sets drawn at random.
type growth struct{ largest, norm float64 }

// growthOf also fails the test for a set that does not decode.
func growthOf(t *testing.T, c *Code, sets int) growth {
	t.Helper()
	var g growth
	try := func(set []int) error {
		w, err := c.solve(set)
		if err != nil {
			return err
		}
		if len(w.undecoded()) > 0 {
			return fmt.Errorf("%v: tasks %v do not decode, residual %.3g", c, set, w.Residual)
		}
		for _, row := range w.D {
			for _, v := range row {
				g.largest = max(g.largest, math.Abs(v))
			}
		}
		g.norm = max(g.norm, w.Amplification())
		return nil
	}
	var err error
	if n, k := c.N(), c.Threshold(); atMost(n, k, sets) {
		err = eachSubset(n, k, try)
	} else {
		err = drawSubsets(n, k, sets, rand.New(rand.NewPCG(1, 2)), try)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// specCode builds the code of a spec that is known to be good.
func specCode(t *testing.T, s Spec) *Code {
	t.Helper()
	c, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCyclicGrowth: the weights of the Reed-Solomon code for every set of
// stragglers, beside those of random coefficients.
func TestCyclicGrowth(t *testing.T) {
	for _, test := range []struct {
		n, s            int
		largest, random float64 // upper and lower limit
	}{
		{10, 1, 2.2, 0}, {10, 2, 5, 100}, {10, 3, 22, 70}, {12, 3, 11, 0}, {20, 2, 5.6, 2000},
	} {
		n, load := test.n, test.s+1
		g := growthOf(t, specCode(t, Spec{Name: "cyclic-reed-solomon", N: n, K: n, Load: load}), 250)
		if g.largest > test.largest || g.norm > test.largest*math.Sqrt(float64(n)) {
			t.Errorf("n=%d, s=%d: weights grow to %.3g, of norm %.3g; want at most %g", n, test.s, g.largest, g.norm, test.largest)
		}
		if test.random == 0 {
			continue
		}
		random := growthOf(t, specCode(t, Spec{Name: "cyclic-random", N: n, K: n, Load: load, Seed: 3}), 250)
		if random.largest < test.random {
			t.Errorf("n=%d, s=%d: random coefficients have weights of %.3g, want at least %g", n, test.s, random.largest, test.random)
		}
	}
}

// TestReedSolomonWeights compares the weights of every set of n-s answers with the
// formula: up to the scale of the rows, the polynomial that vanishes at the
// stragglers.
func TestReedSolomonWeights(t *testing.T) {
	const n, s = 7, 2
	points := spreadPoints(n, s+1)
	raw, err := annihilatingRows(field.Real{}, points, cyclicHolders(n, s+1), 1)
	if err != nil {
		t.Fatal(err)
	}
	c := specCode(t, Spec{Name: "cyclic-reed-solomon", N: n, K: n, Load: s + 1})
	err = eachSubset(n, n-s, func(set []int) error {
		w, err := c.solve(set)
		if err != nil {
			return err
		}
		for i, at := range set {
			a := 2.0 // T_2 = 2x^2 - 1, so that 2x^2 has the coefficient 1
			for z := range n {
				if !slices.Contains(set, z) {
					a *= points[at] - points[z]
				}
			}
			scale := c.Rows(at)[0][at] / raw[at][at]
			if got := w.D[0][i] * scale; math.Abs(got-a) > 1e-12 {
				return fmt.Errorf("tasks %v: the weight of %d is %g, want %g", set, at, got, a)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
