package coded

import (
	"fmt"
	"math"
)

// Limits of a code. They keep what a Spec from outside can ask for within reason.
const (
	MaxTasks   = 4096    // tasks of a code
	maxEntries = 1 << 24 // tasks times products A_a*B_b
)

// Pair names a product of two blocks: A_A * B_B.
type Pair struct{ A, B int }

// Output is one wanted result, the sum of the listed products of blocks.
type Output []Pair

// Coefficients are those of one task over a field with elements E. A holds, for
// each coded block of the left operand, its coefficients over the A blocks; B
// likewise. Products lists the products of coded blocks that the task returns,
// in order; nil means all of them, for each coded A block every coded B block.
type Coefficients[E any] struct {
	A, B     [][]E
	Products []Pair
}

// Task is what one worker computes: float64 coefficients.
type Task = Coefficients[float64]

// ModularTask is a task over the prime field of Prime elements.
type ModularTask = Coefficients[uint32]

// Definition is a code written out: the partition and the coefficients.
type Definition struct {
	Name  string // "trigonometric"
	Doc   string // one line: what it is and when to use it
	Paper string // where it comes from

	ABlocks, BBlocks int      // BBlocks is 1 for a linear job
	Outputs          []Output // nil: every product A_a*B_b, row-major
	Tasks            []Task
	Threshold        int // any Threshold tasks decode every output

	// MDS claims that a set of tasks decodes every output exactly when it has
	// at least Threshold tasks, so that a Tracker may count.
	MDS bool
	// Modular gives the same code over GF(Prime), task by task: its structure in
	// exact arithmetic, for testing Threshold and MDS (see ExactTracker). It may
	// be nil when all coefficients are integers.
	Modular func() []ModularTask
}

// Code is a code that has been checked for its form. It is immutable, and so
// safe for concurrent use.
type Code struct {
	def    Definition
	cols   int         // ABlocks*BBlocks
	rows   [][]float64 // of M, task after task
	first  []int       // task t has rows first[t]..first[t+1]-1
	wanted [][]float64 // W
	linear bool        // one-sided: the rows of M are a generator, W is the identity
}

// NewCode builds a code from its definition, which it checks for its form:
// whether the claimed threshold holds is for tests to say (package codetest).
// The definition must not be changed afterwards.
func NewCode(d Definition) (*Code, error) {
	c := &Code{def: d}
	if err := c.checkSizes(); err != nil {
		return nil, fmt.Errorf("coded: code %q: %w", d.Name, err)
	}
	c.cols = d.ABlocks * d.BBlocks
	var err error
	if c.rows, c.first, err = expand(d.Tasks, d.ABlocks, d.BBlocks, func(u, v float64) float64 { return u * v }); err != nil {
		return nil, fmt.Errorf("coded: code %q: %w", d.Name, err)
	}
	for i, row := range c.rows {
		for _, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("coded: code %q: row %d of the matrix has the coefficient %v", d.Name, i, v)
			}
		}
	}
	if c.wanted, err = wantedRows(d); err != nil {
		return nil, fmt.Errorf("coded: code %q: %w", d.Name, err)
	}
	c.linear = c.oneSided()
	return c, nil
}

func (c *Code) checkSizes() error {
	d := c.def
	switch {
	case d.Name == "":
		return fmt.Errorf("it has no name")
	case d.ABlocks < 1 || d.BBlocks < 1:
		return fmt.Errorf("%d A blocks and %d B blocks, want at least 1 of each", d.ABlocks, d.BBlocks)
	case len(d.Tasks) < 1 || len(d.Tasks) > MaxTasks:
		return fmt.Errorf("%d tasks, want 1 to %d", len(d.Tasks), MaxTasks)
	case d.ABlocks > maxEntries/d.BBlocks/len(d.Tasks):
		return fmt.Errorf("%d tasks with %d A blocks times %d B blocks, want at most %d coefficients",
			len(d.Tasks), d.ABlocks, d.BBlocks, maxEntries)
	case d.Threshold < 1 || d.Threshold > len(d.Tasks):
		return fmt.Errorf("threshold %d, want 1 to the number of tasks, %d", d.Threshold, len(d.Tasks))
	}
	return nil
}

// expand gives the rows vec(u v^T) of every product of every task.
func expand[E any](tasks []Coefficients[E], aBlocks, bBlocks int, mul func(u, v E) E) (rows [][]E, first []int, err error) {
	for t, task := range tasks {
		first = append(first, len(rows))
		if err := checkTask(task, aBlocks, bBlocks); err != nil {
			return nil, nil, fmt.Errorf("task %d: %w", t, err)
		}
		for _, p := range task.products() {
			row := make([]E, 0, aBlocks*bBlocks)
			for _, u := range task.A[p.A] {
				for _, v := range task.B[p.B] {
					row = append(row, mul(u, v))
				}
			}
			rows = append(rows, row)
		}
	}
	return rows, append(first, len(rows)), nil
}

func checkTask[E any](task Coefficients[E], aBlocks, bBlocks int) error {
	if err := checkSide("A", task.A, aBlocks); err != nil {
		return err
	}
	if err := checkSide("B", task.B, bBlocks); err != nil {
		return err
	}
	if task.Products != nil && len(task.Products) == 0 {
		return fmt.Errorf("no product")
	}
	for _, p := range task.Products {
		if p.A < 0 || p.A >= len(task.A) || p.B < 0 || p.B >= len(task.B) {
			return fmt.Errorf("product of coded blocks (%d,%d), it has %d by %d", p.A, p.B, len(task.A), len(task.B))
		}
	}
	return nil
}

func checkSide[E any](side string, coded [][]E, blocks int) error {
	if len(coded) == 0 {
		return fmt.Errorf("no coded %s block", side)
	}
	for i, u := range coded {
		if len(u) != blocks {
			return fmt.Errorf("coded %s block %d has %d coefficients, want %d", side, i, len(u), blocks)
		}
	}
	return nil
}

func (t Coefficients[E]) products() []Pair {
	if t.Products != nil {
		return t.Products
	}
	return allPairs(len(t.A), len(t.B))
}

func allPairs(a, b int) []Pair {
	pairs := make([]Pair, 0, a*b)
	for i := range a {
		for j := range b {
			pairs = append(pairs, Pair{i, j})
		}
	}
	return pairs
}

// wantedRows gives W, a row for each output.
func wantedRows(d Definition) ([][]float64, error) {
	outputs := d.outputs()
	if len(outputs) == 0 {
		return nil, fmt.Errorf("no output is wanted")
	}
	w := make([][]float64, len(outputs))
	for c, out := range outputs {
		if len(out) == 0 {
			return nil, fmt.Errorf("output %d is the sum of no product", c)
		}
		w[c] = make([]float64, d.ABlocks*d.BBlocks)
		for _, p := range out {
			if p.A < 0 || p.A >= d.ABlocks || p.B < 0 || p.B >= d.BBlocks {
				return nil, fmt.Errorf("output %d: product of blocks (%d,%d), there are %d by %d", c, p.A, p.B, d.ABlocks, d.BBlocks)
			}
			w[c][p.A*d.BBlocks+p.B]++
		}
	}
	return w, nil
}

func (d Definition) outputs() []Output {
	if d.Outputs != nil {
		return d.Outputs
	}
	out := make([]Output, 0, d.ABlocks*d.BBlocks)
	for _, p := range allPairs(d.ABlocks, d.BBlocks) {
		out = append(out, Output{p})
	}
	return out
}

// Name returns the name of the code's family.
func (c *Code) Name() string { return c.def.Name }

// Doc says in a line what the code is and when to use it.
func (c *Code) Doc() string { return c.def.Doc }

// Paper says where the code comes from.
func (c *Code) Paper() string { return c.def.Paper }

// N returns the number of tasks.
func (c *Code) N() int { return len(c.def.Tasks) }

// K returns the number of blocks of the left operand.
func (c *Code) K() int { return c.def.ABlocks }

// BBlocks returns the number of blocks of the right operand, 1 for a linear job.
func (c *Code) BBlocks() int { return c.def.BBlocks }

// Threshold returns the claimed number of tasks of which any decode every output.
func (c *Code) Threshold() int { return c.def.Threshold }

// MDS tells whether the code claims that no smaller set than Threshold decodes.
func (c *Code) MDS() bool { return c.def.MDS }

// Outputs returns the number of wanted outputs.
func (c *Code) Outputs() int { return len(c.wanted) }

// Task returns the coefficients of a task, 0 <= t < N, borrowed.
func (c *Code) Task(t int) Task { return c.def.Tasks[t] }

// Rows returns the rows of M that a task gives, 0 <= t < N: one for each of its
// products, over the products A_a*B_b in row-major order. They are borrowed.
func (c *Code) Rows(t int) [][]float64 { return c.rows[c.first[t]:c.first[t+1]] }

// Wanted returns W, a row for each output. It is borrowed.
func (c *Code) Wanted() [][]float64 { return c.wanted }

// String names the code with its sizes: "trigonometric (6,4)".
func (c *Code) String() string {
	if c.def.BBlocks == 1 {
		return fmt.Sprintf("%s (%d,%d)", c.def.Name, c.N(), c.K())
	}
	return fmt.Sprintf("%s (%d,%dx%d)", c.def.Name, c.N(), c.def.ABlocks, c.def.BBlocks)
}

// checkSet checks that a list of tasks has no stranger and no duplicate.
func (c *Code) checkSet(have []int) error {
	seen := make([]bool, c.N())
	for _, t := range have {
		if t < 0 || t >= c.N() {
			return fmt.Errorf("%v: task %d, want 0 to %d", c, t, c.N()-1)
		}
		if seen[t] {
			return fmt.Errorf("%v: task %d is listed twice", c, t)
		}
		seen[t] = true
	}
	return nil
}
