package coded

import "errors"

// replication gives each of k blocks to n/k tasks: task i holds block i mod k.
// A set of tasks decodes when it has a copy of every block, which any
// n - n/k + 1 tasks have. The copies that are there are averaged.
var replication = Family{
	Name:  "replication",
	Doc:   "every block held n/k times: nothing to decode, but all copies of a block may be slow at once",
	Paper: "J. Dean, S. Ghemawat, MapReduce, OSDI 2004 (backup tasks); analysed in K. Lee et al., IEEE Trans. IT 2018",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		if s.N%s.K != 0 {
			return Definition{}, errors.New("n must be a multiple of k")
		}
		g := make([][]float64, s.N)
		for i := range g {
			g[i] = unit(s.K, i%s.K)
		}
		d := fromGenerator(g)
		d.Threshold = s.N - s.N/s.K + 1
		d.MDS = s.K == 1 || s.N == s.K
		return d, nil
	},
	Examples: []Spec{
		{Name: "replication", N: 4, K: 1}, {Name: "replication", N: 6, K: 3}, {Name: "replication", N: 5, K: 5},
		{Name: "replication", N: 12, K: 4}, {Name: "replication", N: 30, K: 10},
	},
}
