package coded

import (
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// lowWeight is for sparse operands, whose coded blocks are as dense as the number
// of blocks that they combine: each combines only
//
//	omega = ceil(k (n-k+1) / n)
//
// neighbouring blocks with random coefficients, the least that can bear n-k lost
// workers, since each block must be held by n-k+1. Worker i < k combines the
// blocks i .. i+omega-1 and worker i >= k the blocks i omega .. (i+1) omega - 1,
// modulo k. That any k workers can be matched to blocks of their own, so that any
// k rows are independent with probability 1, is tested exhaustively up to n = 7.
// Compute and upload of a sparse block go down from k to omega times a block's
// density.
var lowWeight = Family{
	Name:  "low-weight",
	Doc:   "random combinations of as few neighbouring blocks as possible: keeps sparse operands sparse",
	Paper: "A. B. Das, A. Ramamoorthy, D. J. Love, C. G. Brinton, Distributed matrix computations with low-weight encodings, IEEE JSAIT 2023",
	Kind:  Linear,
	Uses:  UsesK | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		return drawnDefinition(s, func(rng *rand.Rand) [][]float64 {
			g := lowWeightRows(s, rng.NormFloat64)
			for _, row := range g {
				scaleTo(row, 1)
			}
			return g
		}, func(p field.Prime, rng *rand.Rand) [][]uint64 {
			return lowWeightRows(s, func() uint64 { return rng.Uint64N(uint64(p)) })
		})
	},
	Examples: []Spec{
		{Name: "low-weight", N: 6, K: 4}, {Name: "low-weight", N: 8, K: 6}, {Name: "low-weight", N: 12, K: 9}, {Name: "low-weight", N: 24, K: 20},
	},
}

// lowWeightRows draws the coefficients of the blocks that each worker combines.
func lowWeightRows[E any](s Spec, draw func() E) [][]E {
	g := make([][]E, s.N)
	for w := range g {
		g[w] = make([]E, s.K)
		for _, j := range lowWeightSupport(s, w) {
			g[w][j] = draw()
		}
	}
	return g
}

// lowWeightSupport lists the blocks that a worker combines.
func lowWeightSupport(s Spec, worker int) []int {
	weight := (s.K*(s.N-s.K+1) + s.N - 1) / s.N
	first := worker
	if worker >= s.K {
		first = worker * weight
	}
	blocks := make([]int, weight)
	for i := range blocks {
		blocks[i] = (first + i) % s.K
	}
	return blocks
}
