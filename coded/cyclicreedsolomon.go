package coded

// cyclicReedSolomon bears any s = load*n/k - 1 stragglers with the cyclic pattern
// of Tandon et al., of the coefficients of a Reed-Solomon code. Worker w has a
// point x_w. For each part, B has on its d = s+1 workers the one combination that
// annihilates polynomials of degree below s and gives 1 for T_s:
//
//	sum_w B_wp T_r(x_w) = 0 for r < s, 1 for r = s
//
// with T_r Chebyshev's polynomials. A polynomial of degree s whose coefficient of
// T_s is 1 then has sum_w a(x_w) B_wp = 1 for every part: the one that vanishes at
// the stragglers, a(x) = c prod_(z missing) (x - x_z), decodes, and so
//
//	threshold  n - s, MDS
//
// The columns of B are words of the code dual to polynomials of degree below s,
// again a (generalised) Reed-Solomon code, of the sparsest kind: the code of W.
// Halbawi, N. Azizan-Ruhi, F. Salehi, B. Hassibi ("Improving distributed gradient
// descent using Reed-Solomon codes", ISIT 2018) and N. Raviv, I. Tamo, R. Tandon,
// A. Dimakis ("Gradient coding from cyclic MDS codes and expander graphs", ICML
// 2018), written with polynomials of degree s instead of n-s-1. Compute and
// storage are load/k of the whole, the download one gradient.
//
// Numerics: s is small, and that is the degree of everything that is solved. The
// points are Chebyshev's, given out in such an order that the d neighbours that
// know a part lie all over the interval; the rows of B are scaled to a largest
// coefficient of 1. Then, over all sets of n-s answers (of n = 24, over 1000 of
// them drawn at random),
//
//	n, s                             10,2   10,3   20,2   20,3   24,4   24,6
//	largest weight                   4.8    21     5.5    13     63     7e2
//	largest norm of the weights      7.5    31     11     27     1e2    1e3
//	largest weight, cyclic-random    2e2..3e5  7e1..8e3  2e3..6e4
//
// (the last line is the range over nine seeds; its rows have a coefficient of 1 too
// and larger ones). With s = 6 an error of float32 rounding, 6e-8, becomes 6e-5 of
// the size of a result; one answer more than n-s makes it much smaller. Use it where
// the groups of fractional repetition do not divide.
var cyclicReedSolomon = Family{
	Name:  "cyclic-reed-solomon",
	Doc:   "any s stragglers at the least load, for any n, with coefficients of a Reed-Solomon code that are stable in float32",
	Paper: "W. Halbawi, N. Azizan-Ruhi, F. Salehi, B. Hassibi, Improving distributed gradient descent using Reed-Solomon codes, ISIT 2018; N. Raviv, I. Tamo, R. Tandon, A. Dimakis, ICML 2018",
	Kind:  Gradients,
	Uses:  UsesK | UsesLoad,
	Define: func(s Spec) (Definition, error) {
		s.M = 1
		return defineAnnihilating(s)
	},
	Examples: []Spec{
		{Name: "cyclic-reed-solomon", N: 5, K: 5, Load: 2}, {Name: "cyclic-reed-solomon", N: 7, K: 14, Load: 6},
		{Name: "cyclic-reed-solomon", N: 10, K: 10, Load: 3}, {Name: "cyclic-reed-solomon", N: 10, K: 10, Load: 4},
		{Name: "cyclic-reed-solomon", N: 20, K: 20, Load: 3},
	},
}
