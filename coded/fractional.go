package coded

import "errors"

// fractionalRepetition cuts the workers into k/load groups. All workers of group j
// know the parts j*load .. (j+1)*load-1 and return the sum of their gradients, so
// that one answer a group is enough (Tandon et al., ICML 2017, section 4.1). With
// n workers a group has s+1 = n*load/k of them, and
//
//	threshold  n - s
//
// as in any code whose parts are known to s+1 workers; but most smaller sets
// decode too, and a Tracker knows. Compute and storage are load/k of the whole,
// the download one gradient.
//
// Numerics: none to speak of. A group's answers are averaged, each with the weight
// 1 over their number, so that the condition number is at most sqrt(s+1) and the
// amplification at most sqrt(k/load). It is the first choice whenever load
// divides k and k/load divides n.
//
// With fewer answers, least squares averages those of each group that has any,
// and leaves out the others: the error is the share of the groups without
// (ErasureHead: H. Wang, Z. Charles, D. Papailiopoulos, 2019). It is the best of
// the approximate codes against stragglers at random; an adversary has to stop
// s+1 workers for each load parts that are lost.
var fractionalRepetition = Family{
	Name:  "fractional-repetition",
	Doc:   "groups of workers with the same parts, one answer a group is enough: stable, and the best estimate of too few answers (ErasureHead)",
	Paper: "R. Tandon, Q. Lei, A. Dimakis, N. Karampatziakis, Gradient coding, ICML 2017, section 4.1; H. Wang, Z. Charles, D. Papailiopoulos, ErasureHead, 2019",
	Kind:  Gradients,
	Uses:  UsesK | UsesLoad,
	Define: func(s Spec) (Definition, error) {
		if s.K%s.Load != 0 || s.N%(s.K/s.Load) != 0 {
			return Definition{}, errors.New("load must divide k, and k/load, the number of groups, must divide n")
		}
		if err := s.boundedParts(1); err != nil {
			return Definition{}, err
		}
		groups := s.K / s.Load
		rows := make([][]float64, s.N)
		for w := range rows {
			rows[w] = unit(groups, w%groups)
		}
		d := fromGradients(perPart(rows, s.K, 1), 1)
		d.Threshold = s.N - s.N/groups + 1
		d.MDS = groups == 1 || groups == s.N
		return d, nil
	},
	Examples: []Spec{
		{Name: "fractional-repetition", N: 6, K: 6, Load: 2}, {Name: "fractional-repetition", N: 8, K: 4, Load: 2},
		{Name: "fractional-repetition", N: 4, K: 4, Load: 4}, {Name: "fractional-repetition", N: 20, K: 20, Load: 4},
	},
}
