package optim

import (
	"math"

	"github.com/coda-ml/coda/internal/kernel"
)

// LAMBConfig is the configuration of NewLAMB. Where it says so, zero means the
// default of the paper.
type LAMBConfig struct {
	LR    Schedule // learning rate; required
	Beta1 float64  // decay of the mean, below 1; 0 means 0.9
	Beta2 float64  // decay of the mean square, below 1; 0 means 0.999
	Eps   float64  // added to the root of the mean square; 0 means 1e-6
	Decay float64  // decoupled weight decay, at least 0: added to the direction

	ClipNorm float64      // limit of the global norm of the gradients; 0 means none
	Groups   []Group      // parameters with settings of their own
	Pool     *kernel.Pool // nil means the caller's goroutine
}

// LAMB is Adam with a learning rate for each parameter that is proportional to
// the parameter's norm, for large batches.
//
// It is algorithm 2 of the paper, with bias correction and with the identity as
// phi. The ratio is 1 if either norm is 0 and, as in the authors' code, for
// parameters that are excluded from weight decay (biases, normalisation).
type LAMB struct {
	*engine
	config LAMBConfig

	change []float32 // of the parameter at hand, before the ratio
	norms  [][2]float64
}

var _ Optimizer = (*LAMB)(nil)

// NewLAMB returns the optimiser, or an error that lists every problem of c.
func NewLAMB(c LAMBConfig) (*LAMB, error) {
	orDefault(&c.Beta1, 0.9)
	orDefault(&c.Beta2, 0.999)
	orDefault(&c.Eps, 1e-6)
	base := common{c.LR, c.Decay, c.ClipNorm, c.Groups, c.Pool}
	p := base.problems()
	p.within("beta1", c.Beta1, 1)
	p.within("beta2", c.Beta2, 1)
	p.atLeastZero("epsilon", c.Eps)
	if err := p.err("LAMB"); err != nil {
		return nil, err
	}
	l := &LAMB{config: c}
	l.engine = newEngine("LAMB", base, []string{ExpAvg, ExpAvgSq}, l.direct, l.move)
	l.begin = l.reserve
	return l, nil
}

func (l *LAMB) reserve(elements int) {
	l.change = growTo(l.change, elements)
	l.norms = growTo(l.norms, pieces(elements))
}

// direct computes the change and the sums of squares of weights and change.
func (l *LAMB) direct(u *update, lo, hi int) {
	n := &l.norms[lo/pieceSize]
	n[0], n[1] = kernel.Lamb(l.change[lo:hi], u.value[lo:hi], u.buffers[0][lo:hi], u.buffers[1][lo:hi], u.grad[lo:hi], kernel.AdamStep{
		Beta1: l.config.Beta1, Beta2: l.config.Beta2, Epsilon: l.config.Eps, Shrink: u.decay, Scale: u.scale, Step: u.count,
	})
}

// move adds the change times learning rate and ratio.
func (l *LAMB) move(u *update, lo, hi int) {
	kernel.Axpy(u.value[lo:hi], float32(u.lr*l.ratio(u)), l.change[lo:hi])
}

// ratio is the norm of the weights by that of the change.
func (l *LAMB) ratio(u *update) float64 {
	if u.noDecay {
		return 1
	}
	var weight, change float64
	for _, n := range l.norms[:pieces(len(u.value))] {
		weight, change = weight+n[0], change+n[1]
	}
	if weight == 0 || change == 0 {
		return 1
	}
	return math.Sqrt(weight / change)
}
