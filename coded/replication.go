package coded

import "fmt"

// replication gives each of k blocks to n/k tasks: task i holds block i mod k.
// A set of tasks decodes when it has a copy of every block, which any
// n - n/k + 1 tasks have. The copies that are there are averaged.
var replication = family{
	name:  "replication",
	doc:   "every block held n/k times: nothing to decode, but all copies of a block may be slow at once",
	paper: "J. Dean, S. Ghemawat, MapReduce, OSDI 2004 (backup tasks); analysed in K. Lee et al., IEEE Trans. IT 2018",
	define: func(n, k int) (Definition, error) {
		if n%k != 0 {
			return Definition{}, fmt.Errorf("n must be a multiple of k")
		}
		g := make([][]float64, n)
		for i := range g {
			g[i] = make([]float64, k)
			g[i][i%k] = 1
		}
		d := fromGenerator(g)
		d.Threshold = n - n/k + 1
		d.MDS = k == 1 || n == k
		return d, nil
	},
}
