package coded

import (
	"fmt"

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

// systematicForm returns G inv(G_1), where G_1 is the first k rows of G. The first
// k rows of the result are exactly the identity.
func systematicForm[E any](f field.Pivoting[E], g [][]E) ([][]E, error) {
	k := len(g[0])
	x, err := field.Solve(f, columnsOf(g[:k], k), columnsOf(g[k:], k)) // G_1^T X^T = G_2^T
	if err != nil {
		return nil, fmt.Errorf("the rows to be the identity: %w", err)
	}
	return append(identity(f, k), columnsOf(x, len(g)-k)...), nil
}

func identity[E any](f field.Field[E], k int) [][]E {
	rows := make([][]E, k)
	for i := range rows {
		rows[i] = zeros(f, k)
		rows[i][i] = f.Int(1)
	}
	return rows
}

func zeros[E any](f field.Field[E], n int) []E {
	row := make([]E, n)
	for i := range row {
		row[i] = f.Int(0)
	}
	return row
}

// columnsOf is the transpose of a matrix of so many columns.
func columnsOf[E any](rows [][]E, count int) [][]E {
	columns := make([][]E, count)
	for _, row := range rows {
		for j, v := range row {
			columns[j] = append(columns[j], v)
		}
	}
	return columns
}
