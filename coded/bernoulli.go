package coded

// bernoulliGradients lets every worker know every part by chance, with the
// probability load/k, and return the plain sum of the gradients of those that it
// knows. Nothing is exact; an adversary who does not know what was drawn
// can choose no stragglers that hurt more than chance (Z. Charles, D. Papailiopoulos, J. Ellenberg, "Approximate
// gradient coding via sparse random graphs", 2017: Bernoulli gradient code, BGC,
// with optimal decoding). A worker that draws no part sends a zero. Compute and
// storage are load/k of the whole on average, more for the worker that draws most;
// the download is one gradient. The seed draws.
//
// The error (1/n) |A a - 1|^2 of the best estimate (Weights.Residual), n = k = 20,
// load = 4, S stragglers at random, on average over 1000 draws (fractional repetition
// and uncoded in closed form; block-gradients with weight 3 in 5 groups):
//
//	S      fractional-repetition   cyclic-sum   block   bernoulli   uncoded
//	4      0.0002                  0.003        0.03    0.06        0.20
//	10     0.043                   0.08         0.13    0.19        0.50
//
// Numerics: weights are those of least squares. In the draws of the table their norm
// was up to 23 for S = 4, where the uncoded sum has 4: a set whose rows are nearly
// dependent pays with rounding for little.
var bernoulliGradients = Family{
	Name:  "bernoulli-gradients",
	Doc:   "plain sums of parts drawn at random: approximate, nothing for an adversary to aim at",
	Paper: "Z. Charles, D. Papailiopoulos, J. Ellenberg, Approximate gradient coding via sparse random graphs, 2017",
	Kind:  Gradients,
	Uses:  UsesK | UsesLoad | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		s.Groups, s.Weight = 1, s.Load
		return defineBlocks(s)
	},
	Examples: []Spec{
		{Name: "bernoulli-gradients", N: 6, K: 6, Load: 3, Seed: 1}, {Name: "bernoulli-gradients", N: 8, K: 16, Load: 4, Seed: 2},
		{Name: "bernoulli-gradients", N: 20, K: 20, Load: 4, Seed: 1},
	},
}
