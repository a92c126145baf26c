package coded

import (
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// crossParity is a convolutional code over the blocks of K message workers, each
// of whose parts is cut into Load pieces A_(r,0) .. A_(r,Load-1). Message worker r
// holds its pieces as they are; parity worker i = 0 .. N-K-1 holds the diagonals
//
//	P_(i,t) = sum_r c_ir A_(r, t - i r),   t = 0 .. Load + (K-1) i - 1
//
// of slope i. Any K workers decode: of the message workers that are missing, the
// one with the largest r is alone on the last diagonals of the steepest parity
// at hand, and so on from there. With seed 0 all c_ir are 1, and decoding is
// nothing but additions and subtractions; with another they are drawn, which
// lowers the median condition number of large codes and raises the worst:
//
//	n, K, Load     5,3,3     7,5,4     12,9,9    12,10,5
//	all 1          7.4/3.7   16/5.8    117/21    37/11
//	drawn                    35/5.9    464/15
//
// Parity workers hold
// (Load + (K-1) i) / (K Load) of the operand: next to nothing more than 1/K if Load
// is large.
//
// The blocks are numbered r Load + t: the code has K Load of them.
var crossParity = Family{
	Name:  "cross-parity",
	Doc:   "diagonal sums of the workers' pieces: decoded by additions alone; parity workers hold slightly more",
	Paper: "A. B. Das, A. Ramamoorthy, N. Vaswani, Efficient and robust distributed matrix computations via convolutional coding, IEEE Trans. IT 2021",
	Kind:  Linear,
	Uses:  UsesK | UsesLoad | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		spare := s.N - s.K
		if err := checkRows(s.N*s.Load+spare*(spare-1)/2*(s.K-1), s.K*s.Load); err != nil {
			return Definition{}, err
		}
		d := Definition{ABlocks: s.K * s.Load, BBlocks: 1, Threshold: s.K}
		rng := rand.New(rand.NewPCG(s.Seed, 0))
		d.Tasks = stackedTasks(diagonalRows(s, func() float64 {
			if s.Seed == 0 {
				return 1
			}
			return rng.NormFloat64()
		}, 1), 1)
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			rng := rand.New(rand.NewPCG(s.Seed, uint64(p)))
			return stackedTasks(diagonalRows(s, func() uint64 {
				if s.Seed == 0 {
					return 1
				}
				return 1 + rng.Uint64N(uint64(p)-1)
			}, 1), 1), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "cross-parity", N: 5, K: 3, Load: 3}, {Name: "cross-parity", N: 7, K: 5, Load: 4, Seed: 1},
		{Name: "cross-parity", N: 10, K: 7, Load: 4, Seed: 1}, {Name: "cross-parity", N: 12, K: 10, Load: 5},
	},
}

// diagonalRows gives the rows of every task.
func diagonalRows[E any](s Spec, coefficient func() E, one E) [][][]E {
	blocks := s.K * s.Load
	tasks := make([][][]E, s.N)
	for r := range s.K {
		for t := range s.Load {
			row := make([]E, blocks)
			row[r*s.Load+t] = one
			tasks[r] = append(tasks[r], row)
		}
	}
	for i := range s.N - s.K {
		rows := make([][]E, s.Load+(s.K-1)*i)
		for t := range rows {
			rows[t] = make([]E, blocks)
		}
		for r := range s.K {
			c := coefficient()
			for t := range s.Load {
				rows[t+i*r][r*s.Load+t] = c
			}
		}
		tasks[s.K+i] = rows
	}
	return tasks
}
