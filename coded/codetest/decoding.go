package codetest

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/coda-ml/coda/coded"
)

// exactResidual is the residual that is still rounding, as an error of 1e-6.
const exactResidual = 1e-12

// noLimit is for laws that hold whatever the condition number.
var noLimit = coded.DecoderConfig{MaxCond: math.Inf(1)}

// decoding computes the tasks of a job of small random matrices, decodes them
// from every set that decodes and compares with the outputs computed directly,
// within 1e-9 times the condition number.
func (s *suite) decoding() error {
	a, b := s.matrices(s.code.K(), 2, 3), s.matrices(s.code.BBlocks(), 3, 2)
	var products []*mat.Dense // by the columns of M
	for _, x := range a {
		for _, y := range b {
			var p mat.Dense
			p.Mul(x, y)
			products = append(products, &p)
		}
	}
	decoder := coded.NewDecoder(s.code, noLimit)
	for _, set := range s.sets {
		w, err := decoder.Weights(s.shuffled(set))
		if err != nil && len(set) >= s.enough() {
			return fmt.Errorf("tasks %v: %w", set, err)
		}
		if err != nil || s.code.Approximate() && w.Residual > exactResidual {
			continue
		}
		if !slices.Equal(w.Have, set) {
			return fmt.Errorf("tasks %v: the weights are for %v", set, w.Have)
		}
		var results []*mat.Dense
		for _, t := range set {
			results = append(results, run(s.code.Task(t), a, b)...)
		}
		for c, row := range s.code.Wanted() {
			got, want := sum(w.Row(c), results), sum(row, products)
			got.Sub(got, want)
			if e := mat.Norm(got, 2); !(e <= 1e-9*max(1, w.Cond)) {
				return fmt.Errorf("tasks %v: output %d is wrong by %.3g, condition number %.3g", set, c, e, w.Cond)
			}
		}
	}
	return nil
}

func (s *suite) matrices(count, rows, cols int) []*mat.Dense {
	out := make([]*mat.Dense, count)
	for i := range out {
		out[i] = mat.NewDense(rows, cols, nil)
		out[i].Apply(func(_, _ int, _ float64) float64 { return s.rng.NormFloat64() }, out[i])
	}
	return out
}

// run does what a worker does: encode both sides, then multiply.
func run(task coded.Task, a, b []*mat.Dense) []*mat.Dense {
	wanted := task.Results
	if wanted == nil {
		for i := range task.A {
			for j := range task.B {
				wanted = append(wanted, coded.Output{{A: i, B: j}})
			}
		}
	}
	var results []*mat.Dense
	for _, products := range wanted {
		rows, _ := a[0].Dims()
		_, cols := b[0].Dims()
		r := mat.NewDense(rows, cols, nil)
		for _, p := range products {
			var one mat.Dense
			one.Mul(sum(task.A[p.A], a), sum(task.B[p.B], b))
			r.Add(r, &one)
		}
		results = append(results, r)
	}
	return results
}

// sum gives sum_i w[i]*xs[i].
func sum(w []float64, xs []*mat.Dense) *mat.Dense {
	rows, cols := xs[0].Dims()
	out := mat.NewDense(rows, cols, nil)
	for i, x := range xs {
		var t mat.Dense
		t.Scale(w[i], x)
		out.Add(out, &t)
	}
	return out
}

// leastNorm checks that with a result more, the weights of least norm are no
// larger: those of the smaller set, padded with a zero, are a solution too.
func (s *suite) leastNorm() error {
	if s.code.OwnWeights() {
		return nil
	}
	decoder := coded.NewDecoder(s.code, noLimit)
	for _, set := range s.sets {
		if len(set) == s.code.N() {
			continue
		}
		w, err := decoder.Weights(set)
		if err != nil || w.Residual > exactResidual {
			continue
		}
		more := slices.Clone(set)
		for _, t := range s.rng.Perm(s.code.N()) {
			if !slices.Contains(set, t) {
				more = append(more, t)
				break
			}
		}
		w2, err := decoder.Weights(more)
		if err != nil {
			return fmt.Errorf("tasks %v decode, with one more: %w", set, err)
		}
		for c := range w.D {
			if n, n2 := norm(w.D[c]), norm(w2.D[c]); n2 > n*(1+1e-9*w.Cond) {
				return fmt.Errorf("output %d: the weights have norm %.6g for tasks %v and %.6g for %v", c, n, set, n2, more)
			}
		}
	}
	return nil
}

func norm(x []float64) float64 {
	var s float64
	for _, v := range x {
		s += v * v
	}
	return math.Sqrt(s)
}

// cache checks that a set gives the same weights in any order, at once and after
// others have pushed it out of the cache.
func (s *suite) cache() error {
	decoder := coded.NewDecoder(s.code, coded.DecoderConfig{MaxCond: math.Inf(1), CacheSize: 2})
	all := make([]int, s.code.N())
	for t := range all {
		all[t] = t
	}
	first, err := decoder.Weights(all)
	if err != nil {
		return err
	}
	if again, err := decoder.Weights(s.shuffled(all)); err != nil || again != first {
		return fmt.Errorf("all tasks in another order: other weights, error %v", err)
	}
	for t := range min(3, s.code.N()) {
		// Whether these decode does not matter here.
		_, _ = decoder.Weights(all[t+1:])
	}
	again, err := decoder.Weights(all)
	if err != nil {
		return err
	}
	for c := range first.D {
		if !slices.Equal(first.D[c], again.D[c]) {
			return fmt.Errorf("all tasks, computed again: other weights for output %d", c)
		}
	}
	return nil
}
