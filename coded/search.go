package coded

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/coda-ml/coda/coded/field"
)

// Random coefficients are good for almost all sets of tasks and bad for some: how
// bad differs much between draws, so that a few are tried.
const (
	searchDraws = 48
	searchSets  = 256 // sets of tasks on which draws are compared
	searchWork  = 1e9 // bound of the multiplications; with fewer draws if need be
)

// searchDraw draws the tasks of a code several times, any k of n of which shall
// decode so many products, and returns those whose worst condition number is the
// least. It is a function of its arguments: draw i has a source of its own, and all
// draws are compared on the same sets.
func searchDraw(n, k, products int, seed uint64, draw func(*rand.Rand) []Task) ([]Task, error) {
	sets, err := searchedSets(n, k, rand.New(rand.NewPCG(seed, math.MaxUint64)))
	if err != nil {
		return nil, err
	}
	cube := float64(products) * float64(products) * float64(products)
	draws := max(1, int(min(searchDraws, searchWork/(cube*float64(len(sets))))))
	var best []Task
	least := math.Inf(1)
	for i := range draws {
		tasks := draw(rand.New(rand.NewPCG(seed, uint64(i))))
		if draws == 1 {
			return tasks, nil
		}
		worst, err := worstCondition(tasks, sets, least)
		if err != nil {
			return nil, err
		}
		if best == nil || worst < least {
			best, least = tasks, worst
		}
	}
	return best, nil
}

// searchedSets gives the sets of k of n tasks on which draws are compared.
func searchedSets(n, k int, rng *rand.Rand) (sets [][]int, err error) {
	keep := func(set []int) error {
		sets = append(sets, append([]int(nil), set...))
		return nil
	}
	if atMost(n, k, searchSets) {
		err = eachSubset(n, k, keep)
	} else {
		err = drawSubsets(n, k, searchSets, rng, keep)
	}
	return sets, err
}

// worstCondition gives the worst estimated condition number of the sets, or one
// that is at least enough. Of the rows of a set it takes the first ones, as many as
// are square.
func worstCondition(tasks []Task, sets [][]int, enough float64) (float64, error) {
	rows, first, err := expand(field.Real{}, tasks, len(tasks[0].A[0]), len(tasks[0].B[0]))
	if err != nil {
		return 0, err
	}
	var worst float64
	var lu mat.LU
	size := len(rows[0])
	m := mat.NewDense(size, size, nil)
	for _, set := range sets {
		at := 0
		for _, t := range set {
			for _, row := range rows[first[t]:min(first[t+1], first[t]+size-at)] {
				m.SetRow(at, row)
				at++
			}
		}
		lu.Factorize(m)
		if worst = max(worst, lu.Cond()); worst >= enough {
			break
		}
	}
	return worst, nil
}

// randomDirection draws a vector of length 1, all directions being equally likely.
func randomDirection(rng *rand.Rand, size int) []float64 {
	v := normalRow(rng, size)
	scaleTo(v, 1)
	return v
}

// randomElements draws elements of a prime field.
func randomElements(rng *rand.Rand, p field.Prime, size int) []uint64 {
	v := make([]uint64, size)
	for i := range v {
		v[i] = rng.Uint64N(uint64(p))
	}
	return v
}
