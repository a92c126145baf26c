package coded

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded/field"
)

// Most codes for a product of matrices are values of polynomials: task w has a
// point x_w, its coded blocks are A(x_w) and B(x_w) with
//
//	A(x) = sum_a A_a f_e(a)(x),  B(x) = sum_b B_b f_e(b)(x)
//
// and its result is the value at x_w of the polynomial A(x) B(x), some of whose
// coefficients are the wanted blocks of C. The codes differ in the basis f_0,
// f_1, .. and in the index e of each block.

// evaluated is such a code.
type evaluated struct {
	basis basis
	// a and b hold, for each coded block of a task, the index e of every block,
	// or absent if the block has no part in it.
	a, b    [][]int
	results []Output // of every task, see Coefficients
	// nodes is the number of tasks, the first ones, whose points are spread out
	// over all of them: those of the Lagrange basis.
	nodes int
}

// absent stands for the index of a block that a coded block leaves out.
const absent = -1

// basis is a basis of the polynomials.
type basis uint8

const (
	monomialBasis        basis = iota // f_e = x^e
	chebyshevBasis                    // f_e = T_e, the Chebyshev polynomial cos(e arccos x)
	halvedChebyshevBasis              // likewise, with f_0 = 1/2
	lagrangeBasis                     // f_e = 1 at the point of task e, 0 at that of every other node
)

// define gives the tasks of an evaluated code at n points: the Chebyshev points of
// the reals, and as many of a prime field.
func (e evaluated) define(n int) Definition {
	return Definition{
		ABlocks: len(e.a[0]), BBlocks: len(e.b[0]),
		Tasks: evaluate(e, field.Real{}, spread(intervalPoints(n), e.nodes)),
		Modular: func(p field.Prime) ([]ModularTask, error) {
			points, err := modularPoints(p, n)
			if err != nil {
				return nil, err
			}
			return evaluate(e, p, spread(points, e.nodes)), nil
		},
	}
}

func evaluate[E any](e evaluated, f field.Field[E], points []E) []Coefficients[E] {
	tasks := make([]Coefficients[E], len(points))
	count := e.functions()
	for w := range tasks {
		values := basisValues(f, e, points, w, count)
		tasks[w] = Coefficients[E]{A: pick(f, values, e.a), B: pick(f, values, e.b), Results: e.results}
	}
	return tasks
}

// pick gives the coefficients of coded blocks, the values of the basis being known.
func pick[E any](f field.Field[E], values []E, indices [][]int) [][]E {
	rows := make([][]E, len(indices))
	for i, index := range indices {
		rows[i] = make([]E, len(index))
		for j, e := range index {
			if rows[i][j] = f.Int(0); e != absent {
				rows[i][j] = values[e]
			}
		}
	}
	return rows
}

// functions is the number of basis functions up to the last that is in use.
func (e evaluated) functions() int {
	highest := 0
	for _, side := range [][][]int{e.a, e.b} {
		for _, index := range side {
			for _, i := range index {
				highest = max(highest, i)
			}
		}
	}
	return highest + 1
}

// basisValues gives so many basis functions at the point of task w.
func basisValues[E any](f field.Field[E], e evaluated, points []E, w, count int) []E {
	x := points[w]
	switch e.basis {
	case lagrangeBasis:
		return lagrangeValues(f, points[:e.nodes], x, w)
	case monomialBasis:
		return powers(f, x, count)
	}
	values := chebyshevRow(f, x, count)
	if e.basis == halvedChebyshevBasis {
		values[0] = f.Inv(f.Int(2))
	}
	return values
}

// powers gives 1, x, x^2 ..
func powers[E any](f field.Field[E], x E, count int) []E {
	row := []E{f.Int(1)}
	for len(row) < count {
		row = append(row, f.Mul(row[len(row)-1], x))
	}
	return row
}

// lagrangeValues gives the Lagrange polynomials of some nodes at x, the point of
// task w; exactly 0 and 1 if w is one of the nodes.
func lagrangeValues[E any](f field.Field[E], nodes []E, x E, w int) []E {
	values := make([]E, len(nodes))
	for k, at := range nodes {
		if w < len(nodes) {
			if values[k] = f.Int(0); k == w {
				values[k] = f.Int(1)
			}
			continue
		}
		num, den := f.Int(1), f.Int(1)
		for l, other := range nodes {
			if l != k {
				num, den = f.Mul(num, f.Sub(x, other)), f.Mul(den, f.Sub(at, other))
			}
		}
		values[k] = f.Mul(num, f.Inv(den))
	}
	return values
}

// intervalPoints gives n points, descending: sin(pi (n-1-2w) / (2n + 1/10)). The
// roots of T_n have 2n in the denominator. These lie closer to 0 by a twentieth of
// their distance: it costs nothing in conditioning and undoes relations between the
// roots, such as three that sum to 0, by which sets decode early that do not at
// other points. Their symmetry stays.
func intervalPoints(n int) []float64 {
	points := make([]float64, n)
	for w := range points {
		points[w] = math.Sin(math.Pi * float64(n-1-2*w) / (float64(2*n) + 0.1))
	}
	return points
}

// modularPoints gives n different points of a prime field, a fixed sequence of
// random numbers so that they have no relations either, save that they are
// symmetric about 0 as the real points are: sets of tasks that decode early because
// a coefficient of an even polynomial is 0 do so in every field.
func modularPoints(p field.Prime, n int) ([]uint64, error) {
	if uint64(n) > uint64(p)/2 {
		return nil, fmt.Errorf("modulo %d there are no %d points that are drawn", p, n)
	}
	points := make([]uint64, n)
	seen := map[uint64]bool{0: true}
	rng := rand.New(rand.NewPCG(uint64(p), 0))
	for w := 0; w < n/2; {
		x := rng.Uint64N(uint64(p))
		if seen[x] {
			continue
		}
		points[w], points[n-1-w] = x, p.Sub(0, x)
		seen[x], seen[points[n-1-w]] = true, true
		w++
	}
	return points, nil
}

// spread puts so many points first that are evenly spread over the order; the
// others follow as they are.
func spread[E any](points []E, nodes int) []E {
	if nodes == 0 {
		return points
	}
	first := make([]bool, len(points))
	out := make([]E, 0, len(points))
	for k := range nodes {
		at := (2*k + 1) * len(points) / (2 * nodes)
		first[at] = true
		out = append(out, points[at])
	}
	for w, x := range points {
		if !first[w] {
			out = append(out, x)
		}
	}
	return out
}

// indices gives rows x cols numbers, row by row: the index of every block of a grid.
func indices(rows, cols int, index func(i, j int) int) []int {
	out := make([]int, 0, rows*cols)
	for i := range rows {
		for j := range cols {
			out = append(out, index(i, j))
		}
	}
	return out
}

// boundedProduct is the product of positive factors, or more than maxEntries if it
// is more than that.
func boundedProduct(factors ...int) int {
	product := 1
	for _, f := range factors {
		if f > maxEntries/product {
			return maxEntries + 1
		}
		product *= f
	}
	return product
}

// checkMatrix checks that a code for a product of matrices cut into m x p and
// p x q blocks has the tasks that it needs, and a reasonable size.
func (s Spec) checkMatrix(m, p, q int, formula string, threshold int) error {
	if s.N < threshold {
		if threshold > MaxTasks {
			return fmt.Errorf("n must be at least %s, but at most %d", formula, MaxTasks)
		}
		return fmt.Errorf("n must be at least %s = %d", formula, threshold)
	}
	if boundedProduct(s.N, m, p, p, q) > maxEntries {
		return errors.New("the blocks are too many")
	}
	return nil
}
