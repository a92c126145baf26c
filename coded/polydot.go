package coded

// polydot is the code for A cut into m x p blocks and B into p x q:
//
//	A(x) = sum A_ik x^(i + m k),  B(x) = sum B_kj x^(m (p-1-k) + m (2p-1) j)
//
// The product A_ik B_k'j goes to the power i + m (p-1+k-k') + m (2p-1) j: another
// one for every i, every difference k-k' and every j. C_ij, the sum over k = k',
// is the coefficient of x^(i + m (p-1) + m (2p-1) j); the degree is m q (2p-1) - 1,
// so any m q (2p-1) results decode (S. Dutta et al., IEEE Trans. IT 2020, section
// on PolyDot codes, for m = q).
//
// The loads are those of entangled, whose threshold m p q + p - 1 is never larger;
// polydot is what a polynomial code (p = 1) becomes when the inner dimension is
// cut later on. Numerics: as polynomial with k = m q (2p-1).
var polydot = Family{
	Name:  "polydot",
	Doc:   "A in m x p blocks, B in p x q, each product of blocks at a power of its own: any mq(2p-1) decode; entangled needs fewer",
	Paper: "S. Dutta, M. Fahim, F. Haddadpour, H. Jeong, V. Cadambe, P. Grover, On the optimal recovery threshold of coded matrix multiplication, IEEE Trans. IT 2020",
	Kind:  Bilinear,
	Uses:  UsesM | UsesP | UsesQ,
	Define: func(s Spec) (Definition, error) {
		m, p, q := s.M, s.P, s.Q
		k := boundedProduct(m, q, 2*p-1)
		if err := s.checkMatrix(m, p, q, "m*q*(2p-1)", k); err != nil {
			return Definition{}, err
		}
		d := evaluated{
			a: [][]int{indices(m, p, func(i, k int) int { return i + m*k })},
			b: [][]int{indices(p, q, func(k, j int) int { return m*(p-1-k) + m*(2*p-1)*j })},
		}.define(s.N)
		d.Outputs = matrixOutputs(m, p, q)
		d.Threshold, d.MDS = k, p == 1
		return d, nil
	},
	Examples: []Spec{
		{Name: "polydot", N: 8, M: 2, P: 2, Q: 1}, {Name: "polydot", N: 6, M: 2, P: 1, Q: 2}, {Name: "polydot", N: 14, M: 2, P: 2, Q: 2},
		{Name: "polydot", N: 18, M: 1, P: 3, Q: 3},
	},
}
