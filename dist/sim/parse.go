package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ModelForms lists the models that ParseModel reads, for help texts.
const ModelForms = "none, or a distribution (" + DistributionForms + "), or, joined by ';': " +
	"slow:WHO@DISTRIBUTION, delay:WHO@DISTRIBUTION, shared:WHO@DISTRIBUTION, some:COUNT@DISTRIBUTION, " +
	"burst:WHO@enter=P,leave=P,x=F, preempt:WHO@leave=P,back=P, fail:WHO@p=P, kill:WHO@step=N"

// modelKinds parse what follows the '@' of each kind of model. workers are from
// 0, nil for all; a kind that takes a number of workers gets it as count.
var modelKinds = map[string]func(workers []int, count int, when string) (Model, error){
	"slow": func(workers []int, _ int, when string) (Model, error) {
		d, err := ParseDistribution(when)
		return Slow{workers, d}, err
	},
	"delay": func(workers []int, _ int, when string) (Model, error) {
		d, err := ParseDistribution(when)
		return Delay{workers, d}, err
	},
	"shared": func(workers []int, _ int, when string) (Model, error) {
		d, err := ParseDistribution(when)
		return Shared{workers, d}, err
	},
	"some": func(_ []int, count int, when string) (Model, error) {
		d, err := ParseDistribution(when)
		return Some{count, d}, err
	},
	"burst": func(workers []int, _ int, when string) (Model, error) {
		v, err := named(when, "enter", "leave", "x")
		if err == nil {
			err = checkChain(v["enter"], v["leave"])
		}
		return Bursts{workers, v["enter"], v["leave"], v["x"]}, err
	},
	"preempt": func(workers []int, _ int, when string) (Model, error) {
		v, err := named(when, "leave", "back")
		if err == nil {
			err = checkChain(v["leave"], v["back"])
		}
		return Preempt{workers, v["leave"], v["back"]}, err
	},
	"fail": func(workers []int, _ int, when string) (Model, error) {
		v, err := named(when, "p")
		if err == nil && v["p"] >= 1 {
			err = fmt.Errorf("probability %v, want less than 1", v["p"])
		}
		return Fail{workers, v["p"]}, err
	},
	"kill": func(workers []int, _ int, when string) (Model, error) {
		v, err := named(when, "step")
		if err == nil && v["step"] != float64(int(v["step"])) {
			err = fmt.Errorf("step %v, want a whole number", v["step"])
		}
		return Kill{workers, int(v["step"])}, err
	},
}

// ParseModel reads a model of n workers: "none", a distribution such as
// "shifted-exp=1,1" (of every worker's factor), or specifications
// WHAT:WHO@WHEN joined by ';', where WHO is a worker's number from 1, several
// joined by '+', or '*' (see ModelForms). It reports every problem at once.
func ParseModel(spec string, n int) (Model, error) {
	if spec == "none" {
		return None{}, nil
	}
	if !strings.ContainsAny(spec, ":@;") {
		d, err := ParseDistribution(spec)
		if err != nil {
			return nil, fmt.Errorf("sim: model: %w", err)
		}
		return Slow{By: d}, nil
	}
	var models Together
	var problems []error
	for part := range strings.SplitSeq(spec, ";") {
		m, err := parseModel(strings.TrimSpace(part), n)
		if err != nil {
			problems = append(problems, fmt.Errorf("sim: model %q: %w", part, err))
		}
		models = append(models, m)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if len(models) == 1 {
		return models[0], nil
	}
	return models, nil
}

func parseModel(part string, n int) (Model, error) {
	what, rest, ok1 := strings.Cut(part, ":")
	who, when, ok2 := strings.Cut(rest, "@")
	if !ok1 || !ok2 {
		return nil, errors.New("want WHAT:WHO@WHEN, for example slow:2@x=4")
	}
	parse := modelKinds[what]
	if parse == nil {
		return nil, fmt.Errorf("unknown model %q; known: %s", what, strings.Join(slices.Sorted(maps.Keys(modelKinds)), ", "))
	}
	if what == "some" {
		count, err := strconv.Atoi(who)
		if err != nil || count < 1 || count > n {
			return nil, fmt.Errorf("%q: want a number of workers from 1 to %d", who, n)
		}
		return parse(nil, count, when)
	}
	workers, err := parseWorkers(who, n)
	if err != nil {
		return nil, err
	}
	return parse(workers, 0, when)
}

func parseWorkers(who string, n int) ([]int, error) {
	if who == "*" {
		return nil, nil
	}
	var workers []int
	for s := range strings.SplitSeq(who, "+") {
		w, err := strconv.Atoi(s)
		if err != nil || w < 1 || w > n {
			return nil, fmt.Errorf("worker %q: want a number from 1 to %d, several joined by '+', or '*'", s, n)
		}
		workers = append(workers, w-1)
	}
	return workers, nil
}

// named reads name=value,name=value with exactly the given names, all positive.
func named(s string, names ...string) (map[string]float64, error) {
	values := map[string]float64{}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown parameter %q; want %s", part, strings.Join(names, ", "))
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("parameter %s is given twice", name)
		}
		v, err := numbers(value, 1)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", name, err)
		}
		values[name] = v[0]
	}
	for _, name := range names {
		if _, given := values[name]; !given {
			return nil, fmt.Errorf("parameter %s is missing", name)
		}
	}
	return values, nil
}

// checkChain checks the probabilities of a two-state chain: it must forget its
// past, see chain.
func checkChain(enter, leave float64) error {
	if sum := enter + leave; enter > 1 || leave > 1 || sum < 1e-4 || sum > 2-1e-4 {
		return fmt.Errorf("probabilities %v and %v, want at most 1 each and a sum of 0.0001 to 1.9999", enter, leave)
	}
	return nil
}
