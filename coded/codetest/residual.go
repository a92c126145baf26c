package codetest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/coda-ml/coda/coded"
)

// residual computes the error of every set's weights for products that are unit
// vectors, the wanted outputs minus what is decoded, and compares it with what
// the weights say. Least squares leaves an error that no result can lessen:
// (D M_S - W) M_S^T = 0.
func (s *suite) residual() error {
	decoder := coded.NewDecoder(s.code, noLimit)
	wanted := matrix(s.code.Wanted())
	for _, set := range s.sets {
		if len(set) == 0 {
			continue
		}
		w, _ := decoder.Weights(set) // the weights come with the error of too few
		if w == nil {
			return fmt.Errorf("tasks %v: no weights", set)
		}
		var rows [][]float64
		for _, t := range set {
			rows = append(rows, s.code.Rows(t)...)
		}
		m, d := matrix(rows), matrix(w.D)
		var missed, slope mat.Dense
		missed.Mul(d, m)
		missed.Sub(&missed, wanted)
		got, want := w.Residual, math.Pow(mat.Norm(&missed, 2)/mat.Norm(wanted, 2), 2)
		rounding := 1e-9 * max(1, w.Cond)
		if !(math.Abs(got-want) <= rounding) {
			return fmt.Errorf("tasks %v: the residual is %.6g, the error %.6g", set, got, want)
		}
		if s.code.OwnWeights() {
			continue
		}
		slope.Mul(&missed, m.T())
		if e := mat.Norm(&slope, 2); !(e <= rounding*mat.Norm(m, 2)*mat.Norm(wanted, 2)) {
			return fmt.Errorf("tasks %v: the weights are not those of the least error: slope %.3g", set, e)
		}
	}
	return nil
}

func matrix(rows [][]float64) *mat.Dense {
	m := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, row := range rows {
		m.SetRow(i, row)
	}
	return m
}
