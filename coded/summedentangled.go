package coded

import "errors"

// summedEntangled has two products a task, whose sum is one result. The inner
// dimension is cut into p blocks, p even, and these into two halves of h = p/2;
// each half is coded as in entangled with m, h, q, both with the same powers:
//
//	A(x) = sum_(k<h) A_ik x^(k + h i),  A'(x) = sum_(k<h) A_i,h+k x^(k + h i)
//
// and likewise B, B'. The result A(x) B(x) + A'(x) B'(x) is then a value of the
// polynomial of an entangled code with h blocks, and any m h q + h - 1 =
// (m p q + p)/2 - 1 results decode. No linear scheme with two products a task can
// do with fewer tasks than half the bilinear rank of the block product.
//
// A task computes 2/(m p q) of the products, twice what a task of entangled with
// the same p does: it is the same work as entangled with m, p/2, q, kept in two
// coded blocks on either side, of half the width. The loads: 2/(m p) of A,
// 2/(p q) of B, 1/(m q) of C sent back. Numerics: as polynomial with k = m h q + h - 1.
var summedEntangled = Family{
	Name:  "summed-entangled",
	Doc:   "entangled with two products a task, summed into one result: half the tasks, each of twice the work",
	Paper: "derived from Q. Yu, M. Maddah-Ali, S. Avestimehr, IEEE Trans. IT 2020; two products a task after P. Soto, J. Li, X. Fan, Dual entangled polynomial code, ICML 2019",
	Kind:  Bilinear,
	Uses:  UsesM | UsesP | UsesQ,
	Define: func(s Spec) (Definition, error) {
		m, p, q, h := s.M, s.P, s.Q, s.P/2
		if p%2 != 0 {
			return Definition{}, errors.New("p must be even")
		}
		threshold := boundedProduct(m, h, q) + h - 1
		if err := s.checkMatrix(m, p, q, "(m*p*q+p)/2-1", threshold); err != nil {
			return Definition{}, err
		}
		half := func(k, of, index int) int {
			if k/h != of {
				return absent
			}
			return index
		}
		e := evaluated{results: []Output{{{0, 0}, {1, 1}}}}
		for of := range 2 {
			e.a = append(e.a, indices(m, p, func(i, k int) int { return half(k, of, k%h+h*i) }))
			e.b = append(e.b, indices(p, q, func(k, j int) int { return half(k, of, h-1-k%h+h*m*j) }))
		}
		d := e.define(s.N)
		d.Outputs = matrixOutputs(m, p, q)
		d.Threshold, d.MDS = threshold, h == 1
		return d, nil
	},
	Examples: []Spec{
		{Name: "summed-entangled", N: 6, M: 2, P: 2, Q: 2}, {Name: "summed-entangled", N: 8, M: 1, P: 4, Q: 2},
		{Name: "summed-entangled", N: 12, M: 2, P: 4, Q: 2}, {Name: "summed-entangled", N: 18, M: 2, P: 4, Q: 3},
	},
}
