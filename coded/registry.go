package coded

import (
	"fmt"
	"strings"
)

// family is a kind of code: a name and the definition for n tasks and k blocks.
type family struct {
	name, doc, paper string
	define           func(n, k int) (Definition, error)
}

// families lists every code that New builds. A new code is one file that
// declares a family, and its line here.
var families = []family{
	trigonometric,
	replication,
	uncoded,
}

// SpecError says that there is no code for a Spec.
type SpecError struct {
	Spec   Spec
	Reason string
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("no code %q with n=%d, k=%d: %s", e.Spec.Name, e.Spec.N, e.Spec.K, e.Reason)
}

// New builds the code that a Spec names. It fails with a *SpecError.
func New(s Spec) (*Code, error) {
	for _, f := range families {
		if f.name == s.Name {
			return f.new(s)
		}
	}
	return nil, &SpecError{s, "the names are " + strings.Join(Names(), ", ")}
}

func (f family) new(s Spec) (*Code, error) {
	switch {
	case s.K < 1:
		return nil, &SpecError{s, "k must be at least 1"}
	case s.N < s.K:
		return nil, &SpecError{s, "n must be at least k"}
	case s.N > MaxTasks:
		return nil, &SpecError{s, fmt.Sprintf("n must be at most %d", MaxTasks)}
	}
	d, err := f.define(s.N, s.K)
	if err != nil {
		return nil, &SpecError{s, err.Error()}
	}
	d.Name, d.Doc, d.Paper = f.name, f.doc, f.paper
	return NewCode(d)
}

// Names returns the names of all codes, in a fixed order.
func Names() []string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.name
	}
	return names
}
