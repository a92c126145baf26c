package optim

import "github.com/coda-ml/coda/internal/kernel"

// AdamConfig is the configuration of NewAdam and NewAdamW. Where it says so,
// zero means PyTorch's default.
type AdamConfig struct {
	LR    Schedule // learning rate; required
	Beta1 float64  // decay of the mean, below 1; 0 means 0.9
	Beta2 float64  // decay of the mean square, below 1; 0 means 0.999
	Eps   float64  // added to the root of the mean square; 0 means 1e-8
	// Decay, at least 0, is an L2 penalty added to the gradient for Adam; AdamW
	// takes the part LR*Decay off the weights. 0 means none for both.
	Decay   float64
	AMSGrad bool // divide by the largest mean square so far

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// Adam is the optimiser of Kingma and Ba, with its variants AdamW (Loshchilov
// and Hutter) and AMSGrad (Reddi, Kale and Kumar).
type Adam struct {
	*engine
	config    AdamConfig
	decoupled bool
}

var _ Optimizer = (*Adam)(nil)

// NewAdam returns the optimiser, or an error that lists every problem of c.
// Weight decay is an L2 penalty.
func NewAdam(c AdamConfig) (*Adam, error) { return newAdam("Adam", c, false) }

// NewAdamW returns Adam with decoupled weight decay, or an error that lists
// every problem of c.
func NewAdamW(c AdamConfig) (*Adam, error) { return newAdam("AdamW", c, true) }

func newAdam(name string, c AdamConfig, decoupled bool) (*Adam, error) {
	orDefault(&c.Beta1, 0.9)
	orDefault(&c.Beta2, 0.999)
	orDefault(&c.Eps, 1e-8)
	base := common{c.LR, c.Decay, c.ClipNorm, c.Groups, c.Pool}
	p := base.problems()
	p.within("beta1", c.Beta1, 1)
	p.within("beta2", c.Beta2, 1)
	p.atLeastZero("epsilon", c.Eps)
	if err := p.err(name); err != nil {
		return nil, err
	}
	a := &Adam{config: c, decoupled: decoupled}
	buffers := []string{ExpAvg, ExpAvgSq}
	if c.AMSGrad {
		buffers = append(buffers, MaxExpAvgSq)
	}
	a.engine = newEngine(name, base, buffers, a.descend)
	return a, nil
}

func (a *Adam) descend(u *update, lo, hi int) {
	s := kernel.AdamStep{
		LR: u.lr, Beta1: a.config.Beta1, Beta2: a.config.Beta2, Epsilon: a.config.Eps, Decay: u.decay, Scale: u.scale, Step: u.count,
	}
	if a.decoupled {
		s.Decay, s.Shrink = 0, u.lr*u.decay
	}
	w, g, m, v := u.value[lo:hi], u.grad[lo:hi], u.buffers[0][lo:hi], u.buffers[1][lo:hi]
	if a.config.AMSGrad {
		kernel.AMSGrad(w, m, v, u.buffers[2][lo:hi], g, s)
	} else {
		kernel.Adam(w, m, v, g, s)
	}
}
