package coded

// polynomial is the code for A cut into m row blocks and B into q column blocks.
// Task w has
//
//	A(x) = sum_i A_i x^i,  B(x) = sum_j B_j x^(m j)
//
// at its point x_w: C_ij = A_i B_j is the coefficient of x^(i + m j), all of which
// are different and fill the degrees below m q. Any m q results decode and no
// fewer do: that is the least for tasks that hold 1/m of A and 1/q of B (Q. Yu,
// M. Maddah-Ali, S. Avestimehr, NIPS 2017, Theorem 1).
//
// A task computes 1/(m q) of the products and sends back 1/(m q) of C.
//
// Numerics: M_S is a Vandermonde matrix, at Chebyshev points. Its worst condition
// number over all sets of k = m q tasks, and the median:
//
//	n, k    11,8        18,15         24,20         31,28
//	        4.4e3/690   1.7e6/3.4e5   4.0e8/3.7e7   1.4e11/3.3e10
//
// (at the points 1 .. n the worst would be 4e11, 1e23, 5e30, 3e44). So float32 bears a dozen tasks; beyond that
// the codes ortho-polynomial, random-khatri-rao or rotation do the same job, and
// over a prime field this one is exact.
var polynomial = Family{
	Name:  "polynomial",
	Doc:   "A in m row blocks, B in q column blocks: any mq of n decode, the least there is; exact over a prime field, in floats for a dozen tasks",
	Paper: "Q. Yu, M. Maddah-Ali, S. Avestimehr, Polynomial codes: an optimal design for high-dimensional coded matrix multiplication, NIPS 2017",
	Kind:  Bilinear,
	Uses:  UsesM | UsesQ,
	Define: func(s Spec) (Definition, error) {
		if err := s.checkMatrix(s.M, 1, s.Q, "m*q", boundedProduct(s.M, s.Q)); err != nil {
			return Definition{}, err
		}
		return entangledDefinition(s.N, s.M, 1, s.Q), nil
	},
	Examples: []Spec{
		{Name: "polynomial", N: 6, M: 2, Q: 2}, {Name: "polynomial", N: 8, M: 3, Q: 2}, {Name: "polynomial", N: 11, M: 4, Q: 2},
		{Name: "polynomial", N: 18, M: 5, Q: 3},
	},
}
