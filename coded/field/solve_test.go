package field

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSolve puts the solution back into the equations.
func TestSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 6; n++ {
		for _, p := range primes {
			a, b := drawn(n, n, func() uint64 { return rng.Uint64N(uint64(p)) }), drawn(n, 2, func() uint64 { return rng.Uint64N(uint64(p)) })
			a[0][0] = 0 // the first pivot must be looked for
			if n == 1 {
				a[0][0] = 5
			}
			back(t, p, a, b, func(x uint64) bool { return x == 0 })
		}
		a, b := drawn(n, n, rng.NormFloat64), drawn(n, 2, rng.NormFloat64)
		a[0][0] = 1e-20 // a bad pivot
		if n == 1 {
			a[0][0] = 5
		}
		back(t, Real{}, a, b, func(x float64) bool { return math.Abs(x) < 1e-11 })
	}
}

func drawn[E any](rows, cols int, draw func() E) [][]E {
	m := make([][]E, rows)
	for i := range m {
		m[i] = make([]E, cols)
		for j := range m[i] {
			m[i][j] = draw()
		}
	}
	return m
}

func back[E any](t *testing.T, f Pivoting[E], a, b [][]E, zero func(E) bool) {
	t.Helper()
	x, err := Solve(f, a, b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		for c := range b[i] {
			rest := b[i][c]
			for j := range a[i] {
				rest = f.Sub(rest, f.Mul(a[i][j], x[j][c]))
			}
			if !zero(rest) {
				t.Errorf("%T: size %d, equation %d, side %d: %v is left", f, len(a), i, c, rest)
			}
		}
	}
}

func TestSolveRefuses(t *testing.T) {
	var singular *SingularError
	_, err := Solve(Mersenne31, [][]uint64{{1, 2}, {2, 4}}, [][]uint64{{1}, {1}})
	if !errors.As(err, &singular) || *singular != (SingularError{1, 2}) || err.Error() != "a matrix of size 2 is singular, of rank 1" {
		t.Errorf("singular: %v", err)
	}
	if _, err := Solve(Real{}, [][]float64{{math.NaN()}}, [][]float64{{1}}); !errors.As(err, &singular) {
		t.Errorf("NaN: %v", err)
	}
	for want, b := range map[string][][]float64{
		"2 equations with 1 right-hand sides":                           {{1}},
		"row 1 has 2 coefficients and 2 right-hand sides, want 2 and 1": {{1}, {1, 2}},
	} {
		if _, err := Solve(Real{}, [][]float64{{1, 2}, {3, 4}}, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", b, err, want)
		}
	}
	if _, err := Solve(Real{}, [][]float64{{1, 2}}, [][]float64{{1}}); err == nil {
		t.Error("a matrix that is not square has a solution")
	}
}
