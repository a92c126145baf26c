package coded

import (
	"math"
	"testing"
)

// TestBlockGradients: with all parts of a worker in its own group, the code is
// fractional repetition; with one group, Bernoulli; and the parts drawn are as many
// as they should be.
func TestBlockGradients(t *testing.T) {
	blocks := specCode(t, Spec{Name: "block-gradients", N: 8, K: 8, Load: 2, Weight: 2, Groups: 4, Seed: 1})
	groups := specCode(t, Spec{Name: "fractional-repetition", N: 8, K: 8, Load: 2})
	bernoulli := specCode(t, Spec{Name: "bernoulli-gradients", N: 8, K: 8, Load: 2, Seed: 5})
	one := specCode(t, Spec{Name: "block-gradients", N: 8, K: 8, Load: 2, Weight: 2, Groups: 1, Seed: 5})
	for w := range 8 {
		for p := range 8 {
			if blocks.Rows(w)[0][p] != groups.Rows(w)[0][p] {
				t.Errorf("worker %d, part %d: %g, want as in fractional repetition", w, p, blocks.Rows(w)[0][p])
			}
			if one.Rows(w)[0][p] != bernoulli.Rows(w)[0][p] {
				t.Errorf("worker %d, part %d: %g, want as in Bernoulli", w, p, one.Rows(w)[0][p])
			}
		}
	}
	const n = 200
	large := specCode(t, Spec{Name: "block-gradients", N: n, K: n, Load: 12, Weight: 8, Groups: 10, Seed: 1})
	var own, other float64
	for w := range n {
		for _, p := range large.Parts(w) {
			if p/20 == w%10 {
				own++
			} else {
				other++
			}
		}
	}
	// Standard deviations of the means: sqrt(20*0.4*0.6/200) and sqrt(4/200).
	if math.Abs(own/n-8) > 0.5 || math.Abs(other/n-4) > 0.45 {
		t.Errorf("a worker knows %.2f parts of its group and %.2f others, want 8 and 4", own/n, other/n)
	}
}
