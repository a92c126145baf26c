package coded

import (
	"math"
	"math/rand/v2"
	"testing"
)

// meanResidual is the mean error of the best estimate for stragglers at random; of
// a code that is drawn, for a new one each time.
func meanResidual(t *testing.T, spec Spec, stragglers, draws int) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(stragglers)))
	var mean float64
	c := specCode(t, spec)
	for i := range draws {
		if spec.Seed != 0 {
			spec.Seed = uint64(i + 1)
			c = specCode(t, spec)
		}
		err := drawSubsets(c.N(), c.N()-stragglers, 1, rng, func(set []int) error {
			w, err := c.solve(set)
			mean += w.Residual / float64(draws)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return mean
}

// TestApproximateErrors: the table of the errors of approximate codes. The limits
// are about three standard deviations of so many draws.
func TestApproximateErrors(t *testing.T) {
	for _, test := range []struct {
		spec       Spec
		stragglers int
		low, high  float64
	}{
		{Spec{Name: "cyclic-sum", Load: 4}, 4, 0, 0.01},
		{Spec{Name: "cyclic-sum", Load: 4}, 10, 0.065, 0.09},
		{Spec{Name: "bernoulli-gradients", Load: 4, Seed: 1}, 4, 0.05, 0.085},
		{Spec{Name: "bernoulli-gradients", Load: 4, Seed: 1}, 10, 0.17, 0.21},
		{Spec{Name: "block-gradients", Load: 4, Weight: 3, Groups: 5, Seed: 1}, 10, 0.11, 0.15},
		{Spec{Name: "uncoded-gradients"}, 4, 0.2 - 1e-12, 0.2 + 1e-12},
		{Spec{Name: "uncoded-gradients"}, 10, 0.5 - 1e-12, 0.5 + 1e-12},
	} {
		test.spec.N, test.spec.K = 20, 20
		if got := meanResidual(t, test.spec, test.stragglers, 120); got < test.low || got > test.high {
			t.Errorf("%v: %d stragglers, mean error %.4f, want %.4f to %.4f", test.spec, test.stragglers, got, test.low, test.high)
		}
	}
}

// TestFractionalErrors: those of fractional repetition are so small with four
// stragglers that draws say nothing. Each of g groups of r workers is missing with
// the probability C(n-r, S-r) / C(n, S) (TestErasureHead has the rest).
func TestFractionalErrors(t *testing.T) {
	binomial := func(n, k int) float64 {
		b := 1.0
		for i := range k {
			b = b * float64(n-i) / float64(i+1)
		}
		return b
	}
	for _, test := range []struct {
		stragglers int
		want       float64
	}{{4, 0.0002}, {10, 0.043}} {
		exact := binomial(16, test.stragglers-4) / binomial(20, test.stragglers)
		if math.Abs(exact-test.want) > 0.05*test.want {
			t.Errorf("%d stragglers: error %.5f, want %.4f", test.stragglers, exact, test.want)
		}
	}
	got := meanResidual(t, Spec{Name: "fractional-repetition", N: 20, K: 20, Load: 4}, 10, 120)
	if got < 0.03 || got > 0.06 {
		t.Errorf("10 stragglers: mean error %.4f, want about 0.043", got)
	}
}
