package coded

import (
	"errors"
	"math"
	"math/rand/v2"
)

// luby is the LT code: every result is the sum of d blocks drawn at random, where
// d follows the robust soliton distribution (Luby 2002, definitions 9 to 11)
//
//	rho(1) = 1/K, rho(d) = 1/(d(d-1));   R = c ln(K/delta) sqrt(K)
//	tau(d) = R/(d K) for d < K/R, R ln(R/delta)/K at d = K/R;   mu = (rho+tau)/sum
//
// with c = 0.03 and delta = 0.5. A worker computes its Load results in order, and
// about K(1+eps) results in all decode, whoever computed them: rateless. There is
// no threshold. eps by peeling alone is about 0.3 at K = 100, 0.1 at 1,000 and
// 0.04 at 10,000; peeling with inactivation (see peel) needs fewer, as many as
// the rank asks for. Coefficients are 0 and 1 and decoding is by additions and
// subtractions, so that rounding hardly grows. Of the matrices that the seed
// gives the first is taken of which all tasks together decode.
//
// Compute and storage of a task are Load/K; N Load / K, often 2, is the redundancy.
var luby = Family{
	Name:  "lt",
	Doc:   "rateless sums of random blocks: slightly more than K results in all decode, from whoever finished them",
	Paper: "M. Luby, LT codes, FOCS 2002; A. Mallick et al., Rateless codes for near-perfect load balancing in distributed matrix-vector multiplication, SIGMETRICS 2020",
	Kind:  Linear,
	Uses:  UsesK | UsesLoad | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		if s.Load > maxEntries/s.N || s.N*s.Load < s.K {
			return Definition{}, errors.New("n times load, the results, must be at least k")
		}
		if err := checkRows(s.N*s.Load, s.K); err != nil {
			return Definition{}, err
		}
		support, err := lubySupport(s)
		if err != nil {
			return Definition{}, err
		}
		d := Definition{ABlocks: s.K, BBlocks: 1}
		d.Tasks = stackedTasks(sumRows(s, support), 1)
		d.Weights = func(have []int) [][]float64 {
			var rows [][]int
			for _, w := range have {
				rows = append(rows, support[w*s.Load:(w+1)*s.Load]...)
			}
			return peel(rows, s.K).weights()
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "lt", N: 6, K: 8, Load: 3}, {Name: "lt", N: 8, K: 24, Load: 6, Seed: 1}, {Name: "lt", N: 10, K: 50, Load: 10},
	},
}

// lubyDraws is the number of matrices tried for one of which all tasks decode.
const lubyDraws = 100

// lubySupport lists the blocks of every result, task after task.
func lubySupport(s Spec) ([][]int, error) {
	for draw := range uint64(lubyDraws) {
		rng := rand.New(rand.NewPCG(s.Seed, draw))
		degrees := robustSoliton(s.K, 0.03, 0.5)
		support := make([][]int, s.N*s.Load)
		for i := range support {
			support[i] = rng.Perm(s.K)[:drawDegree(degrees, rng)]
		}
		if peel(support, s.K).weights() != nil {
			return support, nil
		}
	}
	return nil, errors.New("n times load is too close to k: no draw decodes")
}

// robustSoliton gives the probability of each degree, from 1 on.
func robustSoliton(k int, c, delta float64) []float64 {
	mu := make([]float64, k)
	r := c * math.Log(float64(k)/delta) * math.Sqrt(float64(k))
	spike := min(k, max(1, int(math.Round(float64(k)/r))))
	var sum float64
	for d := 1; d <= k; d++ {
		p := 1 / float64(k)
		if d > 1 {
			p = 1 / float64(d*(d-1))
		}
		switch {
		case d < spike:
			p += r / float64(d*k)
		case d == spike:
			p += r * max(0, math.Log(r/delta)) / float64(k)
		}
		mu[d-1] = p
		sum += p
	}
	for i := range mu {
		mu[i] /= sum
	}
	return mu
}

func drawDegree(degrees []float64, rng *rand.Rand) int {
	u := rng.Float64()
	for i, p := range degrees {
		if u -= p; u < 0 {
			return i + 1
		}
	}
	return 1 // what rounding left of the last
}

// sumRows gives the rows of every task.
func sumRows(s Spec, support [][]int) [][][]float64 {
	tasks := make([][][]float64, s.N)
	for i, blocks := range support {
		row := make([]float64, s.K)
		for _, j := range blocks {
			row[j] = 1
		}
		tasks[i/s.Load] = append(tasks[i/s.Load], row)
	}
	return tasks
}
