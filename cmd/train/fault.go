package main

import (
	"errors"
	"fmt"
	"maps"
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
	step    int   // kill, restart, freeze, partition: before which step
	pause   time.Duration
	slow    string  // slow: the factor's distribution, as the worker's --slow takes it
	p       float64 // drop, corrupt: probability
}

// faultKinds lists what can be injected and the form of its WHEN.
var faultKinds = map[string]string{
	"kill":      "step=N",
	"restart":   "step=N",
	"freeze":    "step=N,for=DURATION",
	"partition": "step=N,for=DURATION",
	"slow":      sim.DistributionForms,
	"drop":      "p=PROBABILITY",
	"corrupt":   "p=PROBABILITY",
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
		return fault{}, fmt.Errorf("unknown fault %q; known: %s", what, strings.Join(slices.Sorted(maps.Keys(faultKinds)), ", "))
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

func (f *fault) parseWhen(when string) (err error) {
	switch f.what {
	case "slow":
		f.slow = when
		_, err = sim.ParseDistribution(when)
		return err
	case "drop", "corrupt":
		name, value, _ := strings.Cut(when, "=")
		if f.p, err = strconv.ParseFloat(value, 64); name != "p" || err != nil || !(f.p > 0 && f.p <= 1) {
			return fmt.Errorf("%q is not a probability above 0 and up to 1", when)
		}
		return nil
	}
	return f.parseStep(when)
}

// parseStep parses when a fault strikes and, for those that pass, how long it
// lasts.
func (f *fault) parseStep(when string) (err error) {
	passes := f.what == "freeze" || f.what == "partition"
	for _, part := range strings.Split(when, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case name == "step":
			if f.step, err = strconv.Atoi(value); err != nil || f.step < 1 {
				return fmt.Errorf("%q is not a step from 1", part)
			}
		case name == "for" && passes:
			if f.pause, err = time.ParseDuration(value); err != nil || f.pause <= 0 {
				return fmt.Errorf("%q is not a duration such as 5s", part)
			}
		default:
			return fmt.Errorf("unknown condition %q", part)
		}
	}
	if f.step == 0 || passes && f.pause == 0 {
		return fmt.Errorf("%q is incomplete", when)
	}
	return nil
}

// hits tells whether the fault concerns worker w.
func (f fault) hits(w int) bool { return f.workers == nil || slices.Contains(f.workers, w) }

// args are the arguments of a worker that has the fault from its beginning.
func (f fault) args() []string {
	switch f.what {
	case "slow":
		return []string{"--slow", f.slow}
	case "drop", "corrupt":
		return []string{"--" + f.what, strconv.FormatFloat(f.p, 'g', -1, 64)}
	}
	return nil
}
