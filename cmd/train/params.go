package main

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// groupRule is one entry of the YAML list "groups": the first rule whose glob
// matches a parameter's name decides.
type groupRule struct {
	Params      string   `yaml:"params" json:"params"`
	LR          *float64 `yaml:"lr,omitempty" json:"lr,omitempty"`                     // in place of --lr, with the same schedule
	WeightDecay *float64 `yaml:"weight-decay,omitempty" json:"weight_decay,omitempty"` // in place of --weight-decay
	Freeze      bool     `yaml:"freeze,omitempty" json:"freeze,omitempty"`

	at string // file:line; empty if it is from no file
}

// allVectors is the value of --no-decay that stands for all parameters of one
// dimension.
const allVectors = "vectors"

// validateParameters checks the settings that name parameters.
func (f *runFlags) validateParameters(groups []groupRule, p *problems) {
	for i, g := range groups {
		g.validate(entryAt("groups", i, g.at), p)
	}
	for _, glob := range f.NoDecay {
		p.glob("--no-decay", glob, "'*.bias'")
	}
	for _, glob := range f.InitExcept {
		p.glob("--init-except", glob, "'fc.*'")
	}
	if len(f.InitExcept) > 0 && f.Init == "" {
		p.bad("--init-except without --init")
	}
}

func (g groupRule) validate(where string, p *problems) {
	p.glob(where+" params", g.Params, "layer?.*")
	if g.LR != nil && !(*g.LR > 0 && *g.LR < math.Inf(1)) {
		p.bad("%s lr %g: want a finite number above 0, or freeze: true", where, *g.LR)
	}
	if g.WeightDecay != nil && !(*g.WeightDecay >= 0 && *g.WeightDecay < math.Inf(1)) {
		p.bad("%s weight-decay %g: want a finite number from 0", where, *g.WeightDecay)
	}
	switch set := g.LR != nil || g.WeightDecay != nil; {
	case g.Freeze && set:
		p.bad("%s freeze: a parameter that is not trained has no lr or weight-decay", where)
	case !g.Freeze && !set:
		p.bad("%s want lr, weight-decay or freeze: true", where)
	}
}

// setParams freezes the parameters that groups say so of, marks those of
// --no-decay, and counts. The rest of the groups is the optimiser's.
func (r *run) setParams() error {
	params, err := nn.Params(r.model)
	if err != nil {
		return err
	}
	if err := errors.Join(matchGroups(r.Groups, params), r.markNoDecay(params)); err != nil {
		return usageError{err}
	}
	for _, p := range params {
		i := groupOf(r.Groups, p.Name)
		p.Frozen = i >= 0 && r.Groups[i].Freeze
		if !p.Frozen {
			r.trained += p.Size()
		}
		r.parameters += p.Size()
	}
	if r.trained == 0 {
		return usageError{errors.New("groups: every parameter is frozen, nothing is left to train")}
	}
	return freezeNorms(r.model)
}

func matches(glob, name string) bool {
	ok, _ := path.Match(glob, name) // validate has refused bad patterns
	return ok
}

// groupOf returns which rule decides over a parameter, -1 if none does.
func groupOf(groups []groupRule, name string) int {
	return slices.IndexFunc(groups, func(g groupRule) bool { return matches(g.Params, name) })
}

// matchGroups finds rules that decide over no parameter of the model.
func matchGroups(groups []groupRule, params []nn.NamedParam) error {
	var problems []error
	for i, g := range groups {
		if slices.ContainsFunc(params, func(p nn.NamedParam) bool { return groupOf(groups, p.Name) == i }) {
			continue
		}
		err := fmt.Errorf("the entries before it match all that %q does, and the first match wins", g.Params)
		if !slices.ContainsFunc(params, func(p nn.NamedParam) bool { return matches(g.Params, p.Name) }) {
			err = noSuchParam(g.Params, params)
		}
		problems = append(problems, fmt.Errorf("%s %w", entryAt("groups", i, g.at), err))
	}
	return errors.Join(problems...)
}

// markNoDecay marks the parameters that --no-decay names.
func (r *run) markNoDecay(params []nn.NamedParam) error {
	r.exempt = map[string]bool{}
	var problems []error
	for _, glob := range r.NoDecay {
		found := false
		for _, p := range params {
			if glob == allVectors && len(p.Value.Shape) == 1 || matches(glob, p.Name) {
				p.NoDecay, r.exempt[p.Name], found = true, true, true
			}
		}
		if !found {
			problems = append(problems, fmt.Errorf("--no-decay: %w", noSuchParam(glob, params)))
		}
	}
	return errors.Join(problems...)
}

// shownNames is how many names an error lists at most.
const shownNames = 12

func noSuchParam(glob string, params []nn.NamedParam) error {
	var names []string
	for _, p := range params[:min(len(params), shownNames)] {
		names = append(names, p.Name)
	}
	if rest := len(params) - shownNames; rest > 0 {
		names = append(names, fmt.Sprintf("and %d more", rest))
	}
	return fmt.Errorf("no parameter is called %q; the model has %s", glob, strings.Join(names, ", "))
}

// freezeNorms stops the running statistics of every batch norm of which all
// parameters are frozen: the layer then does what it did where it was trained.
func freezeNorms(model nn.Module) error {
	modules, err := nn.Modules(model)
	if err != nil {
		return err
	}
	for _, m := range modules {
		norm, ok := m.Module.(*nn.BatchNorm)
		if ok && norm.Weight != nil && norm.Weight.Frozen && (norm.Bias == nil || norm.Bias.Frozen) {
			norm.Config.Frozen = true
		}
	}
	return nil
}

// optimGroups are the groups as the optimiser takes them. It never sees a
// frozen parameter, but the entry keeps later ones from matching.
func (r *run) optimGroups() []optim.Group {
	var groups []optim.Group
	for _, g := range r.Groups {
		o := optim.Group{Match: g.Params}
		if g.LR != nil {
			o.LRScale = *g.LR / r.LR
		}
		if g.WeightDecay != nil {
			o.Decay, o.NoDecay = *g.WeightDecay, *g.WeightDecay == 0
		}
		groups = append(groups, o)
	}
	return groups
}

// loadInit gives the model the values of --init. A run that is resumed has
// begun with them.
func (r *run) loadInit() error {
	if r.Init == "" || r.Resume != "" {
		return nil
	}
	used := make([]bool, len(r.InitExcept))
	skip := func(name string) (skipped bool) {
		for i, glob := range r.InitExcept {
			if matches(glob, name) {
				used[i], skipped = true, true
			}
		}
		return skipped
	}
	if _, err := nn.LoadState(r.Init, r.model, nn.ExceptFunc(skip)); err != nil {
		return fmt.Errorf("--init: %w", err)
	}
	if i := slices.Index(used, false); i >= 0 {
		return usageError{fmt.Errorf("--init-except %q: neither the model nor %s has an entry of that name", r.InitExcept[i], r.Init)}
	}
	return nil
}
