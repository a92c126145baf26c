package coded

import (
	"errors"
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
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
// likewise. Results lists what the task returns, in the order in which it is
// computed: each is the sum of the listed products of coded blocks. nil means
// every product by itself, for each coded A block every coded B block.
type Coefficients[E any] struct {
	A, B    [][]E
	Results []Output
}

// Task is what one worker computes: float64 coefficients.
type Task = Coefficients[float64]

// ModularTask is a task over a prime field.
type ModularTask = Coefficients[uint64]

// Definition is a code written out: the partition, the coefficients and what is
// claimed of them. Package codetest tests the claims.
type Definition struct {
	Name  string // "trigonometric"
	Doc   string // one line: what it is and when to use it
	Paper string // where it comes from
	Kind  Kind

	ABlocks, BBlocks int      // BBlocks is 1 for a linear job
	Outputs          []Output // nil: every product A_a*B_b, row-major
	Tasks            []Task
	// Pieces is the number of pieces into which each part's gradient is cut, for
	// a sum of gradients: block p*Pieces+i is piece i of part p. 0 means 1.
	Pieces int

	// Threshold claims that any Threshold tasks decode every output, and that
	// some Threshold-1 do not. 0 claims nothing.
	Threshold int
	// MDS claims that a set of tasks decodes every output exactly when it has
	// at least Threshold tasks, so that a Tracker may count.
	MDS bool
	// Prefix claims that every output can be decoded from any Prefix results in
	// all, if those of each task are the first ones in its order: work that was
	// not finished counts. 0 claims nothing. See Code.Chunks.
	Prefix int
	// Approximate says that even all tasks may not decode exactly: what is
	// wanted is the best estimate.
	Approximate bool

	// Modular gives the same code over a prime field, task by task: for exact
	// arithmetic, and for testing the claims (over field.Mersenne31, see
	// ExactTracker). It fails if the field lacks the points that the code needs.
	// It may be nil when all coefficients are integers.
	Modular func(p field.Prime) ([]ModularTask, error)
	// Weights gives the decode weights of a set of tasks, ascending, outputs x
	// results, where the code knows better than least squares: an estimate of
	// its own, or a decoder that is faster. It returns nil for a set that it
	// leaves to least squares.
	Weights func(have []int) [][]float64
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
	if c.rows, c.first, err = expand(field.Real{}, d.Tasks, d.ABlocks, d.BBlocks); err != nil {
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
		return errors.New("it has no name")
	case d.ABlocks < 1 || d.BBlocks < 1:
		return fmt.Errorf("%d A blocks and %d B blocks, want at least 1 of each", d.ABlocks, d.BBlocks)
	case len(d.Tasks) < 1 || len(d.Tasks) > MaxTasks:
		return fmt.Errorf("%d tasks, want 1 to %d", len(d.Tasks), MaxTasks)
	case d.ABlocks > maxEntries/d.BBlocks/len(d.Tasks):
		return fmt.Errorf("%d tasks with %d A blocks times %d B blocks, want at most %d coefficients",
			len(d.Tasks), d.ABlocks, d.BBlocks, maxEntries)
	case d.results() > maxEntries/d.ABlocks/d.BBlocks:
		return fmt.Errorf("%d results with %d A blocks times %d B blocks, want at most %d coefficients",
			d.results(), d.ABlocks, d.BBlocks, maxEntries)
	case d.Threshold < 0 || d.Threshold > len(d.Tasks):
		return fmt.Errorf("threshold %d, want 1 to the number of tasks, %d, or 0 for none", d.Threshold, len(d.Tasks))
	case d.MDS && d.Threshold == 0:
		return errors.New("it claims to be MDS without a threshold")
	case d.Pieces < 0 || d.Pieces > 0 && d.ABlocks%d.Pieces != 0:
		return fmt.Errorf("%d pieces of %d A blocks", d.Pieces, d.ABlocks)
	}
	return nil
}

// expand gives the rows of every result of every task: the sum over its products
// of vec(u v^T).
func expand[E any](f field.Field[E], tasks []Coefficients[E], aBlocks, bBlocks int) (rows [][]E, first []int, err error) {
	for t, task := range tasks {
		first = append(first, len(rows))
		if err := checkTask(task, aBlocks, bBlocks); err != nil {
			return nil, nil, fmt.Errorf("task %d: %w", t, err)
		}
		rows = append(rows, task.Expand(f)...)
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
	if task.Results != nil && len(task.Results) == 0 {
		return errors.New("no result")
	}
	for i, result := range task.Results {
		if len(result) == 0 {
			return fmt.Errorf("result %d is the sum of no product", i)
		}
		for _, p := range result {
			if p.A < 0 || p.A >= len(task.A) || p.B < 0 || p.B >= len(task.B) {
				return fmt.Errorf("product of coded blocks (%d,%d), it has %d by %d", p.A, p.B, len(task.A), len(task.B))
			}
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

// results lists what the task returns.
func (t Coefficients[E]) results() []Output {
	if t.Results != nil {
		return t.Results
	}
	return single(allPairs(len(t.A), len(t.B)))
}

// single makes an output of each pair.
func single(pairs []Pair) []Output {
	out := make([]Output, len(pairs))
	for i, p := range pairs {
		out[i] = Output{p}
	}
	return out
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

// results is the number of results of all tasks.
func (d Definition) results() int {
	n := 0
	for _, t := range d.Tasks {
		n += len(t.results())
	}
	return n
}

func (d Definition) outputs() []Output {
	if d.Outputs != nil {
		return d.Outputs
	}
	return single(allPairs(d.ABlocks, d.BBlocks))
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

// Kind returns the form of the jobs that the code is for.
func (c *Code) Kind() Kind { return c.def.Kind }

// Approximate tells whether even all tasks may not decode exactly.
func (c *Code) Approximate() bool { return c.def.Approximate }

// OwnWeights tells whether the code has decode weights of its own, which need
// not be those of least norm.
func (c *Code) OwnWeights() bool { return c.def.Weights != nil }

// Prefix returns the claimed number of results that decode every output if those
// of each task are the first in its order; 0 if nothing is claimed.
func (c *Code) Prefix() int { return c.def.Prefix }

// Threshold returns the claimed number of tasks of which any decode every output;
// 0 if nothing is claimed.
func (c *Code) Threshold() int { return c.def.Threshold }

// MDS tells whether the code claims that no smaller set than Threshold decodes.
func (c *Code) MDS() bool { return c.def.MDS }

// Pieces returns the number of pieces into which the gradient of a part is cut,
// 1 for any other job.
func (c *Code) Pieces() int { return max(1, c.def.Pieces) }

// Outputs returns the number of wanted outputs.
func (c *Code) Outputs() int { return len(c.wanted) }

// Task returns the coefficients of a task, 0 <= t < N, borrowed.
func (c *Code) Task(t int) Task { return c.def.Tasks[t] }

// Rows returns the rows of M that a task gives, 0 <= t < N: one for each of its
// results, over the products A_a*B_b in row-major order. They are borrowed.
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

// checkSet checks that a list of tasks has no stranger and no duplicate. The error
// is a *TaskError.
func (c *Code) checkSet(have []int) error {
	seen := make([]bool, c.N())
	for _, t := range have {
		if t < 0 || t >= c.N() {
			return &TaskError{Code: c.String(), Task: t, Tasks: c.N()}
		}
		if seen[t] {
			return &TaskError{Code: c.String(), Task: t, Tasks: c.N(), Twice: true}
		}
		seen[t] = true
	}
	return nil
}
