package exact

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded/field"
	"github.com/coda-ml/coda/internal/kernel"
)

// Vector holds elements modulo 65537 in two bytes each: element i is Low[i], and
// one more if Carry lists i. So 65536, which one in 65537 random elements is, is
// 65535 with a carry; any number of carries is allowed. It is the form for large
// operands, to compute with and to send.
type Vector struct {
	Low   []uint16
	Carry []int // ascending
}

// Pack returns elements of GF(65537) as a vector.
func Pack(x []uint64) (Vector, error) {
	v := Vector{Low: make([]uint16, len(x))}
	for i, e := range x {
		switch {
		case e < 1<<16:
			v.Low[i] = uint16(e)
		case e == 1<<16:
			v.Low[i] = 1<<16 - 1
			v.Carry = append(v.Carry, i)
		default:
			return Vector{}, fmt.Errorf("exact: pack: element %d is %d, want at most 65536", i, e)
		}
	}
	return v, nil
}

// Unpack returns the elements.
func (v Vector) Unpack() []uint64 {
	x := make([]uint64, len(v.Low))
	for i, e := range v.Low {
		x[i] = uint64(e)
	}
	for _, i := range v.Carry {
		x[i]++
	}
	return x
}

// Check checks a vector of n elements that came from elsewhere.
func (v Vector) Check(n int) error {
	if len(v.Low) != n {
		return fmt.Errorf("exact: vector of %d elements, want %d", len(v.Low), n)
	}
	for j, i := range v.Carry {
		switch {
		case i < 0 || i >= n:
			return fmt.Errorf("exact: carry at element %d of %d", i, n)
		case j > 0 && i <= v.Carry[j-1]:
			return fmt.Errorf("exact: carry at element %d after %d, want an ascending order", i, v.Carry[j-1])
		case v.Low[i] != 1<<16-1:
			return fmt.Errorf("exact: element %d has a carry and is %d, want 65535", i, v.Low[i])
		}
	}
	return nil
}

// Multiply computes C = A B modulo 65537, with A m x k and B k x n row-major, and
// writes the m*n elements of dst, whose memory it uses. It computes on the
// goroutines of the pool, nil being the caller's only.
func Multiply(pool *kernel.Pool, dst *Vector, a, b Vector, m, k, n int) error {
	if m < 0 || k < 0 || n < 0 {
		return fmt.Errorf("exact: multiply: sizes %d x %d x %d", m, k, n)
	}
	if err := a.Check(m * k); err != nil {
		return fmt.Errorf("exact: multiply: A of %d x %d: %w", m, k, err)
	}
	if err := b.Check(k * n); err != nil {
		return fmt.Errorf("exact: multiply: B of %d x %d: %w", k, n, err)
	}
	if len(dst.Low) != m*n {
		return fmt.Errorf("exact: multiply: result of %d elements, want %d x %d", len(dst.Low), m, n)
	}
	c := kernel.Fermat{Rows: rowsOf(dst.Low, m, n)}
	kernel.FermatProduct(pool, &c, &kernel.Fermat{Rows: rowsOf(a.Low, m, k), Carry: entries(a.Carry, k)},
		&kernel.Fermat{Rows: rowsOf(b.Low, k, n), Carry: entries(b.Carry, n)})
	dst.Carry = dst.Carry[:0]
	for _, e := range c.Carry {
		dst.Carry = append(dst.Carry, e.Row*n+e.Col)
	}
	return nil
}

// rowsOf cuts elements in rows.
func rowsOf(x []uint16, rows, cols int) [][]uint16 {
	out := make([][]uint16, rows)
	for i := range out {
		out[i] = x[i*cols : (i+1)*cols]
	}
	return out
}

// entries gives the places of elements of a matrix with so many columns.
func entries(at []int, cols int) []kernel.Entry {
	out := make([]kernel.Entry, len(at))
	for j, i := range at {
		out[j] = kernel.Entry{Row: i / cols, Col: i % cols}
	}
	return out
}

// Combine computes dst[i] = sum_j weights[i][j] xs[j] modulo 65537, all at once, so
// that each of xs is read once: encoding and decoding are this. The vectors are of
// equal length, those of dst written in their memory.
func Combine(pool *kernel.Pool, dst []*Vector, weights [][]uint64, xs []Vector) error {
	if len(dst) == 0 {
		return nil
	}
	n := len(dst[0].Low)
	w, err := checkCombine(dst, weights, xs, n)
	if err != nil {
		return fmt.Errorf("exact: combine: %w", err)
	}
	b, c := kernel.Fermat{}, kernel.Fermat{}
	for j, x := range xs {
		b.Rows = append(b.Rows, x.Low)
		for _, i := range x.Carry {
			b.Carry = append(b.Carry, kernel.Entry{Row: j, Col: i})
		}
	}
	for _, d := range dst {
		c.Rows = append(c.Rows, d.Low)
		d.Carry = d.Carry[:0]
	}
	kernel.FermatProduct(pool, &c, &kernel.Fermat{Rows: rowsOf(w.Low, len(dst), len(xs)), Carry: entries(w.Carry, len(xs))}, &b)
	for _, e := range c.Carry {
		dst[e.Row].Carry = append(dst[e.Row].Carry, e.Col)
	}
	return nil
}

// checkCombine checks the arguments of Combine and packs the weights.
func checkCombine(dst []*Vector, weights [][]uint64, xs []Vector, n int) (Vector, error) {
	if len(weights) != len(dst) {
		return Vector{}, fmt.Errorf("%d rows of weights for %d results", len(weights), len(dst))
	}
	for i, d := range dst {
		if len(weights[i]) != len(xs) {
			return Vector{}, fmt.Errorf("%d weights of result %d for %d vectors", len(weights[i]), i, len(xs))
		}
		if len(d.Low) != n {
			return Vector{}, fmt.Errorf("result %d has %d elements, want %d", i, len(d.Low), n)
		}
	}
	for j, x := range xs {
		if err := x.Check(n); err != nil {
			return Vector{}, fmt.Errorf("vector %d: %w", j, err)
		}
	}
	return Pack(slices.Concat(weights...))
}

// checkFermat checks that a code's elements are those of vectors.
func (c *Code) checkFermat() error {
	if c.p != field.Fermat {
		return fmt.Errorf("exact: %v: vectors hold elements modulo 65537", c)
	}
	return nil
}

// EncodeVectors computes the coded blocks of all tasks that hold one on each side,
// A blocks and B blocks being given as vectors of their elements.
func (c *Code) EncodeVectors(pool *kernel.Pool, codedA, codedB []*Vector, a, b []Vector) error {
	if err := c.checkFermat(); err != nil {
		return err
	}
	var u, v [][]uint64
	for t, task := range c.tasks {
		if len(task.A) != 1 || len(task.B) != 1 {
			return fmt.Errorf("exact: %v: task %d has %d coded A blocks and %d coded B blocks, want 1 of each", c, t, len(task.A), len(task.B))
		}
		u, v = append(u, task.A[0]), append(v, task.B[0])
	}
	if err := Combine(pool, codedA, u, a); err != nil {
		return fmt.Errorf("exact: %v: encode A: %w", c, err)
	}
	if err := Combine(pool, codedB, v, b); err != nil {
		return fmt.Errorf("exact: %v: encode B: %w", c, err)
	}
	return nil
}

// DecodeVectors is Decode of vectors, into the memory of outputs.
func (d *Decoder) DecodeVectors(pool *kernel.Pool, outputs []*Vector, have []int, results []Vector) error {
	if err := d.code.checkFermat(); err != nil {
		return err
	}
	weights, err := d.Weights(have)
	if err != nil {
		return err
	}
	if err := Combine(pool, outputs, weights, results); err != nil {
		return fmt.Errorf("exact: %v: decode: %w", d.code, err)
	}
	return nil
}
