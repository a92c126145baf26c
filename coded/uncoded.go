package coded

import "fmt"

// uncoded gives every task a block of its own: the baseline of every comparison.
var uncoded = family{
	name:  "uncoded",
	doc:   "one block a task: no redundancy, every answer is needed",
	paper: "the baseline",
	define: func(n, k int) (Definition, error) {
		if n != k {
			return Definition{}, fmt.Errorf("n must equal k")
		}
		g := make([][]float64, n)
		for i := range g {
			g[i] = make([]float64, n)
			g[i][i] = 1
		}
		d := fromGenerator(g)
		d.Threshold, d.MDS = n, true
		return d, nil
	},
}
