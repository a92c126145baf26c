package coded

import (
	"errors"

	"github.com/coda-ml/coda/coded/field"
)

// systematicTrigonometric is the trigonometric code in another basis: G inv(G_S)
// for k rows S that are spread evenly round the circle. Tasks 0 .. k-1 are those
// of S and hold the blocks themselves; when they answer there is nothing to
// decode. The sets that decode are those of the trigonometric code, but the
// frame is no longer tight: the worst condition number is 2 to 4 times larger.
// Worst/median:
//
//	n, k    6,4      8,6     10,8    12,9    18,15   31,28
//	        8.1/4.0  14/5.5  23/7.7  73/11   252/18  1.4e3/40
var systematicTrigonometric = Family{
	Name:  "systematic-trigonometric",
	Doc:   "the trigonometric code with k workers that hold the blocks as they are: nothing to decode if those answer",
	Paper: "as trigonometric; systematic forms of MDS codes: F. J. MacWilliams, N. J. A. Sloane, The Theory of Error-Correcting Codes, 1977, chapter 11",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		g, err := systematicForm(field.Real{}, spreadFirst(trigonometricFrame(s.N, s.K)))
		if err != nil {
			return Definition{}, err
		}
		d := fromGenerator(g)
		d.Threshold, d.MDS = s.K, true
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			c, err := newModularCircle(p, s.N)
			if err != nil {
				return nil, err
			}
			g, err := systematicForm(p, spreadFirst(trigonometricRows(c, s.N, s.K)))
			if err != nil {
				return nil, err
			}
			return linearTasks(g, 1), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "systematic-trigonometric", N: 6, K: 4}, {Name: "systematic-trigonometric", N: 7, K: 3},
		{Name: "systematic-trigonometric", N: 12, K: 9}, {Name: "systematic-trigonometric", N: 18, K: 15},
	},
}

// spreadFirst puts k rows that are spread evenly over all n in front.
func spreadFirst[E any](g [][]E) [][]E {
	n, k := len(g), len(g[0])
	first, rest := make([][]E, 0, n), make([][]E, 0, n)
	for w, row := range g {
		// Row w is one of those if a multiple of n/k lies in (w-1, w].
		if len(first)*n <= w*k && len(first) < k {
			first = append(first, row)
		} else {
			rest = append(rest, row)
		}
	}
	return append(first, rest...)
}

// systematicForm returns G inv(G_1), where G_1 is the first k rows of G, by
// elimination of the columns (Gauss-Jordan, the largest pivot of a row first).
// The first k rows of the result are exactly the identity.
func systematicForm[E comparable](f field.Field[E], g [][]E) ([][]E, error) {
	k := len(g[0])
	out := make([][]E, len(g))
	for i, row := range g {
		out[i] = append([]E(nil), row...)
	}
	done := make([]bool, k)
	column := make([]int, k) // that row i has its 1 in
	for i := range k {
		pivot := pivotOf(f, out[i], done)
		if pivot < 0 {
			return nil, errors.New("the rows to be the identity are not independent")
		}
		done[pivot], column[i] = true, pivot
		inv := f.Inv(out[i][pivot])
		for _, row := range out {
			row[pivot] = f.Mul(row[pivot], inv)
		}
		for j := range k {
			if j == pivot {
				continue
			}
			c := out[i][j]
			for _, row := range out {
				row[j] = f.Sub(row[j], f.Mul(c, row[pivot]))
			}
		}
	}
	for i, row := range out {
		sorted := make([]E, k)
		for j, at := range column {
			switch {
			case i >= k:
				sorted[j] = row[at]
			case i == j:
				sorted[j] = f.Int(1)
			default:
				sorted[j] = f.Int(0)
			}
		}
		out[i] = sorted
	}
	return out, nil
}

// pivotOf returns the column of the entry to divide by, -1 if there is none: of
// reals the largest, of a prime field any that is not 0.
func pivotOf[E comparable](f field.Field[E], row []E, done []bool) int {
	best, size := -1, 1e-12
	for j, v := range row {
		if done[j] || v == f.Int(0) {
			continue
		}
		x, real := any(v).(float64)
		if !real {
			return j
		}
		if x = max(x, -x); x > size {
			best, size = j, x
		}
	}
	return best
}
