package coded

import "errors"

// communicationEfficient trades stragglers for bandwidth: each gradient is cut
// into m pieces, and a worker that knows d = load*n/k groups of parts returns one
// piece's worth, a combination of the pieces of its parts. If any n-s answers are
// to be enough, then
//
//	d >= s + m,  threshold  n - s
//
// and no code does better (M. Ye, E. Abbe, "Communication-computation efficient
// gradient coding", ICML 2018, theorem 1); here d = s + m. The code is that of
// cyclic-reed-solomon with polynomials of degree below s+m: on the d workers of
// each part p, piece i has the coefficients with
//
//	sum_w B_w(p,i) T_r(x_w) = 1 for r = s+i, 0 for any other r < s+m
//
// Output j is decoded with the polynomial that vanishes at the s stragglers and
// whose upper coefficients, of T_s .. T_(s+m-1), are those of T_(s+j): a(x) = q(x)
// prod_(z missing) (x - x_z), whose m coefficients q are found from the top down.
// (The paper's recursion builds the dual polynomials, of degree n-s-1.) With m = 1
// it is cyclic-reed-solomon.
//
// Compute and storage are load/k of the whole, the download 1/m of a gradient.
//
// Numerics: each further piece is a further degree, and costs about as much as one
// straggler more. Largest weight and largest norm over all sets of n-s answers
// (n = 24: 1000 sets):
//
//	n, s, m   10,2,2   10,3,2   20,2,2   20,3,2   24,4,2
//	          24/36    38/63    11/25    53/114   2e2/4e2
var communicationEfficient = Family{
	Name:   "communication-efficient",
	Doc:    "workers that know s+m shares of the parts send 1/m of a gradient each; any s may be late",
	Paper:  "M. Ye, E. Abbe, Communication-computation efficient gradient coding, ICML 2018",
	Kind:   Gradients,
	Uses:   UsesK | UsesLoad | UsesM,
	Define: defineAnnihilating,
	Examples: []Spec{
		{Name: "communication-efficient", N: 6, K: 6, Load: 3, M: 2}, {Name: "communication-efficient", N: 5, K: 5, Load: 3, M: 3},
		{Name: "communication-efficient", N: 8, K: 16, Load: 8, M: 2}, {Name: "communication-efficient", N: 10, K: 10, Load: 5, M: 3},
		{Name: "communication-efficient", N: 20, K: 20, Load: 4, M: 2},
	},
}

// defineAnnihilating defines the cyclic code of n workers whose parts are cut into
// m pieces.
func defineAnnihilating(s Spec) (Definition, error) {
	copies, err := s.cyclicCopies()
	if err != nil {
		return Definition{}, err
	}
	if copies < s.M {
		return Definition{}, errors.New("load*n/k, the workers that know a part, must be at least m, the pieces")
	}
	return annihilating(cyclicHolders(s.N, copies), spreadPoints(s.N, copies), s.K, s.M)
}
