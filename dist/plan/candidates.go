package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// Limits say what is considered of a layer beside Local.
type Limits struct {
	// Placements are those to compare with Local; nil: Resident. Resident and Batch
	// have codes of one factor, Shipped has those of two.
	Placements []string
	// Codes are the codes to compare, by name; nil: uncoded, trigonometric,
	// ortho-polynomial, ortho-matdot and rotation.
	Codes []string
	// K, where it is not 0, is the only number of answers to consider. Code "uncoded"
	// needs all.
	K int
	// Spare is how many workers may be lost at any time: a code that bears fewer is
	// not chosen.
	Spare int
	// Must makes a layer placed if it can be, with the best of the candidates.
	Must bool
}

func (l Limits) withDefaults() Limits {
	if l.Placements == nil {
		l.Placements = []string{Resident}
	}
	if l.Codes == nil {
		l.Codes = append([]string{"uncoded", "trigonometric"}, twoSided...)
	}
	return l
}

// Placements lists those that are compared with Local.
func Placements() []string { return []string{Resident, Batch, Shipped} }

// twoSided are the codes of two factors that are considered by default.
var twoSided = []string{"ortho-polynomial", "ortho-matdot", "rotation"}

// TwoSided lists the codes of two factors that are considered by default.
func TwoSided() []string { return slices.Clone(twoSided) }

// validate tells what is wrong with the limits of a layer on so many workers.
func (l Limits) validate(layer string, workers int) error {
	var problems []error
	if l.K < 0 || l.K > workers || l.Spare < 0 {
		problems = append(problems, fmt.Errorf("plan: layer %s: k %d of %d, spare %d: want k up to the workers, and nothing negative", layer, l.K, workers, l.Spare))
	}
	for _, p := range l.Placements {
		if !slices.Contains(Placements(), p) {
			problems = append(problems, fmt.Errorf("plan: layer %s: placement %q: want %s, %s or %s", layer, p, Resident, Batch, Shipped))
		}
	}
	return errors.Join(problems...)
}

// limits are those of a layer.
func (q Question) limits(p Product) Limits {
	if p.Limits != nil {
		return p.Limits.withDefaults()
	}
	return q.Limits.withDefaults()
}

// may tells whether a candidate bears the loss of as many workers as it has to.
func (l Limits) may(c Candidate) bool { return c.Placement == Local || c.Losses >= l.Spare }

// candidates are the placements, codes and numbers of answers to compare.
func (q Question) candidates(p Product, l Limits) []Candidate {
	var list []Candidate
	n := len(q.Machines.Speeds)
	for _, placement := range l.Placements {
		for _, name := range l.Codes {
			switch {
			case placement == Shipped:
				list = append(list, q.shipped(p, l, name)...)
			case !bilinear(name):
				list = append(list, l.oneSided(placement, name, n)...)
			}
		}
	}
	return list
}

// oneSided are the candidates with a code of one factor. Of a batch the gradient of the
// weights is computed here, or by workers if the code can be coded on both sides.
func (l Limits) oneSided(placement, name string, n int) []Candidate {
	var list []Candidate
	for _, k := range l.answers(name, n) {
		c := Candidate{Placement: placement, Code: name, N: n, K: k, spec: coded.Spec{Name: name, N: n, K: k}}
		if _, err := coded.New(c.spec); err != nil && l.K == 0 {
			continue
		}
		list = append(list, c)
		if placement == Batch && name == "trigonometric" {
			c.Gradient = min(n, 2*k-1)
			list = append(list, c)
		}
	}
	return list
}

// shipped are the candidates with both factors coded by a code: for each number of
// answers the numbers of blocks that ask least of a worker and suit the layer.
func (q Question) shipped(p Product, l Limits, name string) []Candidate {
	n := len(q.Machines.Speeds)
	if !bilinear(name) || p.Groups > 1 {
		return nil
	}
	suits := func(c coded.LayerCut) bool {
		batch, in, out := c.Finest(!p.First)
		return q.Batch >= batch && p.In >= in && p.Out >= out
	}
	var list []Candidate
	for _, k := range l.answers(name, n) {
		spec, err := coded.FitLayer(coded.Spec{Name: name, N: n}, k, suits)
		if err != nil || len(list) > 0 && list[len(list)-1].spec == spec {
			continue
		}
		list = append(list, Candidate{Placement: Shipped, Code: name, N: n, K: k, M: spec.M, P: spec.P, Q: spec.Q, spec: spec})
	}
	return list
}

// bilinear tells whether a code is of a family for two factors.
func bilinear(name string) bool {
	return slices.ContainsFunc(coded.Families(), func(f coded.Family) bool { return f.Name == name && f.Kind == coded.Bilinear })
}

// answers are the k to consider for a code of n tasks: from half of them.
func (l Limits) answers(code string, n int) []int {
	switch {
	case n == 0:
		return nil
	case code == "uncoded":
		return []int{n}
	case l.K > 0:
		return []int{l.K}
	}
	var ks []int
	for k := (n + 1) / 2; k < n; k++ {
		ks = append(ks, k)
	}
	return ks
}
