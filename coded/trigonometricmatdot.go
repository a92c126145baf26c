package coded

import (
	"errors"

	"github.com/coda-ml/coda/coded/field"
)

// trigonometricMatdot is matdot with the trigonometric frame G on both sides:
// task w has
//
//	A_w = sum_k G_wk A_k,  B_w = sum_k G_wk B_k
//
// and C is the sum of the products A_k B_k. As functions of the angle, the products
// A_w B_w are trigonometric polynomials with 2p-1 coefficients, so that any 2p-1
// results decode. With fewer tasks than that, all n are needed, and suffice: the
// columns of G are orthonormal, so that C is the plain sum of all n results.
//
// The operands are those of the one-sided code: a batch that is coded for a linear
// product is coded for the gradient of its weights too. Over a prime field, whose
// circle has no n equally spaced points, B has the dual frame G (G^T G)^-1, which here
// is G itself. (Equal spacing has a few smaller sets that decode as well: regular
// polygons.) Numerics: the loads are
// those of matdot, the rounding of a product of float32 with all, or all but one, of
// n results is that of an uncoded one.
var trigonometricMatdot = Family{
	Name:  "trigonometric-matdot",
	Doc:   "matdot on the unit circle: any min(n, 2p-1) decode the sum of the products, all n by a plain sum",
	Paper: "after matdot; harmonic frames: V. K. Goyal, J. Kovacevic, J. A. Kelner, ACHA 2001",
	Kind:  Bilinear,
	Uses:  UsesP,
	Define: func(s Spec) (Definition, error) {
		if s.N < s.P {
			return Definition{}, errors.New("n must be at least p")
		}
		d := Definition{ABlocks: s.P, BBlocks: s.P, Outputs: matrixOutputs(1, s.P, 1), Threshold: min(s.N, 2*s.P-1)}
		d.MDS = s.P == 1
		for _, row := range trigonometricFrame(s.N, s.P) {
			d.Tasks = append(d.Tasks, Task{A: [][]float64{row}, B: [][]float64{row}})
		}
		d.Modular = func(p field.Prime) ([]ModularTask, error) { return trigonometricMatdotTasks(p, s) }
		return d, nil
	},
	Examples: []Spec{
		{Name: "trigonometric-matdot", N: 5, P: 3}, {Name: "trigonometric-matdot", N: 7, P: 3}, {Name: "trigonometric-matdot", N: 7, P: 5},
		{Name: "trigonometric-matdot", N: 11, P: 5}, {Name: "trigonometric-matdot", N: 17, P: 8},
	},
}

// trigonometricMatdotTasks is the code over a prime field.
func trigonometricMatdotTasks(p field.Prime, s Spec) ([]ModularTask, error) {
	c, err := newModularCircle(p, s.N)
	if err != nil {
		return nil, err
	}
	g := trigonometricRows(c, s.N, s.P)
	gram, transposed := make([][]uint64, s.P), make([][]uint64, s.P)
	for i := range s.P {
		gram[i], transposed[i] = make([]uint64, s.P), make([]uint64, s.N)
		for w, row := range g {
			transposed[i][w] = row[i]
			for j, v := range row {
				gram[i][j] = p.Add(gram[i][j], p.Mul(row[i], v))
			}
		}
	}
	dual, err := field.Solve(p, gram, transposed)
	if err != nil {
		return nil, err
	}
	tasks := make([]ModularTask, s.N)
	for w, row := range g {
		b := make([]uint64, s.P)
		for i := range b {
			b[i] = dual[i][w]
		}
		tasks[w] = ModularTask{A: [][]uint64{row}, B: [][]uint64{b}}
	}
	return tasks, nil
}
