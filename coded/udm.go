package coded

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// decodable ("universally decodable matrices") counts unfinished work: worker w
// computes Load results in a fixed order, and any K results in all decode, from
// whichever workers, if each worker's are the first ones of its order. Nobody's
// finished work is lost, however slow it is.
//
// Result j of worker w is the j-th derivative, at its angle theta_w = 2 pi w/n, of
// the trigonometric code's row:
//
//	g_wj = d^j/dtheta^j [cos(m theta/2), sin(m theta/2)]_m,   m = K-1, K-3, ..
//
// with norm 1. A trigonometric polynomial of K coefficients is determined by K of
// its values and derivatives, any number of them at an angle, as long as no
// derivative is left out (Hermite interpolation; the functions are, up to a
// factor, polynomials in exp(i theta)). Load derivatives at one angle are nearly
// dependent when Load is large, so condition numbers grow with it. Worst/median
// over sets of whole tasks:
//
//	n, K, Load   6,8,2    8,12,2   12,18,2     8,12,3       8,18,3
//	             63/12    191/38   6.8e3/179   4.5e4/907    9.0e3/683
//
// Compute, storage and download of a task are Load/K; any ceil(K/Load) whole tasks
// decode.
var decodable = Family{
	Name:  "universally-decodable",
	Doc:   "unfinished work counts: any K results in all decode if each worker's are its first ones",
	Paper: "A. Ramamoorthy, L. Tang, P. O. Vontobel, Universally decodable matrices for distributed matrix-vector multiplication, ISIT 2019",
	Kind:  Linear,
	Uses:  UsesK | UsesLoad,
	Define: func(s Spec) (Definition, error) {
		if s.Load > s.K || s.N*s.Load < s.K {
			return Definition{}, errors.New("load must be k/n to k")
		}
		if err := checkRows(s.N*s.Load, s.K); err != nil {
			return Definition{}, err
		}
		d := Definition{ABlocks: s.K, BBlocks: 1, Prefix: s.K}
		d.Threshold, d.MDS = (s.K+s.Load-1)/s.Load, true
		d.Tasks = stackedTasks(derivativeRows(realCircle{s.N}, field.Real{}, s), 1)
		for _, task := range d.Tasks {
			for _, row := range task.A {
				scaleTo(row, 1)
			}
		}
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			c, err := newModularCircle(p, s.N)
			if err != nil {
				return nil, err
			}
			return stackedTasks(derivativeRows(c, p, s), 1), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "universally-decodable", N: 4, K: 4, Load: 2}, {Name: "universally-decodable", N: 6, K: 8, Load: 2},
		{Name: "universally-decodable", N: 8, K: 12, Load: 3}, {Name: "universally-decodable", N: 12, K: 18, Load: 2},
	},
}

// derivativeRows gives the rows of every task, the j-th derivatives times 2^j:
// a derivative turns cos(m theta/2) into -m/2 sin and sin into m/2 cos.
func derivativeRows[E any](c circle[E], f field.Field[E], s Spec) [][][]E {
	tasks := make([][][]E, s.N)
	for w := range tasks {
		for j := range s.Load {
			var row []E
			for m := (s.K + 1) % 2; m < s.K; m += 2 {
				cos, sin := c.point(w, m)
				factor := field.Pow(f, f.Int(int64(m)), int64(j))
				for range j {
					cos, sin = f.Sub(f.Int(0), sin), cos
				}
				if row = append(row, f.Mul(factor, cos)); m > 0 {
					row = append(row, f.Mul(factor, sin))
				}
			}
			tasks[w] = append(tasks[w], row)
		}
	}
	return tasks
}

// checkRows bounds the coefficients of so many results, before they are made.
func checkRows(results, blocks int) error {
	if results > maxEntries/blocks {
		return fmt.Errorf("%d results of %d blocks each, want at most %d coefficients", results, blocks, maxEntries)
	}
	return nil
}

// stackedTasks are tasks of a linear job with several coded blocks, each of which
// is a result.
func stackedTasks[E any](rows [][][]E, one E) []Coefficients[E] {
	tasks := make([]Coefficients[E], len(rows))
	for w := range rows {
		tasks[w] = Coefficients[E]{A: rows[w], B: [][]E{{one}}}
	}
	return tasks
}
