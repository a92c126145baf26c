package coded

import (
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// Reencoding turns the coded blocks of a running job into those of a finer one, at
// the tasks themselves: nothing is sent, and the data is not needed. So a job may
// be planned coarsely, for few tasks, and cut more finely when many are there.
//
// Task w of an entangled code with m, p, q has A(x), B(x) at its point x. It cuts its
// own A(x) into r row pieces A(x)^a and its own B(x) into c column pieces B(x)^b, and
// combines them, with D = m p q, to
//
//	A'(x) = sum_a x^(D a) A(x)^a,  B'(x) = sum_b x^(D r b) B(x)^b
//
// which are coded blocks of the job with A in m r x p blocks and B in p x q c: the
// useful powers p-1 + p (i + m j + m q (a + r b)) are all different, the degree is
// p (m r)(q c) + p - 2, and any p (m r)(q c) + p - 1 results decode, as few as with
// the entangled code of that job itself. (That servers re-encode what they hold is
// due to X. Su, X. Zhong, X. Fan, J. Li, Local re-encoding for coded matrix
// multiplication, ISIT 2020; these powers are derived here.)
//
// A task passes once over its own blocks. Numerics: as polynomial, with the new
// threshold for k.
type Reencoding struct {
	// Code is that of the finer job. Its A block (i r + a, k) is row piece a of A
	// block (i, k), as it is with its padding, and its B block (k, j c + b) is column
	// piece b of (k, j).
	Code *Code
	// A and B have for each task the coefficients of the row pieces of its A block
	// and of the column pieces of its B block, for EncodeRows and EncodeColumns.
	A, B [][]float64

	spec       Spec
	rows, cols int
}

// Reencode gives the re-encoding of the jobs of a polynomial, matdot or entangled
// code, every coded A block being cut into so many row pieces and every B block
// into so many column pieces. It fails with a *SpecError if the spec names no such
// code, or n is below the threshold of the finer job.
func Reencode(s Spec, rows, cols int) (*Reencoding, error) {
	if _, err := New(s); err != nil {
		return nil, err
	}
	e, err := newReencoding(s, rows, cols)
	if err != nil {
		return nil, &SpecError{s, fmt.Sprintf("re-encoded in %d x %d pieces: %v", rows, cols, err)}
	}
	return e, nil
}

func newReencoding(s Spec, rows, cols int) (*Reencoding, error) {
	switch s.Name {
	case entangled.Name, polynomial.Name, matdot.Name:
	default:
		return nil, fmt.Errorf("the code must be %s, %s or %s", polynomial.Name, matdot.Name, entangled.Name)
	}
	if rows < 1 || cols < 1 {
		return nil, fmt.Errorf("there must be at least 1 x 1")
	}
	e := &Reencoding{spec: s, rows: rows, cols: cols}
	m, p, q := s.grid()
	k := boundedProduct(m, p, q, rows, cols) + p - 1
	if err := s.checkMatrix(boundedProduct(m, rows), p, boundedProduct(q, cols), "p*(m*rows)*(q*cols)+p-1", k); err != nil {
		return nil, err
	}
	d := evaluated{
		a: [][]int{indices(m*rows, p, func(i, k int) int { return k + p*(i/rows) + m*p*q*(i%rows) })},
		b: [][]int{indices(p, q*cols, func(k, j int) int { return p - 1 - k + p*m*(j/cols) + m*p*q*rows*(j%cols) })},
	}.define(s.N)
	d.Name, d.Doc, d.Paper, d.Kind = s.Name+", re-encoded", entangled.Doc, entangled.Paper, Bilinear
	d.Outputs = matrixOutputs(m*rows, p, q*cols)
	d.Threshold, d.MDS = k, p == 1
	var err error
	if e.Code, err = NewCode(d); err != nil {
		return nil, err
	}
	e.A, e.B = recombinations(field.Real{}, intervalPoints(s.N), m*p*q, rows, cols)
	return e, nil
}

// Modular gives A and B for tasks over a prime field.
func (e *Reencoding) Modular(p field.Prime) (a, b [][]uint64, err error) {
	points, err := modularPoints(p, e.spec.N)
	if err != nil {
		return nil, nil, fmt.Errorf("coded: re-encode %v: %w", e.spec, err)
	}
	m, inner, q := e.spec.grid()
	a, b = recombinations(p, points, m*inner*q, e.rows, e.cols)
	return a, b, nil
}

// recombinations gives x^(step a) and x^(step rows b) at every point.
func recombinations[E any](f field.Field[E], points []E, step, rows, cols int) (a, b [][]E) {
	for _, x := range points {
		z := field.Pow(f, x, int64(step))
		a, b = append(a, powers(f, z, rows)), append(b, powers(f, field.Pow(f, z, int64(rows)), cols))
	}
	return a, b
}

// grid gives the numbers of blocks of a spec, 1 where it has none.
func (s Spec) grid() (m, p, q int) { return max(1, s.M), max(1, s.P), max(1, s.Q) }
