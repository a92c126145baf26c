package optim

import (
	"fmt"
	"math"
	"strings"

	"github.com/coda-ml/coda/coded"
)

// Param is one parameter of a model as an optimiser sees it. The slices have
// equal length and are shared with the model.
type Param struct {
	Name  string    // dotted, unique in the model: "fc1.weight"
	Value []float32 // changed in place by Step
	Grad  []float32 // gradient of the loss; only read

	NoDecay bool // leave weight decay out
}

// decay is the weight decay of the parameter.
func (p Param) decay(d float64) float64 {
	if p.NoDecay {
		return 0
	}
	return d
}

// Optimizer turns gradients into new values.
type Optimizer interface {
	// Step updates the values of the parameters in place. The training step
	// counts from 1 and only chooses the learning rate. A parameter without a
	// gradient in this step is left out of params and stays as it is.
	Step(step int, params []Param) error
	// State returns a copy of what the optimiser remembers, for a checkpoint.
	State() State
	// LoadState replaces what the optimiser remembers.
	LoadState(s State) error
	// Linear gives the optimiser's updates in the form that a coded copy of
	// the layer's weights can follow, with Scale 1. It fails with a
	// *NotLinearError if the optimiser has no such form.
	Linear(layer string) (func(step int) (coded.Update, error), error)
}

// NotLinearError says that an optimiser cannot update a layer that only
// exists in coded form.
type NotLinearError struct {
	Layer     string
	Optimizer string
}

func (e *NotLinearError) Error() string {
	return fmt.Sprintf("optim: layer %s: %s is not a linear map of weights and gradients, so it cannot update coded weights: "+
		"place the layer with placement local or batch, or train it with SGD", e.Layer, e.Optimizer)
}

// invalid makes one error of all problems of a configuration, or nil.
func invalid(what string, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("optim: %s: %s", what, strings.Join(problems, "; "))
}

// rateProblem describes what is wrong with a learning rate, "" if it is fine.
func rateProblem(lr float64) string {
	if math.IsNaN(lr) || math.IsInf(lr, 0) || lr < 0 {
		return fmt.Sprintf("learning rate %v, want a finite number of at least 0", lr)
	}
	return ""
}

// within reports whether x is a number of at least 0 and below limit.
func within(x, limit float64) bool { return x >= 0 && x < limit }

// scheduleProblem checks a schedule as far as its first step tells.
func scheduleProblem(s Schedule) string {
	if s == nil {
		return "no learning rate schedule (LR)"
	}
	return rateProblem(s(1))
}
