package coded

import "math/rand/v2"

// sketch estimates a product cut along its inner dimension, C = sum_k A_k B_k, k
// = 1 .. P, from tasks of 1/P of its work: each multiplies a random projection,
//
//	(sum_k s_k A_k) (sum_k s_k B_k),   s_k = -1 or 1 at random
//
// whose mean is C, since the mean of s_k s_l is 0 for k != l. Averaging t results
// leaves the squared error (P-1)/t of independent terms of equal size; the least
// squares used here leave less, and nothing once the results span all products.
// Late results are simply left out: there is no threshold.
var sketch = Family{
	Name:  "sketch",
	Doc:   "approximate product from random projections of the inner dimension: cheap tasks, any of which may be missing",
	Paper: "V. Gupta, S. Wang, T. Courtade, K. Ramchandran, OverSketch: approximate matrix multiplication for the cloud, IEEE Big Data 2018",
	Kind:  Bilinear,
	Uses:  UsesP | UsesSeed,
	Define: func(s Spec) (Definition, error) {
		d := Definition{ABlocks: s.P, BBlocks: s.P, Outputs: []Output{nil}, Approximate: true}
		for k := range s.P {
			d.Outputs[0] = append(d.Outputs[0], Pair{k, k})
		}
		rng := rand.New(rand.NewPCG(s.Seed, 0))
		rows := make([][]float64, s.N)
		for w := range rows {
			for range s.P {
				rows[w] = append(rows[w], float64(2*rng.IntN(2)-1))
			}
		}
		d.Tasks = sameRows(rows)
		return d, nil
	},
	Examples: []Spec{{Name: "sketch", N: 6, P: 4}, {Name: "sketch", N: 12, P: 4, Seed: 3}, {Name: "sketch", N: 24, P: 8}},
}
