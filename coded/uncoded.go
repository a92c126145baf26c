package coded

import "errors"

// uncoded gives every task a block of its own: the baseline of every comparison.
var uncoded = Family{
	Name:  "uncoded",
	Doc:   "one block a task: no redundancy, every answer is needed",
	Paper: "the baseline",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if s.N != s.K {
			return Definition{}, errors.New("n must equal k")
		}
		g := make([][]float64, s.N)
		for i := range g {
			g[i] = unit(s.N, i)
		}
		d := fromGenerator(g)
		d.Threshold, d.MDS = s.N, true
		return d, nil
	},
	Examples: []Spec{{Name: "uncoded", N: 1, K: 1}, {Name: "uncoded", N: 4, K: 4}, {Name: "uncoded", N: 12, K: 12}},
}
