package coded

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// product codes the rows of A and the columns of B each by itself. The tasks form a
// grid of g rows, the number of groups, and n/g columns: A, cut into m row blocks,
// has an MDS code of g coded blocks, B, cut into q column blocks, one of n/g, and
// task r (n/g) + c computes coded block r of A times coded block c of B. Here both
// are trigonometric codes.
//
// The results are a product code, so that a row of the grid with q results gives
// all of the row and a column with m all of the column, and decoding may go on
// from there. It is of the least distance (g-m+1)(n/g-q+1): any fewer tasks may be
// missing and no more, so that the threshold is
//
//	n - (g-m+1)(n/g-q+1) + 1
//
// though most sets of little more than m q tasks decode (K. Lee, C. Suh,
// K. Ramchandran, ISIT 2017).
//
// The loads are those of polynomial. Numerics: the short codes are well-conditioned;
// of drawn sets of threshold tasks the worst had 2.8 in a grid of 4 x 5 tasks with
// m = 3 and q = 4, and 5.4 in one of 6 x 6 with m = q = 4.
var product = Family{
	Name:  "product",
	Doc:   "a grid of tasks, rows of A coded by columns of B: little more than mq of them decode as a rule; short codes, well-conditioned",
	Paper: "K. Lee, C. Suh, K. Ramchandran, High-dimensional coded matrix multiplication, ISIT 2017",
	Kind:  Bilinear,
	Uses:  UsesM | UsesQ | UsesGroups,
	Define: func(s Spec) (Definition, error) {
		if s.N%s.Groups != 0 {
			return Definition{}, errors.New("n must be a multiple of groups, the rows of the grid")
		}
		rows, cols := s.Groups, s.N/s.Groups
		if s.M > rows || s.Q > cols {
			return Definition{}, fmt.Errorf("the grid of %d x %d tasks must have at least m rows and q columns", rows, cols)
		}
		d := Definition{
			ABlocks: s.M, BBlocks: s.Q,
			Threshold: s.N - (rows-s.M+1)*(cols-s.Q+1) + 1,
			Tasks:     productTasks(trigonometricFrame(rows, s.M), trigonometricFrame(cols, s.Q)),
		}
		d.MDS = s.M == rows && s.Q == cols || s.M == 1 && rows == 1 || s.Q == 1 && cols == 1
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			c, err := newModularCircle(p, max(rows, cols))
			if err != nil {
				return nil, err
			}
			return productTasks(trigonometricRows(c, rows, s.M), trigonometricRows(c, cols, s.Q)), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "product", N: 6, M: 2, Q: 1, Groups: 3}, {Name: "product", N: 8, M: 1, Q: 3, Groups: 2}, {Name: "product", N: 9, M: 2, Q: 2, Groups: 3},
		{Name: "product", N: 20, M: 3, Q: 4, Groups: 4},
	},
}

// productTasks makes a task of each row of a generator with each of another.
func productTasks[E any](a, b [][]E) []Coefficients[E] {
	var tasks []Coefficients[E]
	for _, u := range a {
		for _, v := range b {
			tasks = append(tasks, Coefficients[E]{A: [][]E{u}, B: [][]E{v}})
		}
	}
	return tasks
}
