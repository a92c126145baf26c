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

// AdamStep holds the settings of Adam, AMSGrad and Lamb.
type AdamStep struct {
	LR      float64 // learning rate
	Beta1   float64
	Beta2   float64
	Epsilon float64
	Decay   float64 // L2 penalty added to the gradient
	Shrink  float64 // decoupled weight decay: part of the weight that is taken off
	Scale   float64 // factor of the gradient; 0 is a factor of 0
	Step    int     // number of the step, from 1
}

// Adam makes one step of Adam (Kingma and Ba, 2015, algorithm 1) in PyTorch's
// form, in one pass. With t = Step:
//
//	g = Scale*grad + Decay*w;  m = Beta1*m + (1-Beta1)*g;  v = Beta2*v + (1-Beta2)*g*g
//	w = (1-Shrink)*w - LR/(1-Beta1^t) * m / (sqrt(v)/sqrt(1-Beta2^t) + Epsilon)
//
// With Shrink = LR*decay it is AdamW. m and v start at 0. The gradient is left
// as it was.
func Adam(w, m, v, grad []float32, s AdamStep) {
	checkMoments("adam", w, m, v, grad)
	if len(w) > 0 {
		c := s.constants()
		adamVec(w, w, m, v, grad, &c)
	}
}

// AMSGrad is Adam with the largest v so far, most, in place of v in the change
// of w (Reddi, Kale and Kumar, 2018, algorithm 2, with PyTorch's bias
// correction). A NaN in v gets into most.
func AMSGrad(w, m, v, most, grad []float32, s AdamStep) {
	checkMoments("amsgrad", w, m, v, grad)
	checkLen("amsgrad", "the largest second moment", len(w), len(most))
	if len(w) > 0 {
		c := s.constants()
		amsgradVec(w, m, v, most, grad, &c)
	}
}

// Lamb updates m and v as Adam does and sets dst to what LAMB (You et al.,
// 2020, algorithm 2) adds to w, less the factor LR * ratio:
//
//	dst = -(m/(1-Beta1^t) / (sqrt(v)/sqrt(1-Beta2^t) + Epsilon) + Shrink*w)
//
// It leaves w as it is, ignores LR, and returns the sums of squares of w and dst.
func Lamb(dst, w, m, v, grad []float32, s AdamStep) (weight, change float64) {
	checkMoments("lamb", w, m, v, grad)
	checkLen("lamb", "the change", len(w), len(dst))
	s.LR = 1
	c := s.constants()
	c.shrink = float32(-s.Shrink)
	for lo := 0; lo < len(w); lo += sumBlock { // the sums read what is in the cache
		hi := min(lo+sumBlock, len(w))
		adamVec(dst[lo:hi], w[lo:hi], m[lo:hi], v[lo:hi], grad[lo:hi], &c)
		weight += SumSquares(w[lo:hi])
		change += SumSquares(dst[lo:hi])
	}
	return weight, change
}

func checkMoments(op string, w, m, v, grad []float32) {
	checkLen(op, "the first moment", len(w), len(m))
	checkLen(op, "the second moment", len(w), len(v))
	checkLen(op, "the gradient", len(w), len(grad))
}

// adamConstants are the factors of one step, rounded once.
type adamConstants struct {
	scale, decay, beta1, rest1, beta2, rest2 float32

	root      float32 // 1/sqrt(1-Beta2^t)
	eps, step float32 // Epsilon, LR/(1-Beta1^t)
	shrink    float32 // 1-Shrink
}

func (s AdamStep) constants() adamConstants {
	t := float64(s.Step)
	return adamConstants{
		scale: float32(s.Scale), decay: float32(s.Decay),
		beta1: float32(s.Beta1), rest1: float32(1 - s.Beta1),
		beta2: float32(s.Beta2), rest2: float32(1 - s.Beta2),
		root:   float32(1 / math.Sqrt(1-math.Pow(s.Beta2, t))),
		eps:    float32(s.Epsilon),
		step:   float32(s.LR / (1 - math.Pow(s.Beta1, t))),
		shrink: float32(1 - s.Shrink),
	}
}

// RMSStep holds the settings of RMSProp.
type RMSStep struct {
	LR       float64 // learning rate
	Keep     float64 // part of the mean square that is kept
	Rest     float64 // factor of the new square: 1-Keep, and 1 for Adagrad
	Epsilon  float64
	Momentum float64
	Decay    float64 // L2 penalty added to the gradient
	Scale    float64 // factor of the gradient; 0 is a factor of 0
}

// RMSProp makes one step of RMSProp in PyTorch's form, in one pass:
//
//	g = Scale*grad + Decay*w;  v = Keep*v + Rest*g*g;  d = g / (sqrt(v) + Epsilon)
//	b = Momentum*b + d
//	w -= LR * (b if Momentum != 0, else d)
//
// With Keep = Rest = 1 it is Adagrad. v and the velocity b start at 0; b may be
// nil if Momentum is 0. The gradient is left as it was.
func RMSProp(w, v, velocity, grad []float32, s RMSStep) {
	checkLen("rmsprop", "the mean square", len(w), len(v))
	checkLen("rmsprop", "the gradient", len(w), len(grad))
	if s.Momentum != 0 {
		checkLen("rmsprop", "the velocity", len(w), len(velocity))
	}
	c := rmsConstants{
		scale: float32(s.Scale), decay: float32(s.Decay), keep: float32(s.Keep), rest: float32(s.Rest),
		eps: float32(s.Epsilon), momentum: float32(s.Momentum), lr: float32(s.LR),
	}
	switch {
	case len(w) == 0:
	case s.Momentum != 0:
		rmsMomentumVec(w, v, velocity, grad, &c)
	default:
		rmsVec(w, v, grad, &c)
	}
}

// rmsConstants are the factors of one step, rounded once.
type rmsConstants struct {
	scale, decay, keep, rest, eps, momentum, lr float32
}

// squareLanes is the number of partial sums of SumSquares.
const squareLanes = 32

// SumSquares returns the sum of x[i]*x[i] in float64, where the squares are
// exact. Lane l of 32 adds the elements l, l+32, ... one after another; the
// lanes are then added in halves. The order depends on the length alone, so the
// result has the same bits on every processor.
func SumSquares(x []float32) float64 {
	var lanes [squareLanes]float64
	sumSquaresVec(&lanes, x)
	for h := squareLanes / 2; h > 0; h /= 2 {
		for l := range h {
			lanes[l] += lanes[l+h]
		}
	}
	return lanes[0]
}
