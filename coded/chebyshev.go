package coded

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
)

// chebyshev is the MDS code of polynomials of degree below k at the n roots of
// the Chebyshev polynomial T_n, written in the basis T_0 .. T_(k-1):
//
//	G_wj = T_j(x_w) = cos(j theta_w),   x_w = cos theta_w,   theta_w = (2w+1) pi / 2n
//
// times sqrt(2/n), and column 0 divided by sqrt(2): the columns are orthonormal
// (those of the discrete cosine transform). Polynomials of degree below k are
// determined by any k points. It is the code of choice where the product of two
// coded operands must again be a polynomial; of one operand the trigonometric
// code is better, because an interval has ends: a run of missing tasks at an end
// is worse than round a circle. Worst/median condition number:
//
//	n, k    6,4      8,6      12,9       18,15     31,28
//	        25/3.6   72/5.0   2.1e3/8.4  2.1e4/14  4.4e5/26
var chebyshev = Family{
	Name:  "chebyshev",
	Doc:   "polynomials at Chebyshev points in the Chebyshev basis: what coded products of polynomials are made of",
	Paper: "M. Fahim, V. R. Cadambe, Numerically stable polynomially coded computing, IEEE Trans. IT 2021",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		scale := math.Sqrt(2 / float64(s.N))
		g := make([][]float64, s.N)
		for w, x := range chebyshevPoints(s.N) {
			g[w] = chebyshevRow(field.Real{}, x, s.K)
			for j := range g[w] {
				g[w][j] *= scale
			}
			g[w][0] /= math.Sqrt2
		}
		d := fromGenerator(g)
		d.Threshold, d.MDS = s.K, true
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			if uint64(s.N) > uint64(p) {
				return nil, fmt.Errorf("there are no %d points modulo %d", s.N, p)
			}
			g := make([][]uint64, s.N)
			for w := range g {
				g[w] = chebyshevRow(p, p.Int(int64(w)), s.K)
			}
			return linearTasks(g, 1), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "chebyshev", N: 6, K: 4}, {Name: "chebyshev", N: 8, K: 6}, {Name: "chebyshev", N: 12, K: 9}, {Name: "chebyshev", N: 18, K: 15},
	},
}

// chebyshevPoints are the n roots of T_n, in descending order.
func chebyshevPoints(n int) []float64 {
	x := make([]float64, n)
	for w := range x {
		x[w] = math.Cos(float64(2*w+1) * math.Pi / float64(2*n))
	}
	return x
}

// chebyshevRow gives T_0(x) .. T_(k-1)(x) by T_(j+1) = 2 x T_j - T_(j-1).
func chebyshevRow[E any](f field.Field[E], x E, k int) []E {
	row := []E{f.Int(1), x}
	for j := 2; j < k; j++ {
		row = append(row, f.Sub(f.Mul(f.Mul(f.Int(2), x), row[j-1]), row[j-2]))
	}
	return row[:k]
}
