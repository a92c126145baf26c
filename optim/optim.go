package optim

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// Param is one parameter of a model as an optimiser sees it. The slices have
// equal length and are shared with the model.
type Param struct {
	Name  string    // dotted, unique in the model: "fc1.weight"
	Value []float32 // changed in place by Step
	Grad  []float32 // gradient of the loss; only read, but by Clip

	NoDecay bool // leave weight decay out

	// Remote parameters have neither Value nor Grad: they are updated elsewhere, by a
	// coded.Update (see Linear). SumSquares, that of the gradient, counts for the
	// global norm.
	Remote     bool
	SumSquares float64
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
	// the layer's weights can follow; each is made after the Step of its number,
	// and its Scale is 1 but where gradients are clipped: then Step needs the
	// layer's weight among its parameters, as a Remote one. It fails with a
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
