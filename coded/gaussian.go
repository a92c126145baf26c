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
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		d, err := drawnDefinition(s, func(rng *rand.Rand) [][]float64 {
			g := make([][]float64, s.N)
			for w := range g {
				g[w] = normalRow(rng, s.K)
			}
			return g
		})
		if err != nil {
			return Definition{}, err
		}
		d.Threshold, d.MDS = s.K, true
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			g, err := uniformRows(p, s, s.N)
			return linearTasks(g, 1), err
		}
		return d, nil
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
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		d, err := drawnDefinition(s, func(rng *rand.Rand) [][]float64 {
			var g [][]float64
			for j := range s.K {
				g = append(g, unit(s.K, j))
			}
			return append(g, orthogonalRows(rng, s.N-s.K, s.K)...)
		})
		if err != nil {
			return Definition{}, err
		}
		d.Threshold, d.MDS = s.K, true
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			drawn, err := uniformRows(p, s, s.N-s.K)
			if err != nil {
				return nil, err
			}
			rows := make([][]uint64, s.K)
			for j := range rows {
				rows[j] = make([]uint64, s.K)
				rows[j][j] = 1
			}
			return linearTasks(append(rows, drawn...), 1), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "systematic-gaussian", N: 6, K: 4}, {Name: "systematic-gaussian", N: 8, K: 6, Seed: 7},
		{Name: "systematic-gaussian", N: 12, K: 9}, {Name: "systematic-gaussian", N: 18, K: 15},
	},
}

// drawnDefinition is that of the one-sided code whose generator is the best of
// several draws.
func drawnDefinition(s Spec, draw func(*rand.Rand) [][]float64) (Definition, error) {
	tasks, err := searchDraw(s.N, s.K, s.K, s.Seed, func(rng *rand.Rand) []Task { return linearTasks(draw(rng), 1) })
	return Definition{ABlocks: s.K, BBlocks: 1, Tasks: tasks}, err
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

// uniformRows draws rows of a prime field, which must be so large that a square
// matrix of them is regular but for a chance of about 1 in 2^31.
func uniformRows(p field.Prime, s Spec, n int) ([][]uint64, error) {
	if p < field.Mersenne31 {
		return nil, fmt.Errorf("modulo %d rows that are drawn are dependent too often", p)
	}
	rng := rand.New(rand.NewPCG(s.Seed, uint64(p)))
	rows := make([][]uint64, n)
	for w := range rows {
		rows[w] = make([]uint64, s.K)
		for j := range rows[w] {
			rows[w][j] = rng.Uint64N(uint64(p))
		}
	}
	return rows, nil
}
