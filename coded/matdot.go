package coded

// matdot is the code for A cut into p column blocks and B into p row blocks, so
// that C is the sum of the products A_k B_k. Task w has
//
//	A(x) = sum_k A_k x^k,  B(x) = sum_k B_k x^(p-1-k)
//
// at its point x_w: C is the coefficient of x^(p-1), and the degree is 2p-2. Any
// 2p-1 results decode (S. Dutta, M. Fahim, F. Haddadpour, H. Jeong, V. Cadambe,
// P. Grover, IEEE Trans. IT 2020), of tasks that hold 1/p of each
// operand: the polynomial code with m = q = p needs p^2.
//
// A task computes 1/p of the products but sends all of C back: with slow links
// it loses what it gains.
//
// Numerics: the powers of Chebyshev points, as for polynomial with k = 2p-1;
// ortho-matdot is the same code in a better basis.
var matdot = Family{
	Name:  "matdot",
	Doc:   "inner dimension in p blocks: any 2p-1 decode the sum of the products; each result is as large as C",
	Paper: "S. Dutta, M. Fahim, F. Haddadpour, H. Jeong, V. Cadambe, P. Grover, On the optimal recovery threshold of coded matrix multiplication, IEEE Trans. IT 2020",
	Kind:  Bilinear,
	Uses:  UsesP,
	Define: func(s Spec) (Definition, error) {
		if err := s.checkMatrix(1, s.P, 1, "2p-1", 2*s.P-1); err != nil {
			return Definition{}, err
		}
		return entangledDefinition(s.N, 1, s.P, 1), nil
	},
	Examples: []Spec{
		{Name: "matdot", N: 5, P: 2}, {Name: "matdot", N: 7, P: 3}, {Name: "matdot", N: 8, P: 4}, {Name: "matdot", N: 18, P: 8},
	},
}

// systematicMatdot is matdot in the Lagrange basis of the points x_0 .. x_(p-1) of
// the first p tasks:
//
//	A(x) = sum_k A_k L_k(x),  B(x) = sum_k B_k L_k(x)
//
// so that task k < p has A_k and B_k themselves: if these p answer, C is the sum
// of what they sent. Otherwise any 2p-1 results give the polynomial A(x) B(x), of
// degree 2p-2, whose values at the p points sum to C (the paper of matdot,
// section on systematic codes).
//
// The loads are those of matdot. Numerics: the points of the first p tasks are
// spread over all. Worst condition number and median, of 200 sets of 2p-1 tasks:
//
//	n, p    11,4      18,8        24,10
//	        2e3/4.0   1.1e4/4.3   5.8e4/9.9
var systematicMatdot = Family{
	Name:  "systematic-matdot",
	Doc:   "matdot whose first p tasks hold the blocks themselves: if they answer, C is the sum of their results",
	Paper: "S. Dutta, M. Fahim, F. Haddadpour, H. Jeong, V. Cadambe, P. Grover, On the optimal recovery threshold of coded matrix multiplication, IEEE Trans. IT 2020",
	Kind:  Bilinear,
	Uses:  UsesP,
	Define: func(s Spec) (Definition, error) {
		if err := s.checkMatrix(1, s.P, 1, "2p-1", 2*s.P-1); err != nil {
			return Definition{}, err
		}
		own := [][]int{indices(1, s.P, func(_, k int) int { return k })}
		d := evaluated{basis: lagrangeBasis, nodes: s.P, a: own, b: own}.define(s.N)
		d.Outputs = matrixOutputs(1, s.P, 1)
		d.Threshold, d.MDS = 2*s.P-1, s.P == 1
		d.Weights = directWeights(make([]int, s.P), 1)
		return d, nil
	},
	Examples: []Spec{
		{Name: "systematic-matdot", N: 5, P: 2}, {Name: "systematic-matdot", N: 7, P: 3}, {Name: "systematic-matdot", N: 8, P: 4},
		{Name: "systematic-matdot", N: 18, P: 8},
	},
}
