package coded

import (
	"fmt"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// cyclicRandom is the cyclic code as first given: H is an s x n matrix of random
// coefficients whose rows sum to 0, and row w of B the combination of the groups
// of parts w .. w+s, modulo n, with H b = 0 and b_w = 1. The null space of H, of
// dimension n-s, holds the rows of B and (1 .. 1); any n-s rows of B span it with
// probability 1, so that with s+1 = load*n/k
//
//	threshold  n - s, MDS
//
// (Tandon et al., ICML 2017, algorithm 2 and theorem 3). Compute and storage are
// load/k of the whole, the download one gradient. The seed draws H.
//
// Numerics: bad. An s x s submatrix of H that happens to be almost singular gives
// huge coefficients, and so do sets of answers for the weights. The largest weight
// over all sets of n-s answers, the least, median and largest of nine seeds:
//
//	n, s                    10,2              10,3              20,2
//	largest weight          1e2, 5e2, 3e5     7e1, 5e2, 8e3     2e3, 8e3, 6e4
//	cyclic-reed-solomon     4.8               21                5.5
//
// It is here to be compared with.
var cyclicRandom = Family{
	Name:  "cyclic-random",
	Doc:   "any s stragglers at the least load, of random coefficients: weights in the thousands; see cyclic-reed-solomon",
	Paper: "R. Tandon, Q. Lei, A. Dimakis, N. Karampatziakis, Gradient coding, ICML 2017, section 4.2, algorithm 2",
	Kind:  Gradients,
	Uses:  UsesK | UsesLoad | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		copies, err := s.cyclicCopies()
		if err != nil {
			return Definition{}, err
		}
		rng := rand.New(rand.NewPCG(s.Seed, 0))
		rows, err := nullRows(field.Real{}, s.N, copies, rng.NormFloat64)
		if err != nil {
			return Definition{}, err
		}
		d := fromGradients(perPart(rows, s.K, 1), 1)
		d.Threshold, d.MDS = s.N-copies+1, true
		d.Modular = modularRows(func(p field.Prime) ([][]uint64, error) {
			rng := rand.New(rand.NewPCG(s.Seed, 0))
			rows, err := nullRows(p, s.N, copies, func() uint64 { return rng.Uint64N(uint64(p)) })
			if err != nil {
				return nil, err
			}
			return perPart(rows, s.K, 1), nil
		})
		return d, nil
	},
	Examples: []Spec{
		{Name: "cyclic-random", N: 5, K: 5, Load: 2, Seed: 1}, {Name: "cyclic-random", N: 6, K: 12, Load: 6, Seed: 1},
		{Name: "cyclic-random", N: 10, K: 10, Load: 3, Seed: 2}, {Name: "cyclic-random", N: 20, K: 20, Load: 3, Seed: 1},
	},
}

// nullRows gives B, n x n: row w has 1 in column w and coefficients in the next
// copies-1 columns, modulo n, such that it is in the null space of a random matrix
// of copies-1 rows that sum to 0.
func nullRows[E any](f field.Pivoting[E], n, copies int, draw func() E) ([][]E, error) {
	h := make([][]E, copies-1)
	for i := range h {
		h[i] = make([]E, n)
		for j := range n - 1 {
			h[i][j] = draw()
			h[i][n-1] = f.Sub(h[i][n-1], h[i][j])
		}
	}
	rows := make([][]E, n)
	for w := range rows {
		a, b := make([][]E, len(h)), make([][]E, len(h))
		for i := range h {
			b[i] = []E{f.Sub(f.Int(0), h[i][w])}
			for j := range h {
				a[i] = append(a[i], h[i][(w+1+j)%n])
			}
		}
		x, err := field.Solve(f, a, b)
		if err != nil {
			return nil, fmt.Errorf("row %d of the random matrix: %w; another seed will do", w, err)
		}
		rows[w] = make([]E, n)
		rows[w][w] = f.Int(1)
		for j := range x {
			rows[w][(w+1+j)%n] = x[j][0]
		}
	}
	return rows, nil
}
