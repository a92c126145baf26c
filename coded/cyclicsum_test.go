package coded

import (
	"math"
	"testing"
)

// TestCyclicSum: with all answers every weight is 1/d; without d in a row, the group
// that only they know is lost, and it alone.
func TestCyclicSum(t *testing.T) {
	c := specCode(t, Spec{Name: "cyclic-sum", N: 7, K: 14, Load: 6})
	decoder := NewDecoder(c, DecoderConfig{})
	w, err := decoder.Weights([]int{0, 1, 2, 3, 4, 5, 6})
	if err != nil || w.Residual > 1e-24 {
		t.Fatalf("all answers: residual %g, error %v", w.Residual, err)
	}
	for i, a := range w.Row(0) {
		if math.Abs(a-1./3) > 1e-12 {
			t.Errorf("all answers: weight %d is %g, want 1/3", i, a)
		}
	}
	w, err = decoder.Weights([]int{3, 4, 5, 6})
	if err != nil || math.Abs(w.Residual-1./7) > 1e-12 {
		t.Errorf("workers 0 to 2, who know group 2, are missing: residual %g, want 1/7; error %v", w.Residual, err)
	}
}
