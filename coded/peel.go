package coded

import (
	"math"
	"slices"
)

// peeling is the order in which sums of blocks are solved. A sum in which one
// block is unknown gives that block; where no such sum is left, a block is set
// aside as if it were known (inactivated), and found at the end from the sums
// that were not used, by elimination (A. Shokrollahi, S. Lassen, R. Karp,
// "Systems and processes for decoding chain reaction codes through inactivation",
// US patent 6,856,263; RFC 5053, section 5.5.2).
type peeling struct {
	rows     [][]int // blocks of each sum
	blocks   int
	steps    []peelStep
	inactive []int // blocks that were set aside
	used     []bool
}

// peelStep solves a sum for a block of it.
type peelStep struct{ row, block int }

// peel finds the order for sums of so many blocks.
func peel(rows [][]int, blocks int) *peeling {
	p := &peeling{rows: rows, blocks: blocks, used: make([]bool, len(rows))}
	in := make([][]int, blocks) // the sums that a block is in
	unknown := make([]int, len(rows))
	var ripple []int // sums with one unknown block
	for r, row := range rows {
		for _, b := range row {
			in[b] = append(in[b], r)
		}
		if unknown[r] = len(row); len(row) == 1 {
			ripple = append(ripple, r)
		}
	}
	known := make([]bool, blocks)
	settle := func(b int) {
		known[b] = true
		for _, r := range in[b] {
			if unknown[r]--; unknown[r] == 1 {
				ripple = append(ripple, r)
			}
		}
	}
	for left := blocks; left > 0; left-- {
		r := -1
		for len(ripple) > 0 && r < 0 {
			if next := ripple[0]; unknown[next] == 1 {
				r = next
			}
			ripple = ripple[1:]
		}
		if r < 0 {
			b := mostWanted(in, known)
			p.inactive = append(p.inactive, b)
			settle(b)
			continue
		}
		b := rows[r][slices.IndexFunc(rows[r], func(b int) bool { return !known[b] })]
		p.steps, p.used[r] = append(p.steps, peelStep{r, b}), true
		settle(b)
	}
	return p
}

// mostWanted is the unknown block that is in most sums.
func mostWanted(in [][]int, known []bool) int {
	best := -1
	for b, sums := range in {
		if !known[b] && (best < 0 || len(sums) > len(in[best])) {
			best = b
		}
	}
	return best
}

// weights gives every block as a combination of the sums, nil if the blocks that
// were set aside cannot be found.
func (p *peeling) weights() [][]float64 {
	sums, aside := len(p.rows), len(p.inactive)
	// Block b is expr[b] times (the sums, the blocks set aside).
	expr := make([][]float64, p.blocks)
	for i, b := range p.inactive {
		expr[b] = unit(sums+aside, sums+i)
	}
	for _, step := range p.steps {
		expr[step.block] = p.rest(step.row, step.block, expr)
	}
	// What is left of a sum that was not used is 0.
	var equations [][]float64
	for r := range p.rows {
		if !p.used[r] {
			equations = append(equations, p.rest(r, -1, expr))
		}
	}
	found := eliminate(equations, sums, aside)
	if found == nil {
		return nil
	}
	d := make([][]float64, p.blocks)
	for b, e := range expr {
		d[b] = e[:sums:sums]
		for i, f := range e[sums:] {
			if f != 0 {
				for j, v := range found[i] {
					d[b][j] += f * v
				}
			}
		}
	}
	return d
}

// rest is a sum minus all of its blocks but one.
func (p *peeling) rest(row, but int, expr [][]float64) []float64 {
	e := unit(len(p.rows)+len(p.inactive), row)
	for _, b := range p.rows[row] {
		if b == but {
			continue
		}
		for j, v := range expr[b] {
			e[j] -= v
		}
	}
	return e
}

// eliminate solves equations e . (sums, unknowns) = 0 for the last unknowns, by
// Gauss-Jordan elimination with the largest pivot of a column; nil if they do not
// determine them.
func eliminate(equations [][]float64, sums, unknowns int) [][]float64 {
	found := make([][]float64, unknowns)
	for i := range unknowns {
		column := sums + i
		best := -1
		for r := i; r < len(equations); r++ {
			if best < 0 || math.Abs(equations[r][column]) > math.Abs(equations[best][column]) {
				best = r
			}
		}
		if best < 0 || math.Abs(equations[best][column]) < 1e-9 {
			return nil
		}
		equations[i], equations[best] = equations[best], equations[i]
		pivot := equations[i]
		for r, e := range equations {
			if f := e[column] / pivot[column]; r != i && f != 0 {
				for j, v := range pivot {
					e[j] -= f * v
				}
			}
		}
	}
	for i := range found {
		found[i] = make([]float64, sums)
		for j := range sums {
			found[i][j] = -equations[i][j] / equations[i][sums+i]
		}
	}
	return found
}
