package coded

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
)

// cauchy is the MDS code with
//
//	G_wj = 1 / (x_w - y_j)
//
// for n + k different numbers. Every square submatrix of a Cauchy matrix is
// regular, so any k rows are independent, whatever the numbers. Here they are the
// n+k Chebyshev points, the y_j spread evenly among them, and the rows and then
// the columns are divided by their norms, which changes neither. Its virtue is
// the formula, which holds over every field with n+k elements; over the reals the
// trigonometric code is far better conditioned. Worst/median:
//
//	n, k    6,4     8,6      12,9       18,15
//	        75/4.1  123/5.3  5.3e3/12   1.0e5/29
var cauchy = Family{
	Name:  "cauchy",
	Doc:   "1/(x-y): every square part is regular, over any field; over the reals a baseline",
	Paper: "J. Bloemer et al., An XOR-based erasure-resilient coding scheme, ICSI TR-95-048, 1995",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		y, x := spreadNodes(chebyshevPoints(s.N+s.K), s.K)
		g := cauchyRows(field.Real{}, x, y)
		for _, row := range g {
			scaleTo(row, 1)
		}
		normaliseColumns(g)
		d := fromGenerator(g)
		d.Threshold, d.MDS = s.K, true
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			if uint64(s.N+s.K) > uint64(p) {
				return nil, fmt.Errorf("there are no %d numbers modulo %d", s.N+s.K, p)
			}
			nodes := make([]uint64, s.N+s.K)
			for i := range nodes {
				nodes[i] = p.Int(int64(i))
			}
			return linearTasks(cauchyRows(p, nodes[s.K:], nodes[:s.K]), 1), nil
		}
		return d, nil
	},
	Examples: []Spec{{Name: "cauchy", N: 6, K: 4}, {Name: "cauchy", N: 7, K: 5}, {Name: "cauchy", N: 12, K: 9}, {Name: "cauchy", N: 18, K: 15}},
}

func cauchyRows[E any](f field.Field[E], x, y []E) [][]E {
	g := make([][]E, len(x))
	for w := range g {
		for j := range y {
			g[w] = append(g[w], f.Inv(f.Sub(x[w], y[j])))
		}
	}
	return g
}

// spreadNodes takes k elements out of a list, spread evenly over it.
func spreadNodes[E any](all []E, k int) (taken, rest []E) {
	for i, v := range all {
		if (2*len(taken)+1)*len(all) <= (2*i+1)*k && len(taken) < k {
			taken = append(taken, v)
		} else {
			rest = append(rest, v)
		}
	}
	return taken, rest
}

// scaleTo gives a row that is not zero another norm.
func scaleTo(row []float64, size float64) {
	factor := size / norm(row)
	for j := range row {
		row[j] *= factor
	}
}

// normaliseColumns divides the columns by their norms.
func normaliseColumns(g [][]float64) {
	for j := range g[0] {
		var sum float64
		for _, row := range g {
			sum += row[j] * row[j]
		}
		for _, row := range g {
			row[j] /= math.Sqrt(sum)
		}
	}
}
