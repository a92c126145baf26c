package coded

import (
	"fmt"
	"math/rand/v2"
)

// blockGradients is between fractional repetition and Bernoulli: parts and workers
// are in g groups, worker w in group w modulo g and part p in group p*g/k. A worker
// knows each part of its own group with one probability and any other with a lower
// one, so that it knows weight parts of its group and load-weight others on
// average, and returns the plain sum of their gradients (Z. Charles, D.
// Papailiopoulos, "Gradient coding via the stochastic block model", 2018: SBC).
// With weight = load = k/g it is fractional repetition with g groups; with
// weight = load/g it is Bernoulli. Who does not know the groups has to find
// communities in a random graph to hurt it more than chance does.
//
// Compute and storage are load/k of the whole on average, the download is one
// gradient. The seed draws. Numerics as those of bernoulli-gradients; the error is
// between the two.
var blockGradients = Family{
	Name:   "block-gradients",
	Doc:    "plain sums of parts drawn at random, mostly of one's own group: approximate, between fractional repetition and Bernoulli",
	Paper:  "Z. Charles, D. Papailiopoulos, Gradient coding via the stochastic block model, 2018",
	Kind:   Gradients,
	Uses:   UsesK | UsesLoad | UsesWeight | UsesGroups | UsesSeed,
	Define: defineBlocks,
	Examples: []Spec{
		{Name: "block-gradients", N: 6, K: 6, Load: 3, Weight: 2, Groups: 2, Seed: 1},
		{Name: "block-gradients", N: 8, K: 8, Load: 2, Weight: 2, Groups: 4, Seed: 1},
		{Name: "block-gradients", N: 20, K: 20, Load: 4, Weight: 3, Groups: 5, Seed: 1},
	},
}

// defineBlocks draws the parts of every worker: of its own group with the
// probability weight/(k/groups), of others with (load-weight)/(k - k/groups).
func defineBlocks(s Spec) (Definition, error) {
	own := s.K / s.Groups
	switch err := s.boundedParts(1); {
	case err != nil:
		return Definition{}, err
	case s.K%s.Groups != 0:
		return Definition{}, fmt.Errorf("k must be a multiple of the number of groups, %d", s.Groups)
	case s.Weight > s.Load || s.Weight > own:
		return Definition{}, fmt.Errorf("weight, the parts of a worker's own group, must be at most load and at most k/groups = %d", own)
	case s.Load-s.Weight > s.K-own:
		return Definition{}, fmt.Errorf("load-weight, the parts of other groups, must be at most k - k/groups = %d", s.K-own)
	}
	inside, outside := float64(s.Weight)/float64(own), 0.0
	if s.Groups > 1 {
		outside = float64(s.Load-s.Weight) / float64(s.K-own)
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	rows := make([][]float64, s.N)
	for w := range rows {
		rows[w] = make([]float64, s.K)
		for p := range rows[w] {
			chance := outside
			if p/own == w%s.Groups {
				chance = inside
			}
			if rng.Float64() < chance {
				rows[w][p] = 1
			}
		}
	}
	d := fromGradients(rows, 1)
	d.Approximate = true
	return d, nil
}
