package optim

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// SGDConfig is the configuration of NewSGD.
type SGDConfig struct {
	LR       Schedule // learning rate; required
	Momentum float64  // from 0 (none) to below 1
	Decay    float64  // L2 penalty added to the gradient, at least 0
	Nesterov bool     // look-ahead momentum; needs Momentum > 0

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// SGD is stochastic gradient descent with momentum and weight decay.
type SGD struct {
	*engine
	config SGDConfig
}

var _ Optimizer = (*SGD)(nil)

// NewSGD returns the optimiser, or an error that lists every problem of c.
func NewSGD(c SGDConfig) (*SGD, error) {
	base := common{c.LR, c.Decay, c.ClipNorm, c.Groups, c.Pool}
	p := base.problems()
	p.within("momentum", c.Momentum, 1)
	p.want(!c.Nesterov || c.Momentum != 0, "Nesterov without momentum")
	if err := p.err("SGD"); err != nil {
		return nil, err
	}
	s := &SGD{config: c}
	var buffers []string
	if c.Momentum > 0 {
		buffers = []string{MomentumBuffer}
	}
	s.engine = newEngine("SGD", base, buffers, s.descend)
	return s, nil
}

func (s *SGD) descend(u *update, lo, hi int) {
	var v []float32
	if len(u.buffers) > 0 {
		v = u.buffers[0][lo:hi]
	}
	kernel.SGD(u.value[lo:hi], v, u.grad[lo:hi], kernel.SGDStep{
		LR: float32(u.lr), Momentum: float32(s.config.Momentum), Decay: float32(u.decay), Scale: float32(u.scale), Nesterov: s.config.Nesterov,
	})
}

// Linear implements Optimizer: SGD is linear. But all placed layers follow one
// update, so no group may give the layer's weight settings of its own, and the
// norm of gradients that only the workers have is not known here (see Clip).
func (s *SGD) Linear(layer string) (func(step int) (coded.Update, error), error) {
	weight := layer + ".weight"
	var p problems
	p.want(s.clip == 0, "a clip norm needs the gradients of all layers, and those of coded weights are on the workers")
	p.want(s.settings(weight) == settings{lrScale: 1, decay: s.decay}, "a group gives %s settings of its own, but all coded layers share one update", weight)
	if err := p.err("layer " + layer); err != nil {
		return nil, fmt.Errorf("%w: place the layer with placement local or batch", err)
	}
	return s.linear, nil
}

// linear is the step as plain data.
func (s *SGD) linear(step int) (coded.Update, error) {
	lr, err := s.rate(step)
	if err != nil {
		return coded.Update{}, err
	}
	return coded.Update{
		Step: step, LR: lr, Momentum: s.config.Momentum, Decay: s.config.Decay, Scale: 1, Nesterov: s.config.Nesterov,
	}, nil
}
