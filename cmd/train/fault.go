package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coda-ml/coda/dist/sim"
)

// fault is one --inject specification, WHAT:WHO@WHEN, for example
// kill:2+4@step=300, freeze:1@step=50,for=5s or slow:*@shifted-exp=1,0.5.
type fault struct {
	what    string
	workers []int // from 1; nil: all
	step    int   // kill, restart, freeze: before which step
	pause   time.Duration
	slow    string // slow: the factor's distribution, as the worker's --slow takes it
}

// faultKinds lists what can be injected and the form of its WHEN.
var faultKinds = map[string]string{
	"kill":    "step=N",
	"restart": "step=N",
	"freeze":  "step=N,for=DURATION",
	"slow":    sim.DistributionForms,
}

// parseFaults parses the specifications and checks that they name workers
// 1..workers. It reports every problem at once.
func parseFaults(specs []string, workers int) ([]fault, error) {
	var faults []fault
	var problems []error
	for _, spec := range specs {
		f, err := parseFault(spec, workers)
		if err != nil {
			problems = append(problems, fmt.Errorf("--inject %q: %w", spec, err))
			continue
		}
		faults = append(faults, f)
	}
	return faults, errors.Join(problems...)
}

func parseFault(spec string, workers int) (fault, error) {
	what, rest, ok1 := strings.Cut(spec, ":")
	who, when, ok2 := strings.Cut(rest, "@")
	if !ok1 || !ok2 {
		return fault{}, errors.New("want WHAT:WHO@WHEN, for example kill:2@step=300")
	}
	form, known := faultKinds[what]
	if !known {
		return fault{}, fmt.Errorf("unknown fault %q; known: freeze, kill, restart, slow", what)
	}
	f := fault{what: what}
	var err error
	if f.workers, err = parseWho(who, workers); err != nil {
		return fault{}, err
	}
	if err := f.parseWhen(when); err != nil {
		return fault{}, fmt.Errorf("%w; want %s", err, form)
	}
	return f, nil
}

func parseWho(who string, workers int) ([]int, error) {
	if who == "*" {
		return nil, nil
	}
	var list []int
	for _, s := range strings.Split(who, "+") {
		w, err := strconv.Atoi(s)
		if err != nil || w < 1 {
			return nil, fmt.Errorf("worker %q: want a number from 1, several joined by '+', or '*'", s)
		}
		if w > workers {
			return nil, fmt.Errorf("worker %d: only %d workers are started here", w, workers)
		}
		list = append(list, w)
	}
	return list, nil
}

func (f *fault) parseWhen(when string) error {
	if f.what == "slow" {
		if _, err := sim.ParseDistribution(when); err != nil {
			return err
		}
		f.slow = when
		return nil
	}
	for _, part := range strings.Split(when, ",") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch {
		case name == "step":
			if f.step, err = strconv.Atoi(value); err != nil || f.step < 1 {
				return fmt.Errorf("%q is not a step from 1", part)
			}
		case name == "for" && f.what == "freeze":
			if f.pause, err = time.ParseDuration(value); err != nil || f.pause <= 0 {
				return fmt.Errorf("%q is not a duration such as 5s", part)
			}
		default:
			return fmt.Errorf("unknown condition %q", part)
		}
	}
	if f.step == 0 || (f.what == "freeze" && f.pause == 0) {
		return fmt.Errorf("%q is incomplete", when)
	}
	return nil
}

// hits tells whether the fault concerns worker w.
func (f fault) hits(w int) bool { return f.workers == nil || slices.Contains(f.workers, w) }
