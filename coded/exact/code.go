package exact

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/field"
)

// Code is a code over a prime field. It is immutable.
type Code struct {
	name             string
	p                field.Prime
	aBlocks, bBlocks int
	tasks            []coded.ModularTask
	rows             [][]uint64       // of M, task after task
	first            []int            // task t has rows first[t] .. first[t+1]-1
	wanted           [][]uint64       // W
	transform        *field.Transform // of a polynomial code whose first tasks are at roots of unity
}

// Of returns a code of package coded over a field. It fails if the code has no
// form there: see coded.Code.Modular.
func Of(c *coded.Code, p field.Prime) (*Code, error) {
	tasks, err := c.Modular(p)
	if err != nil {
		return nil, err
	}
	code := &Code{name: c.String(), p: p, aBlocks: c.K(), bBlocks: c.BBlocks(), tasks: tasks}
	for _, row := range c.Wanted() {
		w := make([]uint64, len(row))
		for j, v := range row {
			w[j] = p.Int(int64(v)) // how often a product is in an output
		}
		code.wanted = append(code.wanted, w)
	}
	code.expand()
	return code, nil
}

func (c *Code) expand() {
	c.first = []int{0}
	for _, task := range c.tasks {
		c.rows = append(c.rows, task.Expand(c.p)...)
		c.first = append(c.first, len(c.rows))
	}
}

// Polynomial returns the polynomial code of n tasks for A cut into m row blocks
// and B into q column blocks, whose product has m*q blocks C_ij = A_i B_j:
//
//	A(x) = sum_i A_i x^i,  B(x) = sum_j B_j x^(m j),  A(x) B(x) = sum_ij C_ij x^(i+mj)
//
// (Q. Yu, M. Maddah-Ali, S. Avestimehr, "Polynomial codes", NIPS 2017). Any m*q
// tasks decode. The first m*q tasks, if the field has a root of unity of that
// order, are at its powers, so that the answers of just these are the Fourier
// transform of the outputs; the others are at 3 times them, then 9 times, and so
// on. Else task w is at w+1. Output i*q+j is C_ij.
func Polynomial(p field.Prime, n, m, q int) (*Code, error) {
	if !p.Valid() {
		return nil, fmt.Errorf("exact: polynomial code: %d is none of the fields", p)
	}
	if m < 1 || q < 1 || n < 1 || n > coded.MaxTasks || m > n || q > n/m {
		return nil, fmt.Errorf("exact: polynomial code: n=%d, m=%d, q=%d, want m*q of at most n, and n of at most %d", n, m, q, coded.MaxTasks)
	}
	c := &Code{name: fmt.Sprintf("polynomial (%d,%dx%d)", n, m, q), p: p, aBlocks: m, bBlocks: q}
	points := c.points(n, m*q)
	for _, x := range points {
		c.tasks = append(c.tasks, coded.ModularTask{
			A: [][]uint64{powers(p, x, m)},
			B: [][]uint64{powers(p, field.Pow(p, x, int64(m)), q)},
		})
	}
	for i := range m * q {
		w := make([]uint64, m*q)
		w[i] = 1
		c.wanted = append(c.wanted, w)
	}
	c.expand()
	return c, nil
}

// points returns n different points, the first ones roots of unity of order k if
// there are such, whose transform it keeps.
func (c *Code) points(n, k int) []uint64 {
	points := make([]uint64, n)
	for w := range points {
		points[w] = uint64(w + 1)
	}
	// The cosets of the roots of unity are different for 3^0 .. 3^((p-1)/k-1).
	if c.p != field.Fermat || bits.OnesCount(uint(k)) != 1 {
		return points
	}
	transform, err := field.NewTransform(c.p, k)
	root, rootErr := c.p.Root(k)
	if errors.Join(err, rootErr) != nil {
		return points
	}
	c.transform = transform
	for w := range points {
		coset := field.Pow(c.p, 3, int64(w/k))
		points[w] = c.p.Mul(coset, field.Pow(c.p, root, int64(w%k)))
	}
	return points
}

// powers returns x^0 .. x^(n-1).
func powers(p field.Prime, x uint64, n int) []uint64 {
	row := make([]uint64, n)
	for i, v := 0, uint64(1); i < n; i, v = i+1, p.Mul(v, x) {
		row[i] = v
	}
	return row
}

// String names the code with its sizes.
func (c *Code) String() string { return fmt.Sprintf("%s modulo %d", c.name, c.p) }

// Field returns the field.
func (c *Code) Field() field.Prime { return c.p }

// N returns the number of tasks.
func (c *Code) N() int { return len(c.tasks) }

// Task returns the coefficients of a task, 0 <= t < N, borrowed.
func (c *Code) Task(t int) coded.ModularTask { return c.tasks[t] }

// Outputs returns the number of wanted outputs.
func (c *Code) Outputs() int { return len(c.wanted) }

// Results returns the number of results of a list of tasks.
func (c *Code) Results(have []int) int {
	n := 0
	for _, t := range have {
		n += c.first[t+1] - c.first[t]
	}
	return n
}

// stranger is the error of a task that the code does not have.
func (c *Code) stranger(task int) error {
	return fmt.Errorf("exact: %w", &coded.TaskError{Code: c.String(), Task: task, Tasks: c.N()})
}

// checkSet checks that a list of tasks is ascending and has no stranger.
func (c *Code) checkSet(have []int) error {
	for i, t := range have {
		if t < 0 || t >= c.N() {
			return c.stranger(t)
		}
		if i > 0 && t <= have[i-1] {
			return fmt.Errorf("exact: %v: task %d is listed after %d, want an ascending order", c, t, have[i-1])
		}
	}
	return nil
}
