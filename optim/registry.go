package optim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coda-ml/coda/internal/kernel"
)

// Config is the configuration of an optimiser that is chosen by name. Zero
// values mean the same as in the configuration of that optimiser.
type Config struct {
	LR       Schedule // learning rate; required
	Decay    float64  // weight decay: decoupled for adamw and lamb, else an L2 penalty
	Momentum float64  // sgd, rmsprop
	Momenta  Schedule // sgd
	Nesterov bool     // sgd
	Alpha    float64  // rmsprop
	Beta1    float64  // adam, adamw, amsgrad, lamb
	Beta2    float64  // adam, adamw, amsgrad, lamb
	Eps      float64  // all but sgd

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// entry is an optimiser of the registry.
type entry struct {
	lr   float64  // a usual learning rate
	uses []string // names of the settings that not all optimisers have
	make func(c Config) (Optimizer, error)
}

var registry = map[string]entry{
	"sgd": {0.01, []string{"momentum", "momenta", "nesterov"}, func(c Config) (Optimizer, error) {
		return built(NewSGD(SGDConfig{c.LR, c.Momentum, c.Momenta, c.Decay, c.Nesterov, c.ClipNorm, c.Groups, c.Pool}))
	}},
	"adam":    {0.001, adamUses, func(c Config) (Optimizer, error) { return built(NewAdam(c.adam())) }},
	"adamw":   {0.001, adamUses, func(c Config) (Optimizer, error) { return built(NewAdamW(c.adam())) }},
	"amsgrad": {0.001, adamUses, func(c Config) (Optimizer, error) { a := c.adam(); a.AMSGrad = true; return built(NewAdam(a)) }},
	"rmsprop": {0.01, []string{"momentum", "alpha", "epsilon"}, func(c Config) (Optimizer, error) {
		return built(NewRMSProp(RMSPropConfig{c.LR, c.Alpha, c.Eps, c.Momentum, c.Decay, c.ClipNorm, c.Groups, c.Pool}))
	}},
	"adagrad": {0.01, []string{"epsilon"}, func(c Config) (Optimizer, error) {
		return built(NewAdagrad(AdagradConfig{c.LR, c.Eps, c.Decay, c.ClipNorm, c.Groups, c.Pool}))
	}},
	"lamb": {0.01, adamUses, func(c Config) (Optimizer, error) {
		return built(NewLAMB(LAMBConfig{c.LR, c.Beta1, c.Beta2, c.Eps, c.Decay, c.ClipNorm, c.Groups, c.Pool}))
	}},
}

var adamUses = []string{"beta1", "beta2", "epsilon"}

func (c Config) adam() AdamConfig {
	return AdamConfig{LR: c.LR, Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Eps, Decay: c.Decay, ClipNorm: c.ClipNorm, Groups: c.Groups, Pool: c.Pool}
}

// built keeps a nil pointer from becoming an Optimizer.
func built[T Optimizer](o T, err error) (Optimizer, error) {
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Names lists the optimisers that New knows.
func Names() []string { return slices.Sorted(maps.Keys(registry)) }

// DefaultLR is a usual learning rate of an optimiser (PyTorch's default where
// there is one), 0 if New does not know it.
func DefaultLR(name string) float64 { return registry[name].lr }

// New returns the optimiser of a name. A setting that it does not have is an
// error, like those of its own constructor.
func New(name string, c Config) (Optimizer, error) {
	e, ok := registry[name]
	if !ok {
		return nil, fmt.Errorf("optim: optimiser %q: choose one of %s", name, strings.Join(Names(), ", "))
	}
	given := []setting{
		{"momentum", c.Momentum, c.Momentum != 0}, {"momenta", "a schedule", c.Momenta != nil}, {"nesterov", c.Nesterov, c.Nesterov}, {"alpha", c.Alpha, c.Alpha != 0},
		{"beta1", c.Beta1, c.Beta1 != 0}, {"beta2", c.Beta2, c.Beta2 != 0}, {"epsilon", c.Eps, c.Eps != 0},
	}
	o, err := e.make(c)
	if err := errors.Join(unused(given, e.uses).err(name), err); err != nil {
		return nil, err
	}
	return o, nil
}

// setting is a value of a configuration.
type setting struct {
	name  string
	value any
	given bool
}

// unused lists the settings that are given but not used.
func unused(all []setting, uses []string) problems {
	var p problems
	for _, s := range all {
		p.want(!s.given || slices.Contains(uses, s.name), "it has no %s (%v)", s.name, s.value)
	}
	return p
}
