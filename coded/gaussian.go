package coded

import (
	"fmt"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// gaussian is the code whose coefficients are drawn: G_wj ~ N(0,1). Any k rows are
// independent with probability 1. Of some dozens of matrices (see searchDraw) the one is taken whose
// condition number is smallest in the worst of a sample of survivor sets (all
// sets of small codes). While n-k is small the trigonometric code is several
// times better; for n-k above 5 or so, this one. Worst/median:
//
//	n, k    6,4     8,6     10,8    12,9    18,15     31,28     40,32      64,60
//	        24/4.8  51/8.5  164/14  736/16  1.5e3/44  8.1e4/75  1.8e4/108  3.2e4/211
var gaussian = Family{
	Name:  "gaussian",
	Doc:   "random coefficients, the best conditioned of 48 draws: for many spare workers (n-k above 5)",
	Paper: "Z. Chen, J. Dongarra, Condition numbers of Gaussian random matrices, SIAM J. Matrix Anal. Appl. 2005",
	Kind:  Linear,
	Uses:  UsesK | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		return drawnDefinition(s, func(rng *rand.Rand) [][]float64 {
			return drawnRows(s.N, func() []float64 { return normalRow(rng, s.K) })
		}, func(p field.Prime, rng *rand.Rand) [][]uint64 {
			return drawnRows(s.N, func() []uint64 { return randomElements(rng, p, s.K) })
		})
	},
	Examples: []Spec{
		{Name: "gaussian", N: 6, K: 4}, {Name: "gaussian", N: 8, K: 6, Seed: 7}, {Name: "gaussian", N: 12, K: 9}, {Name: "gaussian", N: 18, K: 15},
	},
}

// systematicGaussian is the code [I; P]: k workers hold the blocks themselves, and
// n-k hold combinations whose rows are drawn at random and then made orthogonal
// (as far as there are no more than k), with norm 1. Again the best of
// some dozens. Worst/median condition numbers, and the worst norm of a row of
// decode weights:
//
//	n, k    6,4         8,6         12,9         18,15           31,28
//	        8.4/3.5/4.4 19/5.5/13   453/12/266   4.0e3/15/2.4e3  9.4e3/26/5.2e3
var systematicGaussian = Family{
	Name:  "systematic-gaussian",
	Doc:   "k workers hold the blocks as they are, the others random combinations: best median where decoding should cost nothing",
	Paper: "as gaussian; J. Demmel, The probability that a numerical analysis problem is difficult, Math. Comp. 1988",
	Kind:  Linear,
	Uses:  UsesK | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		return drawnDefinition(s, func(rng *rand.Rand) [][]float64 {
			return append(identity(field.Real{}, s.K), orthogonalRows(rng, s.N-s.K, s.K)...)
		}, func(p field.Prime, rng *rand.Rand) [][]uint64 {
			return append(identity(p, s.K), drawnRows(s.N-s.K, func() []uint64 { return randomElements(rng, p, s.K) })...)
		})
	},
	Examples: []Spec{
		{Name: "systematic-gaussian", N: 6, K: 4}, {Name: "systematic-gaussian", N: 8, K: 6, Seed: 7},
		{Name: "systematic-gaussian", N: 12, K: 9}, {Name: "systematic-gaussian", N: 18, K: 15},
	},
}

// drawnDefinition is that of an MDS code whose generator is drawn: over the reals
// the best of several draws, over a prime field one. The field must be so large
// that a matrix is regular but for a chance of about 1 in 2^31.
func drawnDefinition(s Spec, draw func(*rand.Rand) [][]float64, modular func(field.Prime, *rand.Rand) [][]uint64) (Definition, error) {
	if err := s.atLeastK(); err != nil {
		return Definition{}, err
	}
	tasks, err := searchDraw(s.N, s.K, s.K, s.Seed, func(rng *rand.Rand) []Task { return linearTasks(draw(rng), 1) })
	return Definition{
		ABlocks: s.K, BBlocks: 1, Tasks: tasks, Threshold: s.K, MDS: true,
		Modular: func(p field.Prime) ([]ModularTask, error) {
			if p < field.Mersenne31 {
				return nil, fmt.Errorf("modulo %d rows that are drawn are dependent too often", p)
			}
			return linearTasks(modular(p, rand.New(rand.NewPCG(s.Seed, uint64(p)))), 1), nil
		},
	}, err
}

func drawnRows[E any](n int, draw func() []E) [][]E {
	rows := make([][]E, n)
	for w := range rows {
		rows[w] = draw()
	}
	return rows
}

func normalRow(rng *rand.Rand, k int) []float64 {
	row := make([]float64, k)
	for j := range row {
		row[j] = rng.NormFloat64()
	}
	return row
}

// orthogonalRows draws rows of norm 1, each group of k of them orthogonal.
func orthogonalRows(rng *rand.Rand, n, k int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		row := normalRow(rng, k)
		for range 2 { // twice is enough, see Tracker
			for _, q := range rows[i/k*k : i] {
				subtractPart(row, q)
			}
		}
		scaleTo(row, 1)
		rows[i] = row
	}
	return rows
}
