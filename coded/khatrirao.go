package coded

import (
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// khatriRao is the random Khatri-Rao product code: A in m row blocks, B in q
// column blocks, and task w has
//
//	sum_i u_wi A_i,  sum_j v_wj B_j
//
// with u_w and v_w random directions, so that its row of M is their Kronecker
// product. The determinant of any m q rows is a polynomial of the coefficients that
// is not zero, so any m q results decode with probability 1, and no fewer do (A. M.
// Subramaniam, A. Heidarzadeh, K. R. Narayanan, Allerton 2019).
//
// The loads are those of polynomial. The coefficients are drawn by the seed: of 48
// draws (fewer beyond k = 75) those whose worst condition number of 48 sets of
// m q tasks is the least.
//
// Numerics: worst condition number over all sets of k = m q tasks, and the median,
// with seed 1:
//
//	n, k        11,8      18,15      24,20      31,28
//	            750/21    1.4e4/42   3.0e5/59   2.6e5/120
//	one draw    1.9e4/77  2.8e5/205  1.7e5/94   8.7e5/167
//
// The worst sets are rare: of 400 drawn sets the worst had 7.6e3 at (24,20) and
// 8.5e4 at (64,60).
var khatriRao = Family{
	Name:   "random-khatri-rao",
	Doc:    "random coefficients, the best of many draws: any mq of n decode; for many tasks, where n-mq is large",
	Paper:  "A. M. Subramaniam, A. Heidarzadeh, K. R. Narayanan, Random Khatri-Rao-product codes for numerically-stable distributed matrix multiplication, Allerton 2019",
	Kind:   Bilinear,
	Uses:   UsesM | UsesQ | UsesSeed,
	Define: func(s Spec) (Definition, error) { return s.khatriRao(0) },
	Examples: []Spec{
		{Name: "random-khatri-rao", N: 6, M: 2, Q: 2, Seed: 1}, {Name: "random-khatri-rao", N: 8, M: 3, Q: 2, Seed: 1},
		{Name: "random-khatri-rao", N: 18, M: 5, Q: 3, Seed: 1}, {Name: "random-khatri-rao", N: 24, M: 5, Q: 4, Seed: 1},
	},
}

// systematicKhatriRao is khatriRao whose first m q tasks hold the blocks: task
// i q + j has A_i and B_j. If they answer there is nothing to decode; the others
// are random, and any m q results decode with probability 1 (in the same paper).
//
// Numerics: as above,
//
//	n, k    11,8     18,15      24,20      31,28
//	        170/10   8.4e3/25   2.6e5/27   1.7e5/32
//
// and of 400 drawn sets the worst had 6.8e3 at (24,20), 1.9e4 at (64,60).
var systematicKhatriRao = Family{
	Name:   "systematic-khatri-rao",
	Doc:    "random-khatri-rao whose first mq tasks hold the blocks themselves: nothing to decode if they answer; the one to use first",
	Paper:  "A. M. Subramaniam, A. Heidarzadeh, K. R. Narayanan, Random Khatri-Rao-product codes for numerically-stable distributed matrix multiplication, Allerton 2019",
	Kind:   Bilinear,
	Uses:   UsesM | UsesQ | UsesSeed,
	Define: func(s Spec) (Definition, error) { return s.khatriRao(boundedProduct(s.M, s.Q)) },
	Examples: []Spec{
		{Name: "systematic-khatri-rao", N: 6, M: 2, Q: 2, Seed: 1}, {Name: "systematic-khatri-rao", N: 8, M: 3, Q: 2, Seed: 1},
		{Name: "systematic-khatri-rao", N: 18, M: 5, Q: 3, Seed: 1}, {Name: "systematic-khatri-rao", N: 24, M: 5, Q: 4, Seed: 1},
	},
}

// khatriRao defines the code whose first tasks are systematic, so many.
func (s Spec) khatriRao(systematic int) (Definition, error) {
	k := boundedProduct(s.M, s.Q)
	if err := s.checkMatrix(s.M, 1, s.Q, "m*q", k); err != nil {
		return Definition{}, err
	}
	tasks, err := searchDraw(s.N, k, k, s.Seed, func(rng *rand.Rand) []Task {
		return khatriRaoTasks(field.Real{}, s, systematic, func(size int) []float64 { return randomDirection(rng, size) })
	})
	if err != nil {
		return Definition{}, err
	}
	d := Definition{ABlocks: s.M, BBlocks: s.Q, Tasks: tasks, Threshold: k, MDS: true}
	d.Modular = func(p field.Prime) ([]ModularTask, error) {
		rng := rand.New(rand.NewPCG(s.Seed, uint64(p)))
		return khatriRaoTasks(p, s, systematic, func(size int) []uint64 { return randomElements(rng, p, size) }), nil
	}
	if systematic > 0 {
		d.Weights = directWeights(indices(1, k, func(_, i int) int { return i }), k)
	}
	return d, nil
}

// khatriRaoTasks gives the tasks, with vectors from random.
func khatriRaoTasks[E any](f field.Field[E], s Spec, systematic int, random func(size int) []E) []Coefficients[E] {
	tasks := make([]Coefficients[E], s.N)
	for w := range tasks {
		u, v := random(s.M), random(s.Q)
		if w < systematic {
			u, v = unitOf(f, s.M, w/s.Q), unitOf(f, s.Q, w%s.Q)
		}
		tasks[w] = Coefficients[E]{A: [][]E{u}, B: [][]E{v}}
	}
	return tasks
}

// unitOf is row i of the identity of size k.
func unitOf[E any](f field.Field[E], k, i int) []E {
	row := make([]E, k)
	for j := range row {
		row[j] = f.Int(0)
	}
	row[i] = f.Int(1)
	return row
}

// directWeights are the weights of a systematic code, for sets that have all its
// first tasks: the result of task t < len(output) is added to output[t]. To other
// sets they leave least squares. The copies are not improved on by averaging with
// results that were coded, which costs a pass over each.
func directWeights(output []int, outputs int) func(have []int) [][]float64 {
	return func(have []int) [][]float64 {
		if first := len(output); len(have) < first || have[first-1] != first-1 {
			return nil
		}
		rows := make([][]float64, outputs)
		for c := range rows {
			rows[c] = make([]float64, len(have))
		}
		for t, c := range output {
			rows[c][t] = 1
		}
		return rows
	}
}
