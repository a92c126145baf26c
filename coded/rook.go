package coded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/coda-ml/coda/coded/field"
)

// rook computes Batch independent products A_i B_i at once with the cheapest
// encoding of all, monomials:
//
//	A~(x) = sum_i A_i x^(e_i),   B~(x) = sum_i B_i x^(e_i)
//
// where no e_i is half the sum of two others (no three exponents are in arithmetic
// progression), so that A_i B_i stands alone at x^(2 e_i). The exponents are
// Stanley's sequence 0, 1, 3, 4, 9, 10, 12, 13, .., the numbers without the digit
// 2 in base 3. The product has as many terms as there are different sums, so any
//
//	|{e_i + e_j}|
//
// tasks decode: Batch^(log2 3) for powers of 2 (1, 3, 9, 27). That is more than
// lagrange's 2 Batch - 1; it pays when encoding dominates. Over the reals the
// points are positive, where a generalised Vandermonde matrix is always regular,
// but like every such matrix ill-conditioned: 4 products at most in float32.
//
//	n, Batch   5,2      11,4
//	           25/2.4   1.1e5/3.2e4
var rook = Family{
	Name:  "rook",
	Doc:   "many products A_i B_i at once by monomials without arithmetic progressions: cheapest to encode; for prime fields",
	Paper: "P. Soto, X. Fan, A. Saldivia, J. Li, Rook coding for batch matrix multiplication, IEEE Trans. Communications 2022",
	Kind:  Batch,
	Uses:  UsesBatch,
	Define: func(s Spec) (Definition, error) {
		if s.Batch > MaxTasks {
			return Definition{}, fmt.Errorf("batch must be at most %d", MaxTasks)
		}
		exponents := stanley(s.Batch)
		d := batchDefinition(s.Batch)
		d.Threshold, d.MDS = sumset(exponents), s.Batch == 1
		if s.N < d.Threshold {
			return d, fmt.Errorf("n must be at least %d, the number of sums of two exponents", d.Threshold)
		}
		d.Tasks = sameRows(monomialRows(field.Real{}, exponents, rookPoints(s.N, exponents)))
		for _, task := range d.Tasks {
			scaleTo(task.A[0], 1) // the same slice as B[0]
		}
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			points, err := randomPoints(p, s.N)
			if err != nil {
				return nil, err
			}
			return sameRows(monomialRows(p, exponents, points)), nil
		}
		return d, nil
	},
	Examples: []Spec{{Name: "rook", N: 5, Batch: 2}, {Name: "rook", N: 8, Batch: 3}, {Name: "rook", N: 11, Batch: 4}},
}

// stanley gives the first numbers without the digit 2 in base 3.
func stanley(count int) []int {
	exponents := make([]int, count)
	for i := range exponents {
		for bit, power := i, 1; bit > 0; bit, power = bit>>1, power*3 {
			exponents[i] += bit & 1 * power
		}
	}
	return exponents
}

// sumset counts the different sums of two numbers of a list.
func sumset(e []int) int {
	var sums []int
	for i, a := range e {
		for _, b := range e[i:] {
			sums = append(sums, a+b)
		}
	}
	slices.Sort(sums)
	return len(slices.Compact(sums))
}

// rookPoints are positive, and so spread that the highest power of the largest is
// as far above 1 as that of the smallest is below.
func rookPoints(n int, exponents []int) []float64 {
	highest := float64(2*exponents[len(exponents)-1] + 1)
	x := make([]float64, n)
	for w, c := range chebyshevPoints(n) {
		x[w] = math.Exp2(c * 8 / math.Sqrt(highest))
	}
	return x
}

func monomialRows[E any](f field.Field[E], exponents []int, x []E) [][]E {
	rows := make([][]E, len(x))
	for w := range x {
		for _, e := range exponents {
			rows[w] = append(rows[w], field.Pow(f, x[w], int64(e)))
		}
	}
	return rows
}

// randomPoints are different elements of a field large enough that a matrix of
// powers of them is regular but for a chance of about 1 in 2^31.
func randomPoints(p field.Prime, count int) ([]uint64, error) {
	if p < field.Mersenne31 {
		return nil, fmt.Errorf("modulo %d random points are dependent too often", p)
	}
	rng := rand.New(rand.NewPCG(uint64(p), 0))
	seen := make(map[uint64]bool)
	var points []uint64
	for len(points) < count {
		if x := 1 + rng.Uint64N(uint64(p)-1); !seen[x] {
			seen[x] = true
			points = append(points, x)
		}
	}
	return points, nil
}
