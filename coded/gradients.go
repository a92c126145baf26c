package coded

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// Codes for sums of gradients. The data are cut into k parts; worker w of n knows
// some of them, computes the gradients g_p of the loss over those that it knows
// and returns one vector, or one for each of its rows,
//
//	r_w = sum_p B_wp g_p
//
// What is wanted is g = sum_p g_p: any set S of workers with a row vector a for
// which a B_S = (1 .. 1) gives it, as sum_w a_w r_w (R. Tandon, Q. Lei, A.
// Dimakis, N. Karampatziakis, "Gradient coding", ICML 2017). To bear s stragglers
// every part must be known to s+1 workers, so that a worker has at least (s+1)k/n
// of them to compute: that is the price (theorem 1 there).
//
// In a Spec, K is the number of parts and Load how many of them a worker knows,
// so that each is known to Load*N/K workers. Loads counts the parts of a task as
// its computation and as the data that it stores: a gradient is no linear
// function of the data, so that they cannot be encoded.
//
// The weights a multiply the rounding of what the workers send. With |a| the norm
// of the row (Weights.Amplification), results with independent errors of standard
// deviation e give a gradient with one of |a|e; the sum of n uncoded results has
// sqrt(n). See the families for how large it gets.

// gradientFamilies are the codes for sums of gradients.
var gradientFamilies = []Family{
	uncodedGradients,
	fractionalRepetition,
	cyclicRandom,
	cyclicReedSolomon,
	communicationEfficient,
	heterogeneousGradients,
	partialGradients,
	cyclicSum,
	bernoulliGradients,
	blockGradients,
}

// maxCopies bounds what a Spec from outside can ask to be solved. Decode weights
// are of no use long before.
const maxCopies = 64

// fromGradients is the definition of a code with a row for each worker, over the
// parts, or over the pieces of all parts.
func fromGradients(rows [][]float64, pieces int) Definition {
	d := Definition{ABlocks: len(rows[0]), BBlocks: 1, Tasks: linearTasks(rows, 1), Pieces: pieces}
	d.Outputs = sumOfParts(d.ABlocks/pieces, pieces)
	return d
}

// sumOfParts wants the sum over the parts of each piece.
func sumOfParts(parts, pieces int) []Output {
	outputs := make([]Output, pieces)
	for i := range outputs {
		for p := range parts {
			outputs[i] = append(outputs[i], Pair{p*pieces + i, 0})
		}
	}
	return outputs
}

// boundedParts checks that the matrix of n workers and the pieces of k parts is
// within what a code may have, before it is made.
func (s Spec) boundedParts(pieces int) error {
	if s.K > maxEntries/s.N/pieces {
		return fmt.Errorf("n*k coefficients for each of %d pieces, want at most %d in all", pieces, maxEntries)
	}
	return nil
}

// copies gives the number of workers that know each part.
func (s Spec) copies() (int, error) {
	switch err := s.boundedParts(max(1, s.M)); {
	case err != nil:
		return 0, err
	case s.Load > s.K:
		return 0, fmt.Errorf("load is %d parts of k = %d", s.Load, s.K)
	case s.N*s.Load%s.K != 0:
		return 0, errors.New("n*load must be a multiple of k: every part is known to n*load/k workers")
	case s.N*s.Load/s.K > maxCopies:
		return 0, fmt.Errorf("every part is known to n*load/k = %d workers, want at most %d", s.N*s.Load/s.K, maxCopies)
	}
	return s.N * s.Load / s.K, nil
}

// cyclicCopies is copies for a code in which worker w knows the groups
// w .. w+copies-1 of n groups of parts, modulo n.
func (s Spec) cyclicCopies() (int, error) {
	if s.K%s.N != 0 || s.Load%(s.K/s.N) != 0 {
		return 0, errors.New("k must be a multiple of n, and load of k/n")
	}
	return s.copies()
}

// cyclicHolders lists, for each of n groups of parts, the workers that know it:
// worker w knows the groups w .. w+copies-1 modulo n.
func cyclicHolders(n, copies int) [][]int {
	holders := make([][]int, n)
	for p := range holders {
		for i := range copies {
			holders[p] = append(holders[p], (p-i+n)%n)
		}
	}
	return holders
}

// perPart repeats the columns of each group of parts for each of its parts.
func perPart[E any](rows [][]E, parts, pieces int) [][]E {
	groups := len(rows[0]) / pieces
	out := make([][]E, len(rows))
	for w, row := range rows {
		for p := range parts {
			g := p * groups / parts
			out[w] = append(out[w], row[g*pieces:(g+1)*pieces]...)
		}
	}
	return out
}

// modularRows makes the Modular of a definition of rows over a field.
func modularRows(rows func(p field.Prime) ([][]uint64, error)) func(field.Prime) ([]ModularTask, error) {
	return func(p field.Prime) ([]ModularTask, error) {
		g, err := rows(p)
		if err != nil {
			return nil, err
		}
		return linearTasks(g, 1), nil
	}
}

// uncodedGradients gives each of n workers k/n parts of its own, B being the
// identity: every answer is needed. Dropping the s slowest gives the best
// estimate, with the error s/n in the sense of Weights.Residual. Its weights are
// 1, of norm sqrt(n).
var uncodedGradients = Family{
	Name:  "uncoded-gradients",
	Doc:   "every part known to one worker: no redundancy; ignoring s stragglers of n loses s/n of the gradient",
	Paper: "the baseline",
	Kind:  Gradients,
	Uses:  UsesK,
	Define: func(s Spec) (Definition, error) {
		if s.K%s.N != 0 {
			return Definition{}, errors.New("k must be a multiple of n")
		}
		rows := make([][]float64, s.N)
		for w := range rows {
			rows[w] = unit(s.N, w)
		}
		if err := s.boundedParts(1); err != nil {
			return Definition{}, err
		}
		d := fromGradients(perPart(rows, s.K, 1), 1)
		d.Threshold, d.MDS = s.N, true
		return d, nil
	},
	Examples: []Spec{
		{Name: "uncoded-gradients", N: 1, K: 1}, {Name: "uncoded-gradients", N: 4, K: 8}, {Name: "uncoded-gradients", N: 20, K: 20},
	},
}
