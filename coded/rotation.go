package coded

import (
	"errors"

	"github.com/coda-ml/coda/coded/field"
)

// rotation is the polynomial code at complex roots of unity, embedded in the reals:
// in place of the power z^e of the root z = exp(i theta), theta = 2 pi w / n, there
// is the rotation R^e by the angle e theta. A is cut into m row blocks, in pairs
// A_i0, A_i1 with i < m/2, and B into q column blocks, in pairs B_j0, B_j1, j < q/2;
// m and q are even. Task w has two coded blocks on either side
//
//	A_l = sum_i sum_a R^(w i)[a,l] A_ia,  B_l = sum_j sum_b R^(w (m/2) j)[b,l] B_jb
//
// with l = 0, 1, and computes all four products. Both factors are combinations of
// z^e and z^-e, so the four rows are, up to a change of basis that is orthogonal,
// the rows z^(i + (m/2) j) and z^(i - (m/2) j) and their conjugates: Vandermonde
// rows of m q / 4 successive powers. Any m q / 4 tasks decode and no fewer do
// (A. Ramamoorthy, L. Tang, IEEE Trans. IT 2021, for the order q of the root
// that is odd and at least n; here it is n, even or odd).
//
// A task computes 4/(m q) of the products, gets and stores 2/m of A and 2/q of B,
// and sends 4/(m q) of C back, in four blocks.
//
// Numerics: the condition number of a set is that of the same set of a
// trigonometric code with k = m q / 4; the worst and the median:
//
//	n, k    11,8     18,15     24,20    31,28    64,60
//	        29/6.6   103/9.1   886/16   404/13   2.8e4/34 (of 400 sets)
//
// With the next odd q above an even n the worst would be four to ten times that.
var rotation = Family{
	Name:  "rotation",
	Doc:   "polynomial code on the unit circle, in pairs of real blocks: any mq/4 of n decode, the best-conditioned while n-mq/4 is small",
	Paper: "A. Ramamoorthy, L. Tang, Numerically stable coded matrix computations via circulant and rotation matrix embeddings, IEEE Trans. IT 2021",
	Kind:  Bilinear,
	Uses:  UsesM | UsesQ,
	Define: func(s Spec) (Definition, error) {
		if s.M%2 != 0 || s.Q%2 != 0 {
			return Definition{}, errors.New("m and q must be even")
		}
		k := boundedProduct(s.M/2, s.Q/2)
		if err := s.checkMatrix(2*s.M, 1, 2*s.Q, "m*q/4", k); err != nil {
			return Definition{}, err
		}
		d := Definition{
			ABlocks: s.M, BBlocks: s.Q, Threshold: k, MDS: true,
			Tasks: rotationTasks(field.Real{}, realCircle{s.N}, s),
		}
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			c, err := newModularCircle(p, s.N)
			if err != nil {
				return nil, err
			}
			return rotationTasks(p, c, s), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "rotation", N: 6, M: 4, Q: 4}, {Name: "rotation", N: 8, M: 4, Q: 4}, {Name: "rotation", N: 5, M: 2, Q: 6},
		{Name: "rotation", N: 18, M: 6, Q: 4},
	},
}

func rotationTasks[E any](f field.Field[E], c circle[E], s Spec) []Coefficients[E] {
	tasks := make([]Coefficients[E], s.N)
	for w := range tasks {
		tasks[w] = Coefficients[E]{A: rotated(f, c, w, s.M/2, 1), B: rotated(f, c, w, s.Q/2, s.M/2)}
	}
	return tasks
}

// rotated gives the two coded blocks of pairs of blocks, pair i being turned by
// the angle of task w times i times step.
func rotated[E any](f field.Field[E], c circle[E], w, pairs, step int) [][]E {
	rows := [][]E{make([]E, 2*pairs), make([]E, 2*pairs)}
	for i := range pairs {
		cos, sin := c.point(w, 2*step*i) // in half angles
		rows[0][2*i], rows[0][2*i+1] = cos, sin
		rows[1][2*i], rows[1][2*i+1] = f.Sub(f.Int(0), sin), cos
	}
	return rows
}
