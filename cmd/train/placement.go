package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// place decides where each layer computes.
func (r *run) place() error {
	layers, err := nn.Placeables(r.model)
	if err != nil {
		return err
	}
	described := make([]plan.Layer, len(layers))
	for i, l := range layers {
		in, out, groups := l.Shape()
		described[i] = plan.Layer{Name: l.Name, Kind: plan.Linear, In: in / groups, Out: out / groups, Weights: l.Weight.Size(), First: l.First}
		if _, ok := l.Layer.(*nn.Conv2d); ok {
			described[i].Kind = plan.Conv2d
		}
	}
	if err := matchRules(r.Placements, described); err != nil {
		return usageError{err}
	}
	return r.applyRules(described, layers)
}

// matchRules finds rules that decide over no layer of the model: nothing is called so, or
// the entries before it leave nothing to it, as they may to a last "*".
func matchRules(rules []placementRule, layers []plan.Layer) error {
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Name
	}
	var p problems
	for i, rule := range rules {
		where := entryAt("placements", i, rule.at)
		switch {
		case !slices.ContainsFunc(names, rule.matches):
			p.bad("%s no layer is called %q; the model has %s", where, rule.Layer, strings.Join(names, ", "))
		case rule.Layer != "*" && !slices.ContainsFunc(names, func(name string) bool { return ruleOver(rules, name) == i }):
			p.bad("%s the entries before it match all that %q does, and the first match wins", where, rule.Layer)
		}
	}
	return p.err()
}

// ruleOver returns which rule decides over a layer, -1 if none does.
func ruleOver(rules []placementRule, layer string) int {
	return slices.IndexFunc(rules, func(p placementRule) bool { return p.matches(layer) })
}

// asAsked is the reason for what a rule or a flag says.
const asAsked = "as asked"

// applyRules places the layers.
func (r *run) applyRules(layers []plan.Layer, products []nn.Placeable) error {
	for i, l := range layers {
		rule, why := r.ruleFor(l.Name), asAsked
		if p, ok := r.planned[l.Name]; ok {
			rule, why = p.rule, p.why
		}
		info, err := r.applyRule(l, products[i], rule, why)
		if err != nil && rule.at != "" {
			err = fmt.Errorf("%s: %w", rule.at, err)
		}
		if err != nil {
			return usageError{err}
		}
		r.layers = append(r.layers, info)
	}
	return nil
}

// applyRule places a layer; why is the reason for what its rule says.
func (r *run) applyRule(l plan.Layer, product nn.Placeable, rule placementRule, why string) (layerInfo, error) {
	choice, err := choose(l, rule, plan.Cluster{Workers: r.N, K: rule.K}, why)
	if err == nil && product.Weight.Frozen && choice.Placement != plan.Batch && choice.Placement != plan.Shipped {
		choice, err = chooseFrozen(l, rule)
	}
	if err != nil {
		return layerInfo{}, err
	}
	info := layerInfo{Layer: l.Name, Placement: choice.Placement, Reason: choice.Reason}
	if choice.Placement == plan.Shipped {
		if choice, err = r.fitShipped(product, rule, why, &info); err != nil {
			return layerInfo{}, err
		}
	}
	switch choice.Placement {
	case plan.Local:
	case plan.Shipped:
		r.shipOne(product, &info)
	default:
		if err := r.placeOne(product, rule, &info); err != nil {
			return layerInfo{}, fmt.Errorf("layer %s: placement %s: %w", l.Name, choice.Placement, err)
		}
	}
	return info, nil
}

// placeOne puts a layer on the resident or batch placement that its rule names.
func (r *run) placeOne(p nn.Placeable, rule placementRule, info *layerInfo) error {
	spec := coded.Spec{Name: rule.Code, N: r.N, K: rule.K}
	if codes := placementCodes(); !slices.Contains(codes, spec.Name) {
		return fmt.Errorf("code %s: choose one of %s", spec.Name, strings.Join(codes, ", "))
	}
	code, err := coded.New(spec)
	if err != nil {
		return err
	}
	info.Code, info.N, info.K, info.needs = spec.Name, spec.N, spec.K, code.Threshold()
	r.needed = max(r.needed, info.needs)
	if info.needs != spec.K { // of replication, say; the reason takes any k for enough
		enough := func(k int) string { return fmt.Sprintf("any %d of %d", k, spec.N) }
		info.Reason = strings.Replace(info.Reason, enough(spec.K), enough(info.needs), 1)
	}
	if info.Placement == plan.Resident {
		on := &nn.Resident{Code: spec, Chunks: chunksPerRound, ByBatch: r.inference && r.Batch >= chunksPerRound}
		p.Layer.Place(on)
		r.placed = append(r.placed, func(e coded.Executor) { on.Executor = e })
		return nil
	}
	if r.Batch < spec.K {
		return fmt.Errorf("--batch %d cannot be cut into %d blocks: choose a larger batch, a smaller k, or placement resident or local", r.Batch, spec.K)
	}
	on := &nn.Batch{Code: spec, Chunks: chunksPerRound}
	if rule.Gradient != "" {
		if err := codeGradient(on, rule.Gradient, info); err != nil {
			return err
		}
		r.needed = max(r.needed, info.Gradient)
	}
	p.Layer.Place(on)
	r.placed = append(r.placed, func(e coded.Executor) { on.Executor = e })
	return nil
}

// gradientWorkers says that the gradient of the weights is computed by the workers from
// the coded blocks that they have. In its place may be the name of a code for sums of
// gradients.
const gradientWorkers = "workers"

// gradientCode returns the code of the gradient of a layer whose batch is coded. One for
// sums of gradients has a part of the batch for each worker, and bears as many lost
// ones as the layer's own.
func gradientCode(name string, layer coded.Spec) (coded.Spec, error) {
	if name != gradientWorkers {
		return coded.Spec{Name: name, N: layer.N, K: layer.N, Load: layer.N - layer.K + 1}, nil
	}
	if layer.Name != "trigonometric" {
		return coded.Spec{}, fmt.Errorf("gradient workers: code %s: want trigonometric", layer.Name)
	}
	return coded.Spec{Name: "trigonometric-matdot", N: layer.N, P: layer.K}, nil
}

// codeGradient lets the workers compute the gradient of a layer's weights.
func codeGradient(on *nn.Batch, name string, info *layerInfo) error {
	spec, err := gradientCode(name, on.Code)
	if err != nil {
		return err
	}
	code, err := coded.New(spec)
	if err != nil {
		return fmt.Errorf("gradient %s: %w", name, err)
	}
	on.Gradient, info.gradientSpec = spec, spec
	n, needed := code.N(), code.Threshold()
	info.Gradient = needed
	info.Reason += fmt.Sprintf("; its gradient needs %d answers of %d", needed, n)
	if needed == n {
		most := n / 2
		if name != gradientWorkers {
			most = n - 1
		}
		info.Reason += fmt.Sprintf(": all of them, so that one lost worker stops the run; with k up to %d some can be lost", most)
	}
	return nil
}

// chunksPerRound is the number of pieces into which every worker's product is
// cut: enough that the finished work of a slow worker counts, few enough that
// a piece is worth a message.
const chunksPerRound = 4

// matches tells whether the rule's glob matches a layer's name.
func (p placementRule) matches(layer string) bool {
	ok, _ := path.Match(p.Layer, layer) // validate has refused bad patterns
	return ok
}

// ruleFor returns the first rule that matches the layer, or what the flags say
// for all layers.
func (r *run) ruleFor(layer string) placementRule {
	rule := placementRule{Layer: "*", Placement: r.Placement}
	if i := ruleOver(r.Placements, layer); i >= 0 {
		rule = r.Placements[i]
	}
	if rule.Code == "" {
		rule.Code = r.Code
	}
	if rule.K == 0 {
		rule.K = r.K
		if rule.Code == "uncoded" {
			rule.K = r.N
		}
	}
	return rule
}

// choose applies a rule to a layer. A layer that a rule of its own wants
// resident and that cannot be is an error; for --placement resident it stays local.
//
// Why says who decided.
func choose(l plan.Layer, rule placementRule, c plan.Cluster, why string) (plan.Choice, error) {
	one := []plan.Layer{l}
	if rule.Placement != plan.Local && c.Workers > 0 && c.K > c.Workers {
		return plan.Choice{}, fmt.Errorf("layer %s: placement %s: k %d: want 1 to %d, the number of shards", l.Name, rule.Placement, c.K, c.Workers)
	}
	switch rule.Placement {
	case plan.Local:
		return plan.Choice{Layer: l.Name, Placement: plan.Local, Reason: why}, nil
	case autoPlacement:
		return plan.Choose(one, c)[0], nil
	case plan.Batch:
		return plan.Choice{Layer: l.Name, Placement: plan.Batch, Reason: fmt.Sprintf("%s, any %d of %d workers", why, c.K, c.Workers)}, nil
	case plan.Shipped:
		return plan.Choice{Layer: l.Name, Placement: plan.Shipped}, nil
	case plan.Resident:
		if cannot := plan.CannotPlace(l, c); cannot != "" && rule.Layer == l.Name {
			return plan.Choice{}, fmt.Errorf("layer %s: placement resident: %s: choose a smaller k, or placement batch or local", l.Name, cannot)
		}
		choice := plan.All(one, c)[0]
		if why != asAsked {
			choice.Reason = fmt.Sprintf("%s, any %d of %d workers", why, c.K, c.Workers)
		}
		return choice, nil
	}
	return plan.Choice{}, fmt.Errorf("layer %s: placement %q", l.Name, rule.Placement) // validate knows no other
}

// chooseFrozen is choose for a layer that is not trained: it stays local.
func chooseFrozen(l plan.Layer, rule placementRule) (plan.Choice, error) {
	if rule.Placement == plan.Resident && rule.Layer == l.Name {
		return plan.Choice{}, fmt.Errorf("layer %s: it is frozen, and placement resident is for layers that are trained: choose batch or local", l.Name)
	}
	return plan.Choice{Layer: l.Name, Placement: plan.Local, Reason: "frozen"}, nil
}

// checkPlaced finds out before anything is started whether the optimiser can train the
// placed layers, and whether what else is wanted of them can be done.
func (r *run) checkPlaced() error {
	var layers []string
	for _, l := range r.layers {
		if l.Placement == plan.Resident {
			layers = append(layers, l.Layer)
		}
	}
	err := r.cannotReside(layers...)
	if len(r.placed) > 0 && r.Losses > r.N-r.needed {
		err = errors.Join(err, fmt.Errorf("--losses %d: want at most %d, where %d of %d shards are needed", r.Losses, r.N-r.needed, r.needed, r.N))
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// cannotReside says what of the run's settings speaks against weights of layers that
// are on the workers alone, in coded form.
func (r *run) cannotReside(layers ...string) error {
	if len(layers) == 0 {
		return nil
	}
	all := strings.Join(layers, ", ")
	var problems []error
	var nonlinear *optim.NotLinearError
	for _, l := range layers {
		_, err := r.optimizer.Linear(l)
		if errors.As(err, &nonlinear) { // as for every other
			problems = append(problems, &optim.NotLinearError{Layer: all, Optimizer: nonlinear.Optimizer})
			break
		}
		problems = append(problems, err)
	}
	if r.ema != nil {
		problems = append(problems, fmt.Errorf("--ema: layer %s: weights on the workers are not averaged: choose --placement local", all))
	}
	for _, l := range layers {
		if r.WeightDecay > 0 && r.exempt[l+".weight"] {
			problems = append(problems, fmt.Errorf("--no-decay: layer %s: its weights are on the workers, and all coded layers share one update: choose --placement local", l))
		}
	}
	return errors.Join(problems...)
}
