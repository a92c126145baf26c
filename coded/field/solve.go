package field

import (
	"fmt"
	"math"
	"slices"
)

// Pivoting is a field in which systems of equations can be solved by elimination.
type Pivoting[E any] interface {
	Field[E]
	// Size ranks elements as pivots: the larger one is to be preferred, and one
	// of size 0 cannot be divided by.
	Size(a E) float64
}

// Size returns |a|.
func (Real) Size(a float64) float64 { return math.Abs(a) }

// Size returns 0 for 0 and 1 for any other element.
func (p Prime) Size(a uint64) float64 {
	if a == 0 {
		return 0
	}
	return 1
}

// SingularError says that a square matrix has no inverse.
type SingularError struct{ Rank, Size int }

func (e *SingularError) Error() string {
	return fmt.Sprintf("a matrix of size %d is singular, of rank %d", e.Size, e.Rank)
}

// Solve returns the matrix X, n x m, with A X = B for a square matrix A, n x n,
// and B, n x m, by Gauss-Jordan elimination with row pivoting: about n^2 (n+m)
// products. A and B are left as they are. The error is a *SingularError; over the
// reals only a pivot that is 0 or not finite is one, so that the caller should
// know that A is well conditioned.
func Solve[E any](f Pivoting[E], a, b [][]E) ([][]E, error) {
	n := len(a)
	if len(b) != n {
		return nil, fmt.Errorf("%d equations with %d right-hand sides", n, len(b))
	}
	rows := make([][]E, n)
	for i := range rows {
		if len(a[i]) != n || len(b[i]) != len(b[0]) {
			return nil, fmt.Errorf("row %d has %d coefficients and %d right-hand sides, want %d and %d", i, len(a[i]), len(b[i]), n, len(b[0]))
		}
		rows[i] = slices.Concat(a[i], b[i])
	}
	for j := range n {
		if !pivot(f, rows, j) {
			return nil, &SingularError{j, n}
		}
		for i, row := range rows {
			if i != j {
				subtract(f, row[j:], row[j], rows[j][j:])
			}
		}
	}
	for i := range rows {
		rows[i] = rows[i][n:]
	}
	return rows, nil
}

// pivot brings the best pivot of column j to row j and makes it 1.
func pivot[E any](f Pivoting[E], rows [][]E, j int) bool {
	best := j
	for i := j + 1; i < len(rows); i++ {
		if f.Size(rows[i][j]) > f.Size(rows[best][j]) {
			best = i
		}
	}
	if size := f.Size(rows[best][j]); !(size > 0 && size <= math.MaxFloat64) {
		return false
	}
	rows[j], rows[best] = rows[best], rows[j]
	inv := f.Inv(rows[j][j])
	for i := j; i < len(rows[j]); i++ {
		rows[j][i] = f.Mul(rows[j][i], inv)
	}
	return true
}

// subtract takes c times the row y from the row x.
func subtract[E any](f Field[E], x []E, c E, y []E) {
	for i := range x {
		x[i] = f.Sub(x[i], f.Mul(c, y[i]))
	}
}
