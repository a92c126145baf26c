package coded

// orthoPolynomial is the polynomial code in the Chebyshev basis: A is cut into m
// row blocks, B into q column blocks, and task w has
//
//	A(x) = sum_i A_i T_i(x),  B(x) = sum_j B_j T_(m j)(x)
//
// at its point x_w = cos((2w+1) pi / 2n). Since T_i T_j = (T_(i+j) + T_|i-j|) / 2,
// A(x) B(x) has degree m q - 1 and is a combination of the T_i T_(m j), a basis of
// the polynomials of that degree: any m q results decode and no fewer do
// (M. Fahim, V. Cadambe, IEEE Trans. IT 2021).
//
// The loads are those of polynomial.
//
// Numerics: worst condition number over all sets of k = m q tasks, and the median:
//
//	n, k    11,8       18,15      24,20      31,28      64,60
//	        1.6e3/14   2.8e4/31   2.2e6/75   6.3e5/59   4e9/230 (of 400 sets)
//
// It grows as n^(2(n-k)) at most, as the paper shows: the worst sets lack
// neighbours at the ends, where the points are dense. One result more than k is
// worth waiting for.
var orthoPolynomial = Family{
	Name:  "ortho-polynomial",
	Doc:   "the polynomial code in the Chebyshev basis: any mq of n decode, well-conditioned at most sets, for floats up to some 30 tasks",
	Paper: "M. Fahim, V. Cadambe, Numerically stable polynomially coded computing, IEEE Trans. IT 2021",
	Kind:  Bilinear,
	Uses:  UsesM | UsesQ,
	Define: func(s Spec) (Definition, error) {
		m, q := s.M, s.Q
		k := boundedProduct(m, q)
		if err := s.checkMatrix(m, 1, q, "m*q", k); err != nil {
			return Definition{}, err
		}
		d := evaluated{
			basis: chebyshevBasis,
			a:     [][]int{indices(m, 1, func(i, _ int) int { return i })},
			b:     [][]int{indices(1, q, func(_, j int) int { return m * j })},
		}.define(s.N)
		d.Threshold, d.MDS = k, true
		return d, nil
	},
	Examples: []Spec{
		{Name: "ortho-polynomial", N: 6, M: 2, Q: 2}, {Name: "ortho-polynomial", N: 8, M: 3, Q: 2}, {Name: "ortho-polynomial", N: 18, M: 5, Q: 3},
		{Name: "ortho-polynomial", N: 24, M: 5, Q: 4},
	},
}

// orthoMatdot is matdot in the Chebyshev basis, in which T_0 stands for 1/2:
//
//	A(x) = sum_k A_k T_k(x),  B(x) = sum_k B_k T_(p-1-k)(x)
//
// at the points cos((2w+1) pi / 2n). Of all products A_k B_l only those with k = l
// have a part in T_(p-1), each with the factor 1/2 (with 1/4 if p = 1), so C is
// twice that coefficient; the degree is 2p-2, and any 2p-1 results decode
// (M. Fahim, V. Cadambe, IEEE Trans. IT 2021).
//
// The loads are those of matdot. Numerics: worst condition number and median, of
// 200 sets of 2p-1 tasks:
//
//	n, p            11,4        18,8          24,10
//	ortho-matdot    1.6e3/4.6   5.6e3/5.3     1.7e5/12
//	matdot          1.4e3/73    2.5e5/3.9e4   3.3e7/1.8e6
var orthoMatdot = Family{
	Name:  "ortho-matdot",
	Doc:   "matdot in the Chebyshev basis: any 2p-1 decode, well-conditioned; each result is as large as C",
	Paper: "M. Fahim, V. Cadambe, Numerically stable polynomially coded computing, IEEE Trans. IT 2021",
	Kind:  Bilinear,
	Uses:  UsesP,
	Define: func(s Spec) (Definition, error) {
		p := s.P
		if err := s.checkMatrix(1, p, 1, "2p-1", 2*p-1); err != nil {
			return Definition{}, err
		}
		d := evaluated{
			basis: halvedChebyshevBasis,
			a:     [][]int{indices(1, p, func(_, k int) int { return k })},
			b:     [][]int{indices(p, 1, func(k, _ int) int { return p - 1 - k })},
		}.define(s.N)
		d.Outputs = matrixOutputs(1, p, 1)
		d.Threshold, d.MDS = 2*p-1, p == 1
		return d, nil
	},
	Examples: []Spec{
		{Name: "ortho-matdot", N: 5, P: 2}, {Name: "ortho-matdot", N: 8, P: 3}, {Name: "ortho-matdot", N: 18, P: 8}, {Name: "ortho-matdot", N: 24, P: 11},
	},
}
