package exact

import (
	"fmt"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// Verifier tests products A B of a matrix A, which is kept, without computing them:
//
//	C = A B  implies  z C = (z A) B
//
// for a vector z of elements drawn at random, and a false C passes with a
// probability of 1/p, p^-reps for so many vectors: z C - z A B is a linear form in
// z that is not 0 (R. Freivalds, "Probabilistic machines can use less running time",
// IFIP Congress 1977, over a field). A test takes as many operations as B and C have
// elements. Those who compute must not know z. It is immutable.
type Verifier struct {
	p    field.Prime
	a    Matrix     // without data
	z    [][]uint64 // for each repetition, an element for each row
	sums [][]uint64 // z A
}

// NewVerifier draws so many vectors and multiplies them by A.
func NewVerifier(p field.Prime, a Matrix, reps int, rng *rand.Rand) (*Verifier, error) {
	switch {
	case !p.Valid():
		return nil, fmt.Errorf("exact: verifier: %d is none of the fields", p)
	case reps < 1:
		return nil, fmt.Errorf("exact: verifier: %d repetitions, want at least 1", reps)
	case rng == nil:
		return nil, fmt.Errorf("exact: verifier: no random source")
	}
	if err := a.check(p); err != nil {
		return nil, fmt.Errorf("exact: verifier: A: %w", err)
	}
	v := &Verifier{p: p, a: Matrix{Rows: a.Rows, Cols: a.Cols}}
	for range reps {
		z := make([]uint64, a.Rows)
		for i := range z {
			z[i] = rng.Uint64N(uint64(p))
		}
		v.z, v.sums = append(v.z, z), append(v.sums, times(p, z, a))
	}
	return v, nil
}

// VerifyError says that a matrix is not the product that it should be: the sum of
// a column with random factors is another.
type VerifyError struct {
	Column    int
	Got, Want uint64
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("the result is not the product: column %d is %d in a sum with random factors, want %d", e.Column, e.Got, e.Want)
}

// Check tests whether C is the product of A and B. The error is a *VerifyError if it
// is not; another one if it cannot be, for its size or its elements.
func (v *Verifier) Check(c, b Matrix) error {
	if err := b.check(v.p); err != nil {
		return fmt.Errorf("exact: verify: B: %w", err)
	}
	if err := c.check(v.p); err != nil {
		return fmt.Errorf("exact: verify: C: %w", err)
	}
	if b.Rows != v.a.Cols || c.Rows != v.a.Rows || c.Cols != b.Cols {
		return fmt.Errorf("exact: verify: A is %d x %d, B %d x %d, C %d x %d", v.a.Rows, v.a.Cols, b.Rows, b.Cols, c.Rows, c.Cols)
	}
	for rep, z := range v.z {
		got, want := times(v.p, z, c), times(v.p, v.sums[rep], b)
		for j, w := range want {
			if got[j] != w {
				return &VerifyError{Column: j, Got: got[j], Want: w}
			}
		}
	}
	return nil
}

// VerifyProduct tests whether C is the product of A and B: see Verifier.
func VerifyProduct(p field.Prime, c, a, b Matrix, reps int, rng *rand.Rand) error {
	v, err := NewVerifier(p, a, reps, rng)
	if err != nil {
		return err
	}
	return v.Check(c, b)
}

// times returns the row vector z M.
func times(p field.Prime, z []uint64, m Matrix) []uint64 {
	rows := make([][]uint64, m.Rows)
	for i := range rows {
		rows[i] = m.Data[i*m.Cols : (i+1)*m.Cols]
	}
	sum := make([]uint64, m.Cols)
	p.Combine(sum, z, rows)
	return sum
}
