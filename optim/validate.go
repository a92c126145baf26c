package optim

import (
	"fmt"
	"math"
	"strings"
)

// problems collects what is wrong with a configuration.
type problems []string

// want adds a problem unless ok.
func (p *problems) want(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

// within wants a number of at least 0 and below limit.
func (p *problems) within(name string, x, limit float64) {
	if math.IsInf(limit, 1) {
		p.want(x >= 0 && x < limit, "%s %v, want a finite number of at least 0", name, x)
	} else {
		p.want(x >= 0 && x < limit, "%s %v, want from 0 to below %v", name, x, limit)
	}
}

// atLeastZero wants a finite number of at least 0.
func (p *problems) atLeastZero(name string, x float64) { p.within(name, x, math.Inf(1)) }

func (p *problems) rate(lr float64) { p.atLeastZero("learning rate", lr) }

func (p *problems) steps(n int) { p.want(n >= 1, "%d steps, want at least 1", n) }

// schedule checks a schedule as far as its first step tells.
func (p *problems) schedule(s Schedule) {
	if s == nil {
		p.want(false, "no learning rate schedule (LR)")
		return
	}
	p.rate(s(1))
}

// err makes one error of all problems of a thing, or nil.
func (p problems) err(what string) error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("optim: %s: %s", what, strings.Join(p, "; "))
}

// orDefault replaces a zero by the default.
func orDefault(x *float64, v float64) {
	if *x == 0 {
		*x = v
	}
}
