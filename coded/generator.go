package coded

import "fmt"

// The one-sided view: a linear job whose tasks have one coded block each and
// whose outputs are the blocks themselves. Then M is an n x k generator matrix
// G, task i holds F_i = sum_j G_ij A_j, and decoding gives the blocks back.

// oneSided tells whether the code has a generator.
func (c *Code) oneSided() bool {
	if c.def.BBlocks != 1 || len(c.wanted) != c.cols || len(c.rows) != c.N() {
		return false
	}
	for i, w := range c.wanted {
		for j, v := range w {
			if (i == j) != (v == 1) || (i != j) != (v == 0) {
				return false
			}
		}
	}
	for t := range c.N() {
		if c.first[t] != t {
			return false
		}
	}
	return true
}

// Generator returns G, n x k, of a one-sided code. It is borrowed: do not write
// to it. It fails for a code that codes both operands, gives several products
// a task, or does not want all the blocks.
func (c *Code) Generator() ([][]float64, error) {
	if !c.linear {
		return nil, fmt.Errorf("coded: %v is not one-sided: it has no generator", c)
	}
	return c.rows, nil
}

// Row returns row slot of the generator, borrowed, and nil if the code is not
// one-sided or the slot is not 0 to N-1.
func (c *Code) Row(slot int) []float64 {
	if !c.linear || slot < 0 || slot >= c.N() {
		return nil
	}
	return c.rows[slot]
}

// fromGenerator is the definition of a one-sided code.
func fromGenerator(g [][]float64) Definition {
	return Definition{ABlocks: len(g[0]), BBlocks: 1, Tasks: linearTasks(g, 1)}
}

// unit is row i of the identity of size k.
func unit(k, i int) []float64 {
	row := make([]float64, k)
	row[i] = 1
	return row
}

func linearTasks[E any](g [][]E, one E) []Coefficients[E] {
	tasks := make([]Coefficients[E], len(g))
	for i, u := range g {
		tasks[i] = Coefficients[E]{A: [][]E{u}, B: [][]E{{one}}}
	}
	return tasks
}
