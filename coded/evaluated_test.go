package coded

import (
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestChebyshevPoints: descending in (-1,1), symmetric to the last bit, and near
// the roots of T_n.
func TestChebyshevPoints(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 31, MaxTasks} {
		points := intervalPoints(n)
		for w, x := range points {
			if x != -points[n-1-w] || math.Abs(x) >= 1 || w > 0 && x >= points[w-1] {
				t.Fatalf("n=%d: point %d is %v", n, w, x)
			}
			if root := math.Cos(math.Pi * float64(2*w+1) / float64(2*n)); math.Abs(x-root) > 0.1/float64(n) {
				t.Fatalf("n=%d: point %d is %v, the root %v", n, w, x, root)
			}
		}
	}
}

// TestModularPoints: different, and symmetric like the Chebyshev points.
func TestModularPoints(t *testing.T) {
	for _, p := range []field.Prime{field.Fermat, field.Mersenne31, field.Mersenne61} {
		for _, n := range []int{1, 2, 7, MaxTasks} {
			points, err := modularPoints(p, n)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[uint64]bool{}
			for w, x := range points {
				if seen[x] || p.Add(x, points[n-1-w]) != 0 {
					t.Fatalf("modulo %d, n=%d: point %d is %d", p, n, w, x)
				}
				seen[x] = true
			}
		}
	}
	if _, err := modularPoints(field.Fermat, 40000); err == nil {
		t.Error("40000 points modulo 65537")
	}
}

func TestSpread(t *testing.T) {
	points := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for nodes, want := range map[int][]int{
		0: {0, 1, 2, 3, 4, 5, 6, 7}, 1: {4, 0, 1, 2, 3, 5, 6, 7}, 3: {1, 4, 6, 0, 2, 3, 5, 7}, 8: {0, 1, 2, 3, 4, 5, 6, 7},
	} {
		if got := spread(points, nodes); !slices.Equal(got, want) {
			t.Errorf("%d nodes: %v, want %v", nodes, got, want)
		}
	}
}

// TestBasisValues compares every basis with its formula.
func TestBasisValues(t *testing.T) {
	points := []float64{0.9, 0.3, -0.2, -0.7}
	e := evaluated{nodes: 3}
	theta := math.Acos(-0.7)
	lagrangeAt := func(k int) float64 {
		v := 1.0
		for l := range 3 {
			if l != k {
				v *= (-0.7 - points[l]) / (points[k] - points[l])
			}
		}
		return v
	}
	for b, want := range map[basis][]float64{
		monomialBasis:        {1, -0.7, 0.49},
		chebyshevBasis:       {1, math.Cos(theta), math.Cos(2 * theta)},
		halvedChebyshevBasis: {0.5, math.Cos(theta), math.Cos(2 * theta)},
		lagrangeBasis:        {lagrangeAt(0), lagrangeAt(1), lagrangeAt(2)},
	} {
		e.basis = b
		got := basisValues(field.Real{}, e, points, 3, 3)
		for i := range want {
			if len(got) != 3 || !near(got[i], want[i]) {
				t.Errorf("basis %d: %v, want %v", b, got, want)
			}
		}
		if one := basisValues(field.Real{}, e, points, 3, 1); b != lagrangeBasis && !slices.Equal(one, got[:1]) {
			t.Errorf("basis %d: one function gives %v", b, one)
		}
	}
	if got := basisValues(field.Real{}, evaluated{basis: lagrangeBasis, nodes: 3}, points, 1, 3); !slices.Equal(got, []float64{0, 1, 0}) {
		t.Errorf("the Lagrange basis at a node: %v", got)
	}
}

func TestBoundedProduct(t *testing.T) {
	for want, factors := range map[int][]int{1: nil, 24: {2, 3, 4}, maxEntries: {1 << 12, 1 << 12}, maxEntries + 1: {1 << 12, 1 << 13, 1 << 24, 1 << 24}} {
		if got := boundedProduct(factors...); got != want {
			t.Errorf("product of %v: %d, want %d", factors, got, want)
		}
	}
}
