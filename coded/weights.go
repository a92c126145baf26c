package coded

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Weights decode a set of results: output c is the sum over i of D[c][i] times
// result i, where the results are those of the tasks Have, in that order (and of
// a task with several results, those in their order).
type Weights struct {
	Have []int       // ascending
	D    [][]float64 // outputs x results; exact zeros where a result is not needed

	// Cond is ||D|| ||M_S|| / ||W||, in spectral norms: by how much a relative
	// error of the results can grow. Of a one-sided code it is the condition
	// number of the rows of G.
	Cond float64
	// Residual is ||D M_S - W||^2 / ||W||^2 in Frobenius norms, the normalised
	// squared error to expect of products of equal size that have nothing in
	// common. It is 0 but for rounding when the set decodes.
	Residual float64
	// Residuals has the same for each output by itself.
	Residuals []float64
}

// Row returns the decode weights of an output. It is borrowed.
func (w *Weights) Row(output int) []float64 { return w.D[output] }

// Amplification returns the largest norm of a row of D: the standard deviation
// of an output's error when every result carries an independent error of
// standard deviation 1.
func (w *Weights) Amplification() float64 {
	var a float64
	for _, row := range w.D {
		a = max(a, norm(row))
	}
	return a
}

// solve finds the weights of a set, which it does not judge. have is ascending
// and without duplicates.
func (c *Code) solve(have []int) (*Weights, error) {
	if c.def.Weights != nil && len(have) > 0 {
		if d := c.def.Weights(have); d != nil {
			return c.given(have, d)
		}
	}
	w, err := c.leastNorm(have, c.wanted)
	if err != nil {
		return nil, fmt.Errorf("coded: weights: %v: results %v: %w", c, have, err)
	}
	return w, nil
}

// given measures weights that the code's definition gave.
func (c *Code) given(have []int, rows [][]float64) (*Weights, error) {
	m, want := c.stack(have), dense(c.wanted)
	results, _ := m.Dims()
	if len(rows) != len(c.wanted) {
		return nil, fmt.Errorf("coded: weights: %v: results %v: %d rows of weights for %d outputs", c, have, len(rows), len(c.wanted))
	}
	for i, row := range rows {
		if len(row) != results {
			return nil, fmt.Errorf("coded: weights: %v: results %v: %d weights for output %d, want %d", c, have, len(row), i, results)
		}
	}
	w := &Weights{Have: slices.Clone(have), D: rows, Residuals: make([]float64, len(rows))}
	d := dense(rows)
	w.Cond = spectralNorm(d) * spectralNorm(m) / spectralNorm(want)
	w.measure(d, m, want)
	return w, nil
}

// leastNorm finds, for given wanted rows, the weights of least norm among those
// with the least residual: D = W pinv(M_S).
func (c *Code) leastNorm(have []int, wanted [][]float64) (*Weights, error) {
	w := &Weights{Have: append([]int(nil), have...), Residuals: make([]float64, len(wanted))}
	if len(have) == 0 {
		w.D = make([][]float64, len(wanted))
		w.Residual = 1
		for i := range w.Residuals {
			w.Residuals[i] = 1
		}
		return w, nil
	}
	m, want := c.stack(have), dense(wanted)
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDThin) {
		return nil, errors.New("the singular value decomposition did not converge")
	}
	rank := svd.Rank(singularTolerance)
	d := decodeMatrix(m, want, &svd, rank)
	dropRounding(d)
	w.D = toRows(d)
	w.Cond = conditionOf(d, want, svd.Values(nil), rank)
	w.measure(d, m, want)
	return w, nil
}

// singularTolerance, times the largest singular value of M_S, is the largest
// that is taken for zero: a few times the rounding of the decomposition.
const singularTolerance = 1e-13

// decodeMatrix gives D: by LU for a regular square system, which leaves weights
// of 0 and 1 exact, and by the pseudoinverse otherwise.
func decodeMatrix(m, want *mat.Dense, svd *mat.SVD, rank int) *mat.Dense {
	rows, cols := m.Dims()
	outputs, _ := want.Dims()
	d := mat.NewDense(outputs, rows, nil)
	if rows == cols && rank == cols {
		var lu mat.LU
		lu.Factorize(m)
		var dt mat.Dense
		// A mat.Condition error comes with a solution; the caller judges Cond.
		if err := lu.SolveTo(&dt, true, want.T()); err == nil || errors.As(err, new(mat.Condition)) {
			d.Copy(dt.T())
			return d
		}
	}
	if rank == 0 {
		return d
	}
	var u, v, t mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	s := svd.Values(nil)
	t.Mul(want, v.Slice(0, cols, 0, rank))
	for i := range outputs {
		for j := range rank {
			t.Set(i, j, t.At(i, j)/s[j])
		}
	}
	d.Mul(&t, u.Slice(0, rows, 0, rank).T())
	return d
}

// dropRounding sets weights to 0 that are nothing but rounding, so that results
// that are not needed are not read.
func dropRounding(d *mat.Dense) {
	limit := 1e-14 * mat.Norm(d, 2)
	d.Apply(func(_, _ int, v float64) float64 {
		if math.Abs(v) <= limit {
			return 0
		}
		return v
	}, d)
}

// conditionOf gives Weights.Cond from the singular values of M_S.
func conditionOf(d, want *mat.Dense, s []float64, rank int) float64 {
	if rank == 0 {
		return 0
	}
	return spectralNorm(d) * s[0] / spectralNorm(want)
}

func spectralNorm(m *mat.Dense) float64 {
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDNone) {
		return mat.Norm(m, 2) // of Frobenius, which is no smaller
	}
	return svd.Values(nil)[0]
}

// measure fills in the residuals.
func (w *Weights) measure(d, m, want *mat.Dense) {
	var r mat.Dense
	r.Mul(d, m)
	r.Sub(&r, want)
	var missed, all float64
	for i := range w.Residuals {
		e, n := dot(r.RawRowView(i), r.RawRowView(i)), dot(want.RawRowView(i), want.RawRowView(i))
		w.Residuals[i] = ratio(e, n)
		missed += e
		all += n
	}
	w.Residual = ratio(missed, all)
}

// ratio is e/n, and 0 for the error of a wanted row of zeros.
func ratio(e, n float64) float64 {
	if e == 0 {
		return 0
	}
	return e / n
}

// undecoded lists the outputs that the weights do not give.
func (w *Weights) undecoded() []int {
	var missing []int
	for i, r := range w.Residuals {
		if !(r <= outTolerance*outTolerance) {
			missing = append(missing, i)
		}
	}
	return missing
}

// stack gives M_S of a set that is not empty.
func (c *Code) stack(have []int) *mat.Dense {
	var rows [][]float64
	for _, t := range have {
		rows = append(rows, c.Rows(t)...)
	}
	return dense(rows)
}

func dense(rows [][]float64) *mat.Dense {
	m := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, row := range rows {
		m.SetRow(i, row)
	}
	return m
}

func toRows(m *mat.Dense) [][]float64 {
	rows, _ := m.Dims()
	out := make([][]float64, rows)
	for i := range out {
		out[i] = m.RawRowView(i)
	}
	return out
}
