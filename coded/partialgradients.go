package coded

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// partialGradients is for stragglers that are slow but not gone: a worker's data
// are u = load-weight parts of its own, which nobody else knows, and weight parts
// of a code that bears s stragglers. It sends two results, in this order,
//
//	the sum of the gradients of its own parts
//	its row of the code over the k - n*u other parts, times their gradients
//
// and the gradient is there when all of the first ones are and n-s of the second
// ones (Tandon et al., ICML 2017, section 5: two-stage coding). The code is
// cyclic-reed-solomon, with n*weight = (s+1)(k - n*u); the parts w*u .. w*u+u-1
// are worker w's own, and those from n*u on are coded.
//
// In terms of whole tasks the threshold is n: every worker has to say something.
// What counts is a result at a time: Code.Chunks, in which task 2w is w's first
// result and 2w+1 its second. In the order above
//
//	any 2n - 1 results decode
//
// and 2n - s do if every worker has sent its first. A straggler that is up to
// load/(load-weight) times slower than the others sends its first result by the
// time they have sent both, and then nobody waits. The slower the stragglers that
// are to be borne, the fewer parts of one's own; a worker that is gone is not borne.
//
// Compute and storage are load/k of the whole, the download two gradients. Weights
// are 1 for the first results and those of cyclic-reed-solomon for the second.
var partialGradients = Family{
	Name:  "partial-gradients",
	Doc:   "parts of one's own first, coded ones after: for s stragglers that are at most load/(load-weight) times slower",
	Paper: "R. Tandon, Q. Lei, A. Dimakis, N. Karampatziakis, Gradient coding, ICML 2017, section 5",
	Kind:  Gradients,
	Uses:  UsesK | UsesLoad | UsesWeight,
	Define: func(s Spec) (Definition, error) {
		own := s.Load - s.Weight
		rest := s.K/s.N - own // coded parts, a worker
		switch {
		case s.K%s.N != 0:
			return Definition{}, errors.New("k must be a multiple of n")
		case own < 1 || rest < 1:
			return Definition{}, errors.New("load-weight, a worker's own parts, must be at least 1 and below k/n")
		case s.Weight%rest != 0 || s.Weight < 2*rest || s.Weight > s.N*rest:
			return Definition{}, fmt.Errorf("weight, the coded parts that a worker knows, must be 2 to n times k/n - (load-weight) = %d", rest)
		}
		coded, err := cyclicReedSolomon.Define(Spec{N: s.N, K: s.N * rest, Load: s.Weight})
		if err != nil {
			return Definition{}, err
		}
		d := Definition{ABlocks: s.K, BBlocks: 1, Outputs: sumOfParts(s.K, 1)}
		d.Threshold, d.MDS, d.Prefix = s.N, true, 2*s.N-1
		d.Tasks = ownFirst(field.Real{}, coded.Tasks, own)
		d.Modular = func(p field.Prime) ([]ModularTask, error) {
			tasks, err := coded.Modular(p)
			if err != nil {
				return nil, err
			}
			return ownFirst(p, tasks, own), nil
		}
		return d, nil
	},
	Examples: []Spec{
		{Name: "partial-gradients", N: 4, K: 8, Load: 3, Weight: 2}, {Name: "partial-gradients", N: 6, K: 18, Load: 5, Weight: 3},
		{Name: "partial-gradients", N: 20, K: 60, Load: 5, Weight: 3},
	},
}

// ownFirst puts a result of a worker's own parts before that of its coded ones.
func ownFirst[E any](f field.Field[E], coded []Coefficients[E], own int) []Coefficients[E] {
	before := len(coded) * own
	tasks := make([]Coefficients[E], len(coded))
	for w, task := range coded {
		row := task.A[0]
		first, second := make([]E, before+len(row)), make([]E, before+len(row))
		for i := range own {
			first[w*own+i] = f.Int(1)
		}
		copy(second[before:], row)
		tasks[w] = Coefficients[E]{A: [][]E{first, second}, B: task.B}
	}
	return tasks
}
