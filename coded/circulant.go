package coded

import (
	"errors"
	"math/bits"
)

// circulant is a code of one operand whose coefficients are 0, 1 and -1. Let r be
// the least power of two that is at least n (and 2), and cut A into k blocks of r/2
// parts each; block i stands for the polynomial A_i(z) = sum_a A_ia z^a modulo
// z^(r/2) + 1. Task w has the r/2 parts of
//
//	F_w(z) = sum_i z^(w i) A_i(z)
//
// modulo the same: multiplication by z turns the parts in a circle, and those that
// pass its end change their sign. At each root of z^(r/2) = -1, a primitive root of
// unity of order r, these are Vandermonde rows at the points z^w, which differ for
// w < r: so any k tasks decode, and no fewer do. The decomposition into roots is
// orthogonal, so that the singular values of a set of tasks are those of all these
// Vandermonde matrices together.
//
// A. Ramamoorthy and L. Tang (IEEE Trans. IT 2021) embed circulant permutations of a
// prime order r, with r-1 parts a block. A power of two, with a sign, needs half the
// parts or less, and keeps to 1/k what a task holds.
//
// Every coded part is the sum of k parts, so that encoding multiplies nothing, and
// a task computes, gets, stores and sends back 1/k. But A must have k r/2 parts to
// cut, and the decode weights are a matrix of that size: for few tasks.
//
// Numerics: worst condition number over the sets of k tasks, and the median:
//
//	n, k    4,3   5,3      6,4      8,6       12,9
//	        2/2   12/5.0   15/7.3   7.2/7.2   960/110 (of 60 sets)
var circulant = Family{
	Name:  "circulant",
	Doc:   "one operand in many small parts: any k of n decode; encoding adds and subtracts, without a multiplication",
	Paper: "after A. Ramamoorthy, L. Tang, Numerically stable coded matrix computations via circulant and rotation matrix embeddings, IEEE Trans. IT 2021",
	Kind:  Linear,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if err := s.atLeastK(); err != nil {
			return Definition{}, err
		}
		parts := 1 << max(0, bits.Len(uint(s.N-1))-1)
		if boundedProduct(s.N, parts, s.K, parts) > maxEntries {
			return Definition{}, errors.New("the parts are too many")
		}
		d := Definition{ABlocks: s.K * parts, BBlocks: 1, Threshold: s.K, MDS: true}
		for w := range s.N {
			d.Tasks = append(d.Tasks, Task{A: circulantRows(w, s.K, parts), B: [][]float64{{1}}})
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "circulant", N: 4, K: 3}, {Name: "circulant", N: 7, K: 3}, {Name: "circulant", N: 8, K: 4}, {Name: "circulant", N: 10, K: 2},
	},
}

// circulantRows gives the coefficients of the parts that task w has.
func circulantRows(w, k, parts int) [][]float64 {
	rows := make([][]float64, parts)
	for l := range rows {
		rows[l] = make([]float64, k*parts)
	}
	for i := range k {
		for a := range parts {
			at, sign := (a+w*i)%(2*parts), 1.0
			if at >= parts {
				at, sign = at-parts, -1
			}
			rows[at][i*parts+a] = sign
		}
	}
	return rows
}
