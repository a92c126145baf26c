package coded

import (
	"fmt"
	"slices"
)

// LayerCut tells how a code for C = A B, with A in M x P blocks and B in P x Q, cuts the
// three products of a layer, Y = X W^T, dX = dY W and dW = dY^T X.
type LayerCut struct{ M, P, Q int }

// LayerCut returns how the code cuts the products of a layer; ok tells whether it can be
// used for them: whether it is exact, for the product of two factors both of which are
// coded (see Matrix), and has equal tasks.
func (c *Code) LayerCut() (cut LayerCut, ok bool) {
	m, p, q, ok := c.Matrix()
	if !ok || c.BBlocks() == 1 || c.Approximate() {
		return LayerCut{}, false
	}
	first := c.Task(0)
	for t := range c.N() {
		if task := c.Task(t); len(task.A) != len(first.A) || len(task.B) != len(first.B) || c.Results(t) != c.Results(0) {
			return LayerCut{}, false
		}
	}
	return LayerCut{m, p, q}, true
}

// Blocks returns into how many blocks the samples, the inputs and the outputs are cut for
// a product.
func (l LayerCut) Blocks(p Product) (batch, in, out int) {
	switch p {
	case Forward:
		return l.M, l.P, l.Q
	case Backward:
		return l.M, l.Q, l.P
	}
	return l.P, l.Q, l.M
}

// Finest returns into how many blocks the samples, the inputs and the outputs of a layer are
// cut at most, if the gradient of its input is wanted or not.
func (l LayerCut) Finest(backward bool) (batch, in, out int) {
	batch, in, out = max(l.M, l.P), max(l.P, l.Q), max(l.M, l.Q)
	if backward {
		out = max(out, l.P)
	}
	return batch, in, out
}

// FitLayer fills those numbers of a spec in that are 0: it returns the code of the
// family that lets any k answers suffice, suits the caller, and asks least of a worker:
// the least computation, and among equals the least traffic. It fails with a *SpecError.
func FitLayer(s Spec, k int, suits func(LayerCut) bool) (Spec, error) {
	families := Families()
	i := slices.IndexFunc(families, func(f Family) bool { return f.Name == s.Name })
	if i < 0 {
		_, err := New(s)
		return Spec{}, err
	}
	f := families[i]
	const searched = UsesM | UsesP | UsesQ | UsesGroups | UsesLoad | UsesSeed
	if f.Kind != Bilinear || f.Uses&^searched != 0 {
		return Spec{}, &SpecError{s, "it is no code for the product of two coded factors"}
	}
	var best Spec
	var least Loads
	sent := func(l Loads) float64 { return l.A + l.B + l.Download }
	for spec := range f.fillings(s, k) {
		code, err := f.new(spec)
		if err != nil || code.Threshold() == 0 || code.Threshold() > k {
			continue
		}
		cut, ok := code.LayerCut()
		if !ok || !suits(cut) {
			continue
		}
		if l := code.Loads(); best.N == 0 || l.Compute < least.Compute || l.Compute == least.Compute && sent(l) < sent(least) {
			best, least = spec, l
		}
	}
	if best.N == 0 {
		return Spec{}, &SpecError{s, fmt.Sprintf("no numbers of blocks let any %d of %d answers suffice and suit the layer", k, s.N)}
	}
	return best, nil
}

// fillings goes through the specs that have numbers in place of those that are 0. A task does
// at least a k-th of the work, if any k suffice, and has at most 2 x 2 products of blocks.
func (f Family) fillings(s Spec, k int) func(yield func(Spec) bool) {
	numbers := func(use Params, given, most int) []int {
		if f.Uses&use == 0 || given != 0 {
			return []int{given}
		}
		list := make([]int, most)
		for i := range list {
			list[i] = i + 1
		}
		return list
	}
	const products = 4
	given := s
	return func(yield func(Spec) bool) {
		for _, s.M = range numbers(UsesM, given.M, products*k) {
			for _, s.P = range numbers(UsesP, given.P, k) {
				for _, s.Q = range numbers(UsesQ, given.Q, products*k) {
					if boundedProduct(max(1, s.M), max(1, s.P), max(1, s.Q)) > products*k {
						break
					}
					for _, s.Groups = range numbers(UsesGroups, given.Groups, s.N) {
						for _, s.Load = range numbers(UsesLoad, given.Load, 2) {
							if !yield(s) {
								return
							}
						}
					}
				}
			}
		}
	}
}
