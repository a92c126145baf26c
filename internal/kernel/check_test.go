package kernel

import "math"

// checkNear fails if an entry of got differs from want by more than tol times
// the largest entry of want.
func checkNear[T float32 | float64](t failer, what string, got []float32, want []T, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", what, len(got), len(want))
	}
	most := 0.0
	for _, v := range want {
		most = max(most, math.Abs(float64(v)))
	}
	for i, v := range got {
		if d := math.Abs(float64(v) - float64(want[i])); !(d <= tol*most) {
			t.Fatalf("%s: entry %d is %g, want %g (largest entry %g)", what, i, v, want[i], most)
		}
	}
}

// checkSame fails unless got and want have the same bits.
func checkSame(t failer, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: entry %d is %g, want the same bits as %g", what, i, got[i], want[i])
		}
	}
}

// failer is what the checks need of a *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}
