package coded

import (
	"fmt"
	"strings"
)

// Spec names a code in plain data, so that it can travel: New builds it. Of the
// numbers, a family uses some (Family.Uses); the others are 0.
type Spec struct {
	Name string // "trigonometric"
	N    int    // tasks

	K       int    // blocks of the left operand; parts of a sum of gradients
	M, P, Q int    // A is cut into M x P blocks and B into P x Q
	Batch   int    // products A_i B_i that are wanted at once
	Load    int    // what a task holds: coded blocks, rows or parts
	Weight  int    // blocks that a coded block combines
	Groups  int    // groups of tasks, blocks or layers
	Seed    uint64 // of coefficients that are drawn
}

// Params is a set of the numbers of a Spec, besides N.
type Params uint16

// The numbers of a Spec.
const (
	UsesK Params = 1 << iota
	UsesM
	UsesP
	UsesQ
	UsesBatch
	UsesLoad
	UsesWeight
	UsesGroups
	UsesSeed
)

// param is one of the sizes of a Spec, with the name that flags and messages have
// for it.
type param struct {
	name  string // "k"
	value int
	use   Params
}

// params lists the sizes of the spec besides N, in a fixed order.
func (s Spec) params() []param {
	return []param{
		{"k", s.K, UsesK}, {"m", s.M, UsesM}, {"p", s.P, UsesP}, {"q", s.Q, UsesQ}, {"batch", s.Batch, UsesBatch},
		{"load", s.Load, UsesLoad}, {"weight", s.Weight, UsesWeight}, {"groups", s.Groups, UsesGroups},
	}
}

// String names the code with the numbers that are not 0: "entangled n=9 m=2 p=1 q=2".
func (s Spec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s n=%d", s.Name, s.N)
	for _, p := range s.params() {
		if p.value != 0 {
			fmt.Fprintf(&b, " %s=%d", p.name, p.value)
		}
	}
	if s.Seed != 0 {
		fmt.Fprintf(&b, " seed=%d", s.Seed)
	}
	return b.String()
}
