package coded

import (
	"fmt"
)

// lagrange computes Batch independent products A_i B_i at once. The blocks are the
// values at points b_i of two polynomials of degree Batch-1, and task w gets
// their values at a_w:
//
//	u(z) = sum_i A_i l_i(z),   v(z) = sum_i B_i l_i(z),   l_i(z) = prod over j != i of (z-b_j)/(b_i-b_j)
//
// Its product u(a_w) v(a_w) is a value of a polynomial of degree 2 Batch - 2 that
// has the wanted products as its values at b_i, so any
//
//	2 Batch - 1
//
// tasks decode. The same encoding serves any polynomial f of the blocks, of
// degree d, from (Batch-1) d + 1 tasks. The a_w are Chebyshev points and the b_i
// every so many of them, so that Batch of the tasks are the wanted products
// themselves, the first ones, and the coefficients are small. Compute of
// a task is 1/Batch of the products; upload and storage are one block of each
// side. Worst/median condition number:
//
//	n, Batch   8,3       12,4         18,8
//	           219/5.4   1.5e4/12     3.1e4/18
var lagrange = Family{
	Name:  "lagrange",
	Doc:   "many products A_i B_i at once from values of polynomials: any 2 batch - 1 tasks decode",
	Paper: "Q. Yu, S. Li, N. Raviv, S. M. M. Kalan, M. Soltanolkotabi, S. Avestimehr, Lagrange coded computing, AISTATS 2019, theorem 1",
	Kind:  Batch,
	Uses:  UsesBatch,
	Define: func(s Spec) (Definition, error) {
		d := batchDefinition(s.Batch)
		d.Threshold, d.MDS = 2*s.Batch-1, s.Batch == 1
		if s.N < d.Threshold {
			return d, fmt.Errorf("n must be at least 2 batch - 1 = %d", d.Threshold)
		}
		blocks := make([]int, s.Batch)
		for i := range blocks {
			blocks[i] = i
		}
		e := evaluated{basis: lagrangeBasis, a: [][]int{blocks}, b: [][]int{blocks}, nodes: s.Batch}.define(s.N)
		d.Tasks, d.Modular = e.Tasks, e.Modular
		return d, nil
	},
	Examples: []Spec{
		{Name: "lagrange", N: 5, Batch: 2}, {Name: "lagrange", N: 8, Batch: 3}, {Name: "lagrange", N: 12, Batch: 4}, {Name: "lagrange", N: 18, Batch: 8},
	},
}

// batchDefinition wants the products A_i B_i.
func batchDefinition(batch int) Definition {
	d := Definition{ABlocks: batch, BBlocks: batch}
	for i := range batch {
		d.Outputs = append(d.Outputs, Output{{i, i}})
	}
	return d
}

// sameRows makes tasks whose two sides have the same coefficients.
func sameRows[E any](rows [][]E) []Coefficients[E] {
	tasks := make([]Coefficients[E], len(rows))
	for w, row := range rows {
		tasks[w] = Coefficients[E]{A: [][]E{row}, B: [][]E{row}}
	}
	return tasks
}
