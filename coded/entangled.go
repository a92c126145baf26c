package coded

// entangled is the code for a product of matrices cut both ways and along the
// inner dimension: A into m x p blocks, B into p x q. Task w has
//
//	A(x) = sum A_ik x^(k + p i),  B(x) = sum B_kj x^(p-1-k + p m j)
//
// at its point x_w. The power p-1 + p i + p m j of the product has the sum over k
// of A_ik B_kj, which is C_ij, and nothing else: for k other than k' the product
// A_ik B_k'j goes to a power that is not -1 modulo p. The product has degree
// p m q + p - 2, so any p m q + p - 1 results decode (Q. Yu, M. Maddah-Ali,
// S. Avestimehr, IEEE Trans. IT 2020). With p = 1 it is the
// polynomial code, with m = q = 1 the MatDot code.
//
// A task computes 1/(m p q) of the products, gets and stores 1/(m p) of A and
// 1/(p q) of B, and sends back 1/(m q) of C.
//
// Some sets of fewer tasks decode as well: with p = 2 and points symmetric about
// 0, any m p q that are symmetric.
//
// Numerics: the powers of Chebyshev points, see polynomial: for float32 up to
// about 12 tasks, for float64 up to 25, or exactly modulo a prime.
var entangled = Family{
	Name:  "entangled",
	Doc:   "A in m x p blocks, B in p x q: trades the threshold mpq+p-1 against what is sent back; ill-conditioned beyond a dozen tasks",
	Paper: "Q. Yu, M. Maddah-Ali, S. Avestimehr, Straggler mitigation in distributed matrix multiplication, IEEE Trans. IT 2020; S. Dutta et al., A unified coded deep neural network training strategy based on generalized PolyDot codes, ISIT 2018",
	Kind:  Bilinear,
	Uses:  UsesM | UsesP | UsesQ,
	Define: func(s Spec) (Definition, error) {
		k := boundedProduct(s.M, s.P, s.Q) + s.P - 1
		if err := s.checkMatrix(s.M, s.P, s.Q, "m*p*q+p-1", k); err != nil {
			return Definition{}, err
		}
		return entangledDefinition(s.N, s.M, s.P, s.Q), nil
	},
	Examples: []Spec{
		{Name: "entangled", N: 8, M: 1, P: 2, Q: 3}, {Name: "entangled", N: 8, M: 2, P: 1, Q: 3}, {Name: "entangled", N: 7, M: 1, P: 3, Q: 1},
		{Name: "entangled", N: 11, M: 2, P: 2, Q: 2}, {Name: "entangled", N: 18, M: 2, P: 2, Q: 3},
	},
}

func entangledDefinition(n, m, p, q int) Definition {
	d := evaluated{
		a: [][]int{indices(m, p, func(i, k int) int { return k + p*i })},
		b: [][]int{indices(p, q, func(k, j int) int { return p - 1 - k + p*m*j })},
	}.define(n)
	d.Outputs = matrixOutputs(m, p, q)
	d.Threshold, d.MDS = p*m*q+p-1, p == 1
	return d
}
