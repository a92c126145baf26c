package kernel

import "math"

// SGDStep holds the settings of SGD.
type SGDStep struct {
	LR       float32 // learning rate
	Momentum float32
	Decay    float32 // L2 penalty added to the gradient
	Scale    float32 // factor of the gradient; 0 is a factor of 0
	Nesterov bool
}

// SGD makes one step of stochastic gradient descent in PyTorch's form, in one pass:
//
//	g = Scale*grad + Decay*w;  v = Momentum*v + g
//	w -= LR * (g + Momentum*v if Nesterov, v if Momentum != 0, else g)
//
// velocity starts at 0 and may be nil if Momentum is 0; then it is not touched.
// The gradient is left as it was.
func SGD(w, velocity, grad []float32, s SGDStep) {
	checkLen("sgd", "the gradient", len(w), len(grad))
	if s.Momentum != 0 {
		checkLen("sgd", "the velocity", len(w), len(velocity))
	}
	switch {
	case len(w) == 0:
	case s.Momentum != 0:
		sgdMomentumVec(w, velocity, grad, &s)
	default:
		sgdVec(w, grad, &s)
	}
}

// AdamStep holds the settings of Adam.
type AdamStep struct {
	LR      float64 // learning rate
	Beta1   float64
	Beta2   float64
	Epsilon float64
	Decay   float64 // L2 penalty added to the gradient
	Step    int     // number of the step, from 1
}

// Adam makes one step of Adam (Kingma and Ba, 2015, algorithm 1) in PyTorch's
// form, in one pass. With t = Step:
//
//	g = grad + Decay*w;  m = Beta1*m + (1-Beta1)*g;  v = Beta2*v + (1-Beta2)*g*g
//	w -= LR/(1-Beta1^t) * m / (sqrt(v)/sqrt(1-Beta2^t) + Epsilon)
//
// m and v start at 0. The gradient is left as it was.
func Adam(w, m, v, grad []float32, s AdamStep) {
	checkLen("adam", "the first moment", len(w), len(m))
	checkLen("adam", "the second moment", len(w), len(v))
	checkLen("adam", "the gradient", len(w), len(grad))
	if len(w) > 0 {
		c := s.constants()
		adamVec(w, m, v, grad, &c)
	}
}

// adamConstants are the factors of one step, rounded once.
type adamConstants struct {
	decay, beta1, rest1, beta2, rest2 float32
	root                              float32 // 1/sqrt(1-Beta2^t)
	eps, step                         float32 // Epsilon, LR/(1-Beta1^t)
}

func (s AdamStep) constants() adamConstants {
	t := float64(s.Step)
	return adamConstants{
		decay: float32(s.Decay),
		beta1: float32(s.Beta1), rest1: float32(1 - s.Beta1),
		beta2: float32(s.Beta2), rest2: float32(1 - s.Beta2),
		root: float32(1 / math.Sqrt(1-math.Pow(s.Beta2, t))),
		eps:  float32(s.Epsilon),
		step: float32(s.LR / (1 - math.Pow(s.Beta1, t))),
	}
}
