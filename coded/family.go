package coded

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kind is the form of the jobs that a family of codes is for.
type Kind uint8

const (
	Linear    Kind = iota // blocks A_1 .. A_k of one operand, each wanted
	Bilinear              // a product A B of two coded operands
	Batch                 // several products A_i B_i
	Gradients             // the sum of the gradients of the parts of a data set
)

func (k Kind) String() string {
	switch k {
	case Linear:
		return "linear"
	case Bilinear:
		return "bilinear"
	case Batch:
		return "batch"
	case Gradients:
		return "gradients"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Family is a kind of code: what it is, and the definition for given numbers. A
// new family is one file that declares it and a call of Register; package
// codetest, the simulator and `train codes` then have it too.
type Family struct {
	Name  string // "trigonometric"
	Doc   string // one line: what it is and when to use it
	Paper string // where it comes from
	Kind  Kind

	// Uses lists the numbers of a Spec that the family has a use for, besides N.
	// All of them must be given, save the seed.
	Uses Params
	// Define gives the definition. New has checked that N is 1 to MaxTasks, that
	// what is used is at least 1 and what is not used is 0. Name, Doc, Paper and
	// Kind of the definition are filled in by New.
	Define func(Spec) (Definition, error)
	// Examples are sizes to test and to show, smallest first. At least one has
	// 8 tasks at most, so that every set of its tasks can be tried.
	Examples []Spec
}

// registry holds the families in the order of their registration.
var registry = struct {
	sync.RWMutex
	families []Family
}{families: catalogue()}

// catalogue lists every family of this package, kind by kind.
func catalogue() []Family {
	return slices.Concat(
		linearFamilies,
		batchFamilies,
		approximateFamilies,
		gradientFamilies,
		bilinearFamilies,
	)
}

// linearFamilies are the codes of one operand.
var linearFamilies = []Family{
	trigonometric,
	systematicTrigonometric,
	chebyshev,
	gaussian,
	systematicGaussian,
	cauchy,
	lowWeight,
	decodable,
	hierarchical,
	crossParity,
	luby,
	replication,
	uncoded,
}

// batchFamilies are the codes of several products at once.
var batchFamilies = []Family{
	lagrange,
	crossSubspace,
	generalisedAlignment,
	rook,
}

// approximateFamilies are those that promise an estimate.
var approximateFamilies = []Family{
	berrut,
	sketch,
}

// Register adds a family, under a name that no other one has. It is meant to be
// called from the init function of the file that declares it.
func Register(f Family) error {
	if err := f.check(); err != nil {
		return fmt.Errorf("coded: register code %q: %w", f.Name, err)
	}
	registry.Lock()
	defer registry.Unlock()
	for _, other := range registry.families {
		if other.Name == f.Name {
			return fmt.Errorf("coded: register code %q: the name is taken", f.Name)
		}
	}
	registry.families = append(registry.families, f)
	return nil
}

func (f Family) check() error {
	switch {
	case f.Name == "":
		return errors.New("it has no name")
	case f.Define == nil:
		return errors.New("it has no definition")
	case len(f.Examples) == 0:
		return errors.New("it has no example to be tested with")
	}
	for _, s := range f.Examples {
		if s.Name != f.Name {
			return fmt.Errorf("the example %v has another name", s)
		}
	}
	return nil
}

// Families returns all families in the order of their registration.
func Families() []Family {
	registry.RLock()
	defer registry.RUnlock()
	return append([]Family(nil), registry.families...)
}

// Names returns the names of all families, in the order of their registration.
func Names() []string {
	var names []string
	for _, f := range Families() {
		names = append(names, f.Name)
	}
	return names
}

// SpecError says that there is no code for a Spec.
type SpecError struct {
	Spec   Spec
	Reason string
}

func (e *SpecError) Error() string { return fmt.Sprintf("no code %v: %s", e.Spec, e.Reason) }

// New builds the code that a Spec names. It fails with a *SpecError.
func New(s Spec) (*Code, error) {
	for _, f := range Families() {
		if f.Name == s.Name {
			return f.new(s)
		}
	}
	return nil, &SpecError{s, "the names are " + strings.Join(Names(), ", ")}
}

func (f Family) new(s Spec) (*Code, error) {
	if err := f.checkSpec(s); err != nil {
		return nil, &SpecError{s, err.Error()}
	}
	d, err := f.Define(s)
	if err != nil {
		return nil, &SpecError{s, err.Error()}
	}
	d.Name, d.Doc, d.Paper, d.Kind = f.Name, f.Doc, f.Paper, f.Kind
	c, err := NewCode(d)
	if err != nil {
		return nil, &SpecError{s, err.Error()}
	}
	return c, nil
}

func (f Family) checkSpec(s Spec) error {
	if s.N < 1 || s.N > MaxTasks {
		return fmt.Errorf("n must be 1 to %d", MaxTasks)
	}
	for _, p := range s.params() {
		switch used := f.Uses&p.use != 0; {
		case !used && p.value != 0:
			return fmt.Errorf("the code has no use for %s", p.name)
		case used && p.value < 1:
			return fmt.Errorf("%s must be at least 1", p.name)
		case p.value > maxEntries/s.N:
			return fmt.Errorf("%s must be at most %d", p.name, maxEntries/s.N)
		}
	}
	if f.Uses&UsesSeed == 0 && s.Seed != 0 {
		return errors.New("the code has no use for a seed")
	}
	return nil
}

// atLeastK checks that there is a task for each of k blocks.
func (s Spec) atLeastK() error {
	if s.N < s.K {
		return errors.New("n must be at least k")
	}
	return nil
}
