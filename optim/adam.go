package optim

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// AdamConfig is the configuration of NewAdam. The zero value of every field but
// LR means PyTorch's default.
type AdamConfig struct {
	LR    Schedule // learning rate; required
	Beta1 float64  // decay of the mean, below 1; 0 means 0.9
	Beta2 float64  // decay of the mean square, below 1; 0 means 0.999
	Eps   float64  // added to the root of the mean square; 0 means 1e-8
	Decay float64  // L2 penalty added to the gradient (not AdamW's), at least 0
}

// withDefaults fills in what is zero.
func (c AdamConfig) withDefaults() AdamConfig {
	fill := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
	}
	fill(&c.Beta1, 0.9)
	fill(&c.Beta2, 0.999)
	fill(&c.Eps, 1e-8)
	return c
}

func (c AdamConfig) validate() error {
	var problems []string
	if p := scheduleProblem(c.LR); p != "" {
		problems = append(problems, p)
	}
	for _, b := range []struct {
		name         string
		value, limit float64
	}{{"beta1", c.Beta1, 1}, {"beta2", c.Beta2, 1}, {"epsilon", c.Eps, math.Inf(1)}, {"weight decay", c.Decay, math.Inf(1)}} {
		if !within(b.value, b.limit) {
			problems = append(problems, fmt.Sprintf("%s %v, want from 0 to below %v", b.name, b.value, b.limit))
		}
	}
	return invalid("Adam", problems)
}

// Adam is the optimiser of Kingma and Ba, with weight decay as an L2 penalty.
type Adam struct {
	config AdamConfig
	memory memory
}

var _ Optimizer = (*Adam)(nil)

// NewAdam returns the optimiser, or an error that lists every problem of c.
func NewAdam(c AdamConfig) (*Adam, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Adam{config: c, memory: newMemory("Adam", ExpAvg, ExpAvgSq)}, nil
}

// Step implements Optimizer. The bias correction counts the updates made, not
// the training step, so that a state that starts late is corrected as well.
func (a *Adam) Step(step int, params []Param) error {
	if err := a.memory.prepare(step, params); err != nil {
		return err
	}
	lr := a.config.LR(step)
	if p := rateProblem(lr); p != "" {
		return fmt.Errorf("optim: Adam: step %d: %s", step, p)
	}
	c := a.config
	for _, p := range params {
		kernel.Adam(p.Value, a.memory.buffer(p.Name, 0), a.memory.buffer(p.Name, 1), p.Grad, kernel.AdamStep{
			LR: lr, Beta1: c.Beta1, Beta2: c.Beta2, Epsilon: c.Eps, Decay: p.decay(c.Decay), Scale: 1, Step: a.memory.updates + 1,
		})
	}
	a.memory.updates++
	return nil
}

// State implements Optimizer.
func (a *Adam) State() State { return a.memory.state() }

// LoadState implements Optimizer.
func (a *Adam) LoadState(st State) error { return a.memory.load(st) }

// Linear implements Optimizer: it fails, since Adam divides by a root.
func (a *Adam) Linear(layer string) (func(step int) (coded.Update, error), error) {
	return nil, &NotLinearError{Layer: layer, Optimizer: "Adam"}
}
