package coded

import "testing"

// TestCommunicationEfficientGrowth: the weights for every set of stragglers, of every
// piece.
func TestCommunicationEfficientGrowth(t *testing.T) {
	for _, test := range []struct {
		n, s, m int
		largest float64
	}{{6, 0, 2, 2}, {6, 1, 2, 2.1}, {10, 2, 2, 25}, {10, 3, 2, 39}, {20, 2, 2, 11}} {
		c := specCode(t, Spec{Name: "communication-efficient", N: test.n, K: test.n, Load: test.s + test.m, M: test.m})
		if g := growthOf(t, c, 250); g.largest > test.largest {
			t.Errorf("n=%d, s=%d, m=%d: weights grow to %.3g, want at most %g", test.n, test.s, test.m, g.largest, test.largest)
		}
	}
}
