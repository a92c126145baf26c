package coded

import (
	"errors"
	"math"
	"testing"
)

// TestErasureHead: whatever answers there are, the best estimate averages those of
// each group of workers that has any, and its error is the share of the groups
// that have none.
func TestErasureHead(t *testing.T) {
	const n, groups = 8, 4
	c := specCode(t, Spec{Name: "fractional-repetition", N: n, K: 8, Load: 2})
	decoder := NewDecoder(c, DecoderConfig{})
	for bits := 1; bits < 1<<n; bits++ {
		var have []int
		var answers [groups]int
		for w := range n {
			if bits&(1<<w) != 0 {
				have = append(have, w)
				answers[w%groups]++
			}
		}
		missing := 0
		for _, a := range answers {
			if a == 0 {
				missing++
			}
		}
		w, err := decoder.Weights(have)
		if missing == 0 != (err == nil) || missing > 0 && !errors.Is(err, ErrTooFewResults) {
			t.Fatalf("tasks %v: %d groups are missing, error %v", have, missing, err)
		}
		if want := float64(missing) / groups; math.Abs(w.Residual-want) > 1e-12 {
			t.Errorf("tasks %v: residual %g, want %g", have, w.Residual, want)
		}
		for i, a := range w.Row(0) {
			if want := 1 / float64(answers[have[i]%groups]); math.Abs(a-want) > 1e-12 {
				t.Errorf("tasks %v: weight %d is %g, want %g", have, i, a, want)
			}
		}
	}
}

// TestFractionalNumerics: condition number and amplification stay below what the
// documentation says, for all sets of n-s answers.
func TestFractionalNumerics(t *testing.T) {
	c := specCode(t, Spec{Name: "fractional-repetition", N: 12, K: 12, Load: 3})
	r, err := c.Conditions(1000, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Threshold() != 10 || r.Worst > math.Sqrt(3)*(1+1e-12) || r.Amplification > 2*(1+1e-12) {
		t.Errorf("threshold %d, condition number %g, amplification %g", c.Threshold(), r.Worst, r.Amplification)
	}
}
