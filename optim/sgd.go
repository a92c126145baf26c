package optim

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// SGDConfig is the configuration of NewSGD.
type SGDConfig struct {
	LR       Schedule // learning rate; required
	Momentum float64  // from 0 (none) to below 1
	Decay    float64  // L2 penalty added to the gradient, at least 0
	Nesterov bool     // look-ahead momentum; needs Momentum > 0
}

func (c SGDConfig) validate() error {
	var problems []string
	if p := scheduleProblem(c.LR); p != "" {
		problems = append(problems, p)
	}
	if !within(c.Momentum, 1) {
		problems = append(problems, fmt.Sprintf("momentum %v, want from 0 to below 1", c.Momentum))
	}
	if !within(c.Decay, math.Inf(1)) {
		problems = append(problems, fmt.Sprintf("weight decay %v, want a finite number of at least 0", c.Decay))
	}
	if c.Nesterov && c.Momentum == 0 {
		problems = append(problems, "Nesterov without momentum")
	}
	return invalid("SGD", problems)
}

// SGD is stochastic gradient descent with momentum and weight decay.
type SGD struct {
	config SGDConfig
	memory memory
}

var _ Optimizer = (*SGD)(nil)

// NewSGD returns the optimiser, or an error that lists every problem of c.
func NewSGD(c SGDConfig) (*SGD, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &SGD{config: c, memory: newMemory("SGD")}
	if c.Momentum > 0 {
		s.memory.buffers = []string{MomentumBuffer}
	}
	return s, nil
}

// update is the step as plain data.
func (s *SGD) update(step int) (coded.Update, error) {
	lr := s.config.LR(step)
	if p := rateProblem(lr); p != "" {
		return coded.Update{}, fmt.Errorf("optim: SGD: step %d: %s", step, p)
	}
	return coded.Update{
		Step: step, LR: lr, Momentum: s.config.Momentum, Decay: s.config.Decay, Scale: 1, Nesterov: s.config.Nesterov,
	}, nil
}

// Step implements Optimizer.
func (s *SGD) Step(step int, params []Param) error {
	if err := s.memory.prepare(step, params); err != nil {
		return err
	}
	u, err := s.update(step)
	if err != nil {
		return err
	}
	k := kernel.SGDStep{LR: float32(u.LR), Momentum: float32(u.Momentum), Scale: 1, Nesterov: u.Nesterov}
	for _, p := range params {
		var v []float32
		if u.Momentum > 0 {
			v = s.memory.buffer(p.Name, 0)
		}
		k.Decay = float32(p.decay(u.Decay))
		kernel.SGD(p.Value, v, p.Grad, k)
	}
	s.memory.updates++
	return nil
}

// State implements Optimizer.
func (s *SGD) State() State { return s.memory.state() }

// LoadState implements Optimizer.
func (s *SGD) LoadState(st State) error { return s.memory.load(st) }

// Linear implements Optimizer: SGD is linear whatever its settings.
func (s *SGD) Linear(string) (func(step int) (coded.Update, error), error) { return s.update, nil }
