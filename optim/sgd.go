package optim

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// SGDConfig is the configuration of NewSGD.
type SGDConfig struct {
	LR       Schedule // learning rate; required
	Momentum float64  // from 0 (none) to below 1
	Momenta  Schedule // momentum by step, in place of Momentum; nil means that one
	Decay    float64  // L2 penalty added to the gradient, at least 0
	Nesterov bool     // look-ahead momentum; needs Momentum > 0

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// SGD is stochastic gradient descent with momentum and weight decay.
type SGD struct {
	*engine
	config   SGDConfig
	momentum float32  // of the step at hand
	remote   []string // weights that Linear was asked for
}

var _ Optimizer = (*SGD)(nil)

// NewSGD returns the optimiser, or an error that lists every problem of c.
func NewSGD(c SGDConfig) (*SGD, error) {
	base := common{c.LR, c.Decay, c.ClipNorm, c.Groups, c.Pool}
	p := base.problems()
	p.within("momentum", c.Momentum, 1)
	p.want(c.Momenta == nil || c.Momentum == 0, "momentum %v beside momenta by step", c.Momentum)
	p.want(!c.Nesterov || c.Momentum != 0 || c.Momenta != nil, "Nesterov without momentum")
	if err := p.err("SGD"); err != nil {
		return nil, err
	}
	s := &SGD{config: c}
	var buffers []string
	if c.Momentum > 0 || c.Momenta != nil {
		buffers = []string{MomentumBuffer}
	}
	s.engine = newEngine("SGD", base, buffers, s.descend)
	return s, nil
}

// Step implements Optimizer.
func (s *SGD) Step(step int, params []Param) error {
	momentum, err := s.momentumAt(step)
	if err != nil {
		return err
	}
	if err := s.checkRemote(step, params); err != nil {
		return err
	}
	s.momentum = float32(momentum)
	return s.engine.Step(step, params)
}

// momentumAt is the momentum of a step.
func (s *SGD) momentumAt(step int) (float64, error) {
	if s.config.Momenta == nil {
		return s.config.Momentum, nil
	}
	m := s.config.Momenta(step)
	if !(m >= 0 && m < 1) {
		return 0, fmt.Errorf("optim: SGD: step %d: momentum %v, want a number from 0 to below 1", step, m)
	}
	return m, nil
}

func (s *SGD) descend(u *update, lo, hi int) {
	var v []float32
	if len(u.buffers) > 0 {
		v = u.buffers[0][lo:hi]
	}
	kernel.SGD(u.value[lo:hi], v, u.grad[lo:hi], kernel.SGDStep{
		LR: float32(u.lr), Momentum: s.momentum, Decay: float32(u.decay), Scale: float32(u.scale), Nesterov: s.config.Nesterov,
	})
}

// checkRemote finds out whether a step that is to be clipped knows the norms of all
// gradients.
func (s *SGD) checkRemote(step int, params []Param) error {
	if s.clip == 0 {
		return nil
	}
	for _, name := range s.remote {
		if !slices.ContainsFunc(params, func(p Param) bool { return p.Remote && p.Name == name }) {
			return fmt.Errorf("optim: SGD: step %d: the clip norm needs the gradient of %s, which is on the workers: want it as a Remote parameter with its SumSquares (nn.Config.RemoteNorms)", step, name)
		}
	}
	return nil
}

// Linear implements Optimizer: SGD is linear. But all placed layers follow one
// update, so no group may give the layer's weight settings of its own.
func (s *SGD) Linear(layer string) (func(step int) (coded.Update, error), error) {
	weight := layer + ".weight"
	var p problems
	p.want(s.settings(weight) == settings{lrScale: 1, decay: s.decay}, "a group gives %s settings of its own, but all coded layers share one update", weight)
	if err := p.err("layer " + layer); err != nil {
		return nil, fmt.Errorf("%w: place the layer with placement local or batch", err)
	}
	if !slices.Contains(s.remote, weight) {
		s.remote = append(s.remote, weight)
	}
	return s.linear, nil
}

// linear is the step as plain data.
func (s *SGD) linear(step int) (coded.Update, error) {
	lr, err := s.rate(step)
	if err != nil {
		return coded.Update{}, err
	}
	momentum, err := s.momentumAt(step)
	if err != nil {
		return coded.Update{}, err
	}
	u := coded.Update{Step: step, LR: lr, Momentum: momentum, Decay: s.config.Decay, Scale: 1, Nesterov: s.config.Nesterov}
	if s.clip > 0 {
		if s.clipped.step != step {
			return u, fmt.Errorf("optim: SGD: step %d: its update is clipped, and the last step made was %d", step, s.clipped.step)
		}
		u.Scale = s.clipped.scale
	}
	return u, nil
}
