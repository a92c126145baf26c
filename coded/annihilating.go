package coded

import (
	"cmp"
	"math"
	"slices"

	"github.com/coda-ml/coda/coded/field"
)

// annihilating defines the code whose groups of parts have the given holders, all
// equally many, at the given points.
func annihilating(holders [][]int, points []float64, parts, pieces int) (Definition, error) {
	copies := len(holders[0])
	rows, err := annihilatingRows(field.Real{}, points, holders, pieces)
	if err != nil {
		return Definition{}, err
	}
	for _, row := range rows {
		scaleToOne(row)
	}
	d := fromGradients(perPart(rows, parts, pieces), pieces)
	d.Threshold = len(points) - copies + pieces
	d.MDS = true
	d.Modular = modularRows(func(p field.Prime) ([][]uint64, error) {
		rows, err := annihilatingRows(p, powersOfThree(p, len(points)), holders, pieces)
		if err != nil {
			return nil, err
		}
		return perPart(rows, parts, pieces), nil
	})
	return d, nil
}

// annihilatingRows gives B, of a column for each piece of each group of parts.
func annihilatingRows[E any](f field.Pivoting[E], points []E, holders [][]int, pieces int) ([][]E, error) {
	rows := make([][]E, len(points))
	for w := range rows {
		rows[w] = make([]E, len(holders)*pieces)
	}
	var column [][]E
	for p, at := range holders {
		if p == 0 || !slices.Equal(at, holders[p-1]) {
			var err error
			if column, err = annihilatingColumns(f, points, at, pieces); err != nil {
				return nil, err
			}
		}
		for i, w := range at {
			copy(rows[w][p*pieces:], column[i])
		}
	}
	return rows, nil
}

// annihilatingColumns gives the coefficients of the holders of a group of parts, a
// row for each: column i takes the coefficient of T_(d-pieces+i) of a polynomial
// of degree below d, the number of holders, from its values at their points.
func annihilatingColumns[E any](f field.Pivoting[E], points []E, holders []int, pieces int) ([][]E, error) {
	d := len(holders)
	a, b := make([][]E, d), make([][]E, d)
	for r := range a {
		a[r], b[r] = make([]E, d), make([]E, pieces)
		if i := r - d + pieces; i >= 0 {
			b[r][i] = f.Int(1)
		}
	}
	for j, w := range holders {
		for r, t := range chebyshevValues(f, points[w], d) {
			a[r][j] = t
		}
	}
	return field.Solve(f, a, b)
}

// chebyshevValues gives T_0(x) .. T_(d-1)(x).
func chebyshevValues[E any](f field.Field[E], x E, d int) []E {
	t := []E{f.Int(1), x}
	for len(t) < d {
		n := len(t)
		t = append(t, f.Sub(f.Mul(f.Mul(f.Int(2), x), t[n-1]), t[n-2]))
	}
	return t[:d]
}

// powersOfThree gives points of a field that differ. Points in a row 1 .. n would
// do, but their differences repeat, and with them coefficients, which lets sets
// decode that do not do so at other points.
func powersOfThree(p field.Prime, n int) []uint64 {
	points := make([]uint64, n)
	x := uint64(1)
	for w := range points {
		points[w], x = x, p.Mul(x, 3)
	}
	return points
}

// spreadPoints gives n Chebyshev points in an order in which any d neighbours,
// modulo n, lie all over the interval: worker w has the rank of w*q modulo n, ties
// in the order of w, with q the integer next to n/d.
func spreadPoints(n, d int) []float64 {
	q := (2*n + d - 1) / (2 * d)
	order := make([]int, n)
	for w := range order {
		order[w] = w
	}
	slices.SortStableFunc(order, func(v, w int) int { return cmp.Compare(v*q%n, w*q%n) })
	points := make([]float64, n)
	for j, w := range order {
		points[w] = math.Cos(math.Pi * (float64(j) + 0.5) / float64(n))
	}
	return points
}

// scaleToOne scales a row that is not all zeros to a largest magnitude of 1.
func scaleToOne(row []float64) {
	var most float64
	for _, v := range row {
		most = max(most, math.Abs(v))
	}
	for j := range row {
		row[j] /= most
	}
}
