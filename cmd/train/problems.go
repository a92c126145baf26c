package main

import (
	"errors"
	"fmt"
	"math"
	"path"
	"time"
)

// problems collects what is wrong with settings, so that all of it is told at once.
type problems struct{ list []error }

// bad adds a problem.
func (p *problems) bad(format string, args ...any) {
	p.list = append(p.list, fmt.Errorf(format, args...))
}

// add adds an error, if it is one.
func (p *problems) add(err error) { p.list = append(p.list, err) }

// err is all problems, nil if there is none.
func (p *problems) err() error { return errors.Join(p.list...) }

// usage is err as a mistake in the arguments.
func (p *problems) usage() error {
	if err := p.err(); err != nil {
		return usageError{err}
	}
	return nil
}

// atLeast checks the whole number of a flag.
func (p *problems) atLeast(flag string, v, least int) {
	if v < least {
		p.bad("--%s %d: want at least %d", flag, v, least)
	}
}

// fromZero checks the number of a flag, which may be 0.
func (p *problems) fromZero(flag string, v float64) {
	if !(v >= 0 && v < math.Inf(1)) {
		p.bad("--%s %g: want a finite number from 0", flag, v)
	}
}

// positive checks the number of a flag, which is 0 only by mistake: no infinity either, in
// units a thousand million times as small.
func (p *problems) positive(flag string, v float64) {
	if !(v > 0) || math.IsInf(1e9*v, 1) {
		p.bad("--%s %g: want a finite number above 0", flag, v)
	}
}

// duration checks the duration of a flag.
func (p *problems) duration(flag string, d time.Duration) {
	if d < 0 {
		p.bad("--%s %s: want no negative duration", flag, d)
	}
}

// fraction checks the number of a flag that is a part of something.
func (p *problems) fraction(flag string, v float64) {
	if !(v >= 0 && v < 1) {
		p.bad("--%s %g: want from 0 to below 1", flag, v)
	}
}

// exclusive checks that of two flags at most one is set.
func (p *problems) exclusive(one string, isOne bool, other string, isOther bool) {
	if isOne && isOther {
		p.bad("--%s and --%s: choose one", one, other)
	}
}

// glob checks a pattern of names.
func (p *problems) glob(where, pattern, example string) {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		p.bad("%s %q: want a pattern of names, such as %s", where, pattern, example)
	}
}
