package coded

import (
	"errors"
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded/field"
)

// crossSubspace is cross-subspace alignment: Batch products A_i B_i in Groups
// groups of K_c = Batch/Groups. With numbers f_i and Delta_g(x) the product of
// f_i - x over group g, task w holds for every group
//
//	A~_g = Delta_g(x_w) sum over i in g of A_i/(f_i-x_w),   B~_g = sum over i in g of B_i/(f_i-x_w)
//
// and returns the one sum of A~_g B~_g. Each wanted product stands alone at its
// pole f_i; all other terms, of every group, fall into the same polynomials of
// degree K_c-2 (they are aligned), so any
//
//	(Groups+1) K_c - 1
//
// tasks decode: Batch + K_c - 1, against 2 Batch - 1 of Lagrange's code, which is
// Groups = 1. A task computes Groups products: compute, upload and storage are
// Groups/Batch, download 1/Batch. The matrix has a Cauchy and a Vandermonde part,
// and the condition numbers of those. Worst/median:
//
//	n, Batch, Groups   8,4,2     12,8,4     14,6,2
//	                   169/8.5   3.3e4/31   2.8e6/168
var crossSubspace = Family{
	Name:  "csa",
	Doc:   "cross-subspace alignment: many products A_i B_i at once, fewer answers than lagrange for more work a task",
	Paper: "Z. Jia, S. A. Jafar, Cross subspace alignment codes for coded distributed batch computation, IEEE Trans. IT 2021, theorem 1",
	Kind:  Batch,
	Uses:  UsesBatch | UsesGroups,
	Define: func(s Spec) (Definition, error) {
		s.M, s.P, s.Q = 1, 1, 1
		return alignmentDefinition(s)
	},
	Examples: []Spec{
		{Name: "csa", N: 6, Batch: 4, Groups: 2}, {Name: "csa", N: 7, Batch: 3, Groups: 1},
		{Name: "csa", N: 12, Batch: 8, Groups: 4}, {Name: "csa", N: 14, Batch: 6, Groups: 2},
	},
}

// generalisedAlignment is csa with each product in turn coded by an entangled
// polynomial code: A_i is cut into M x P blocks and B_i into P x Q, and with
// R = M P Q
//
//	A~_g = Delta_g^R sum over i of (f_i-x)^-R sum_(a,k) A_i,ak (f_i-x)^(k + P a)
//	B~_g =           sum over i of (f_i-x)^-R sum_(k,b) B_i,kb (f_i-x)^(P-1-k + P M b)
//
// (blocks counted from 0). Any
//
//	R ((Groups+1) K_c - 1) + P - 1
//
// tasks decode. Powers up to R of nearly equal numbers leave few digits in
// floating point: 4 products of 2 blocks from 13 tasks have condition numbers up
// to 6e3, larger codes soon none to speak of. It is meant for prime fields.
var generalisedAlignment = Family{
	Name:  "gcsa",
	Doc:   "csa with each product cut into m x p x q blocks: for prime fields",
	Paper: "Z. Chen, Z. Jia, Z. Wang, S. A. Jafar, GCSA codes with noise alignment for secure coded multi-party batch matrix multiplication, IEEE JSAIT 2021",
	Kind:  Batch,
	Uses:  UsesBatch | UsesGroups | UsesM | UsesP | UsesQ,
	Define: func(s Spec) (Definition, error) {
		return alignmentDefinition(s)
	},
	Examples: []Spec{
		{Name: "gcsa", N: 8, Batch: 2, Groups: 2, M: 1, P: 2, Q: 1}, {Name: "gcsa", N: 8, Batch: 2, Groups: 2, M: 2, P: 1, Q: 1},
		{Name: "gcsa", N: 13, Batch: 4, Groups: 2, M: 1, P: 2, Q: 1},
	},
}

func alignmentDefinition(s Spec) (Definition, error) {
	if s.Batch%s.Groups != 0 {
		return Definition{}, errors.New("batch must be a multiple of groups")
	}
	for _, v := range []int{s.Batch, s.M, s.P, s.Q} {
		if v > MaxTasks {
			return Definition{}, fmt.Errorf("batch, m, p and q must be at most %d", MaxTasks)
		}
	}
	r, each := s.M*s.P*s.Q, s.Batch/s.Groups
	d := Definition{ABlocks: s.Batch * s.M * s.P, BBlocks: s.Batch * s.P * s.Q, Threshold: r*((s.Groups+1)*each-1) + s.P - 1}
	if s.N < d.Threshold {
		return d, fmt.Errorf("n must be at least %d", d.Threshold)
	}
	d.MDS = s.Batch == 1 && s.P == 1
	d.Outputs = batchOutputs(s)
	poles, x := spreadNodes(chebyshevPoints(s.Batch+s.N), s.Batch)
	d.Tasks = alignmentTasks(field.Real{}, s, poles, x)
	for _, task := range d.Tasks { // each result's row has norm 1
		scaleTask(task)
	}
	d.Modular = func(p field.Prime) ([]ModularTask, error) {
		points, err := modularPoints(p, s.Batch+s.N)
		if err != nil {
			return nil, err
		}
		return alignmentTasks(p, s, points[:s.Batch], points[s.Batch:]), nil
	}
	return d, nil
}

// batchOutputs wants every block of every product: block (a,b) of product i is the
// sum over k of A_i,ak B_i,kb.
func batchOutputs(s Spec) []Output {
	var outputs []Output
	for i := range s.Batch {
		for a := range s.M {
			for b := range s.Q {
				var out Output
				for k := range s.P {
					out = append(out, Pair{A: (i*s.M+a)*s.P + k, B: (i*s.P+k)*s.Q + b})
				}
				outputs = append(outputs, out)
			}
		}
	}
	return outputs
}

func alignmentTasks[E any](f field.Field[E], s Spec, poles, x []E) []Coefficients[E] {
	tasks := make([]Coefficients[E], len(x))
	for w := range x {
		var sum Output
		for g := range s.Groups {
			u, v := alignmentRows(f, s, g, poles, x[w])
			tasks[w].A, tasks[w].B = append(tasks[w].A, u), append(tasks[w].B, v)
			sum = append(sum, Pair{g, g})
		}
		tasks[w].Results = []Output{sum}
	}
	return tasks
}

// alignmentRows gives the coefficients of one group's coded blocks.
func alignmentRows[E any](f field.Field[E], s Spec, group int, poles []E, x E) (u, v []E) {
	r, each := s.M*s.P*s.Q, s.Batch/s.Groups
	u, v = zeros(f, s.Batch*s.M*s.P), zeros(f, s.Batch*s.P*s.Q)
	delta := f.Int(1)
	for i := group * each; i < (group+1)*each; i++ {
		delta = f.Mul(delta, field.Pow(f, f.Sub(poles[i], x), int64(r)))
	}
	for i := group * each; i < (group+1)*each; i++ {
		t := f.Sub(poles[i], x)
		inv := f.Inv(field.Pow(f, t, int64(r)))
		for k := range s.P {
			for a := range s.M {
				u[(i*s.M+a)*s.P+k] = f.Mul(f.Mul(delta, inv), field.Pow(f, t, int64(k+s.P*a)))
			}
			for b := range s.Q {
				v[(i*s.P+k)*s.Q+b] = f.Mul(inv, field.Pow(f, t, int64(s.P-1-k+s.P*s.M*b)))
			}
		}
	}
	return u, v
}

// scaleTask scales the coded A blocks by one factor so that the sum of their
// products with the B blocks has coefficients of norm 1.
func scaleTask(task Task) {
	var square float64
	for g := range task.A {
		square += dot(task.A[g], task.A[g]) * dot(task.B[g], task.B[g])
	}
	for _, row := range task.A {
		for j := range row {
			row[j] /= math.Sqrt(square)
		}
	}
}
