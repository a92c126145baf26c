package exact

import (
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// Matrix is a matrix of elements of a prime field, row-major.
type Matrix struct {
	Rows, Cols int
	Data       []uint64 // 0 .. p-1
}

// NewMatrix returns a matrix of zeros.
func NewMatrix(rows, cols int) Matrix { return Matrix{rows, cols, make([]uint64, rows*cols)} }

// check checks that the data fit the size and are elements of the field.
func (m Matrix) check(p field.Prime) error {
	if m.Rows < 0 || m.Cols < 0 || m.Cols > 0 && m.Rows > len(m.Data)/m.Cols || m.Rows*m.Cols != len(m.Data) {
		return fmt.Errorf("%d elements for %d x %d", len(m.Data), m.Rows, m.Cols)
	}
	for i, v := range m.Data {
		if v >= uint64(p) {
			return fmt.Errorf("element %d is %d, want less than %d", i, v, p)
		}
	}
	return nil
}

// Product returns A B modulo p.
func Product(p field.Prime, a, b Matrix) (Matrix, error) {
	if !p.Valid() {
		return Matrix{}, fmt.Errorf("exact: product: %d is none of the fields", p)
	}
	if err := a.check(p); err != nil {
		return Matrix{}, fmt.Errorf("exact: product: A: %w", err)
	}
	if err := b.check(p); err != nil {
		return Matrix{}, fmt.Errorf("exact: product: B: %w", err)
	}
	if a.Cols != b.Rows {
		return Matrix{}, fmt.Errorf("exact: product: A is %d x %d, B %d x %d", a.Rows, a.Cols, b.Rows, b.Cols)
	}
	return product(p, a, b), nil
}

func product(p field.Prime, a, b Matrix) Matrix {
	c := NewMatrix(a.Rows, b.Cols)
	rows := make([][]uint64, b.Rows)
	// A block of columns of B stays in the cache while the rows of A pass.
	for at := 0; at < b.Cols; at += productColumns {
		end := min(at+productColumns, b.Cols)
		for k := range rows {
			rows[k] = b.Data[k*b.Cols+at : k*b.Cols+end]
		}
		for i := range a.Rows {
			p.Combine(c.Data[i*c.Cols+at:i*c.Cols+end], a.Data[i*a.Cols:(i+1)*a.Cols], rows)
		}
	}
	return c
}

const productColumns = 256

// checkEqual checks matrices that must be of one size.
func (c *Code) checkEqual(what string, xs []Matrix) error {
	for i, x := range xs {
		if err := x.check(c.p); err != nil {
			return fmt.Errorf("exact: %v: %s %d: %w", c, what, i, err)
		}
		if x.Rows != xs[0].Rows || x.Cols != xs[0].Cols {
			return fmt.Errorf("exact: %v: %s %d is %d x %d, want %d x %d", c, what, i, x.Rows, x.Cols, xs[0].Rows, xs[0].Cols)
		}
	}
	return nil
}

// combine returns the sum of w[i] xs[i]; xs are of one size and at least one.
func (c *Code) combine(w []uint64, xs []Matrix) Matrix {
	dst := NewMatrix(xs[0].Rows, xs[0].Cols)
	data := make([][]uint64, len(xs))
	for i, x := range xs {
		data[i] = x.Data
	}
	c.p.Combine(dst.Data, w, data)
	return dst
}

// Encode returns the coded blocks of a task: those of A and those of B. The blocks
// of a side are of one size.
func (c *Code) Encode(task int, a, b []Matrix) (codedA, codedB []Matrix, err error) {
	if task < 0 || task >= c.N() {
		return nil, nil, c.stranger(task)
	}
	if len(a) != c.aBlocks || len(b) != c.bBlocks {
		return nil, nil, fmt.Errorf("exact: %v: %d A blocks and %d B blocks, want %d and %d", c, len(a), len(b), c.aBlocks, c.bBlocks)
	}
	if err := c.checkEqual("A block", a); err != nil {
		return nil, nil, err
	}
	if err := c.checkEqual("B block", b); err != nil {
		return nil, nil, err
	}
	for _, u := range c.tasks[task].A {
		codedA = append(codedA, c.combine(u, a))
	}
	for _, v := range c.tasks[task].B {
		codedB = append(codedB, c.combine(v, b))
	}
	return codedA, codedB, nil
}

// Run does what a worker does: it encodes both sides and computes the results of
// the task. For a linear job b is one block, that which the A blocks are to be
// multiplied by.
func (c *Code) Run(task int, a, b []Matrix) ([]Matrix, error) {
	codedA, codedB, err := c.Encode(task, a, b)
	if err != nil {
		return nil, err
	}
	if a[0].Cols != b[0].Rows {
		return nil, fmt.Errorf("exact: %v: A blocks are %d x %d, B blocks %d x %d", c, a[0].Rows, a[0].Cols, b[0].Rows, b[0].Cols)
	}
	var results []Matrix
	for _, products := range c.tasks[task].Products() {
		sum := NewMatrix(a[0].Rows, b[0].Cols)
		for _, pair := range products {
			for i, v := range product(c.p, codedA[pair.A], codedB[pair.B]).Data {
				sum.Data[i] = c.p.Add(sum.Data[i], v)
			}
		}
		results = append(results, sum)
	}
	return results, nil
}
