package optim

import "github.com/coda-ml/coda/internal/kernel"

// RMSPropConfig is the configuration of NewRMSProp. Where it says so, zero
// means PyTorch's default.
type RMSPropConfig struct {
	LR       Schedule // learning rate; required
	Alpha    float64  // decay of the mean square, below 1; 0 means 0.99
	Eps      float64  // added to the root of the mean square; 0 means 1e-8
	Momentum float64  // from 0 (none) to below 1
	Decay    float64  // L2 penalty added to the gradient, at least 0

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// RMSProp divides gradients by the root of their mean square.
type RMSProp struct {
	*engine
	config RMSPropConfig
}

var _ Optimizer = (*RMSProp)(nil)

// NewRMSProp returns the optimiser, or an error that lists every problem of c.
func NewRMSProp(c RMSPropConfig) (*RMSProp, error) {
	orDefault(&c.Alpha, 0.99)
	orDefault(&c.Eps, 1e-8)
	base := common{c.LR, c.Decay, c.ClipNorm, c.Groups, c.Pool}
	p := base.problems()
	p.within("alpha", c.Alpha, 1)
	p.within("momentum", c.Momentum, 1)
	p.atLeastZero("epsilon", c.Eps)
	if err := p.err("RMSProp"); err != nil {
		return nil, err
	}
	r := &RMSProp{config: c}
	buffers := []string{SquareAvg}
	if c.Momentum > 0 {
		buffers = append(buffers, MomentumBuffer)
	}
	r.engine = newEngine("RMSProp", base, buffers, r.descend)
	return r, nil
}

func (r *RMSProp) descend(u *update, lo, hi int) {
	var velocity []float32
	if len(u.buffers) > 1 {
		velocity = u.buffers[1][lo:hi]
	}
	kernel.RMSProp(u.value[lo:hi], u.buffers[0][lo:hi], velocity, u.grad[lo:hi], kernel.RMSStep{
		LR: u.lr, Keep: r.config.Alpha, Rest: 1 - r.config.Alpha, Epsilon: r.config.Eps, Momentum: r.config.Momentum,
		Decay: u.decay, Scale: u.scale,
	})
}

// AdagradConfig is the configuration of NewAdagrad. Where it says so, zero
// means PyTorch's default.
type AdagradConfig struct {
	LR    Schedule // learning rate; required
	Eps   float64  // added to the root of the sum of squares; 0 means 1e-10
	Decay float64  // L2 penalty added to the gradient, at least 0

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// Adagrad divides gradients by the root of the sum of their squares.
type Adagrad struct {
	*engine
	config AdagradConfig
}

var _ Optimizer = (*Adagrad)(nil)

// NewAdagrad returns the optimiser, or an error that lists every problem of c.
func NewAdagrad(c AdagradConfig) (*Adagrad, error) {
	orDefault(&c.Eps, 1e-10)
	base := common{c.LR, c.Decay, c.ClipNorm, c.Groups, c.Pool}
	p := base.problems()
	p.atLeastZero("epsilon", c.Eps)
	if err := p.err("Adagrad"); err != nil {
		return nil, err
	}
	a := &Adagrad{config: c}
	a.engine = newEngine("Adagrad", base, []string{Sum}, a.descend)
	return a, nil
}

func (a *Adagrad) descend(u *update, lo, hi int) {
	kernel.RMSProp(u.value[lo:hi], u.buffers[0][lo:hi], nil, u.grad[lo:hi], kernel.RMSStep{
		LR: u.lr, Keep: 1, Rest: 1, Epsilon: a.config.Eps, Decay: u.decay, Scale: u.scale,
	})
}
