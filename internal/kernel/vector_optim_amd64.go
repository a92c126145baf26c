//go:build !noasm

package kernel

// As in vector_amd64.go, the callers have checked the lengths.

func sgdVec(w, grad []float32, s *SGDStep) {
	switch vectors {
	case simdAVX512:
		sgdAVX512(&w[0], &grad[0], len(w), s.Scale, s.Decay, s.LR)
	case simdAVX2:
		sgdAVX2(&w[0], &grad[0], len(w), s.Scale, s.Decay, s.LR)
	default:
		sgdGo(w, grad, s)
	}
}

func sgdMomentumVec(w, velocity, grad []float32, s *SGDStep) {
	switch {
	case vectors == simdAVX512 && s.Nesterov:
		sgdNesterovAVX512(&w[0], &velocity[0], &grad[0], len(w), s.Scale, s.Decay, s.Momentum, s.LR)
	case vectors == simdAVX512:
		sgdMomentumAVX512(&w[0], &velocity[0], &grad[0], len(w), s.Scale, s.Decay, s.Momentum, s.LR)
	case vectors == simdAVX2 && s.Nesterov:
		sgdNesterovAVX2(&w[0], &velocity[0], &grad[0], len(w), s.Scale, s.Decay, s.Momentum, s.LR)
	case vectors == simdAVX2:
		sgdMomentumAVX2(&w[0], &velocity[0], &grad[0], len(w), s.Scale, s.Decay, s.Momentum, s.LR)
	default:
		sgdMomentumGo(w, velocity, grad, s)
	}
}

func adamVec(dst, w, m, v, grad []float32, c *adamConstants) {
	switch vectors {
	case simdAVX512:
		adamAVX512(&dst[0], &w[0], &m[0], &v[0], &grad[0], len(dst), c.scale, c.decay, c.beta1, c.rest1, c.beta2, c.rest2, c.root, c.eps, c.step, c.shrink)
	case simdAVX2:
		adamAVX2(&dst[0], &w[0], &m[0], &v[0], &grad[0], len(dst), c.scale, c.decay, c.beta1, c.rest1, c.beta2, c.rest2, c.root, c.eps, c.step, c.shrink)
	default:
		adamGo(dst, w, m, v, grad, c)
	}
}

func amsgradVec(w, m, v, most, grad []float32, c *adamConstants) {
	switch vectors {
	case simdAVX512:
		amsgradAVX512(&w[0], &m[0], &v[0], &most[0], &grad[0], len(w), c.scale, c.decay, c.beta1, c.rest1, c.beta2, c.rest2, c.root, c.eps, c.step, c.shrink)
	case simdAVX2:
		amsgradAVX2(&w[0], &m[0], &v[0], &most[0], &grad[0], len(w), c.scale, c.decay, c.beta1, c.rest1, c.beta2, c.rest2, c.root, c.eps, c.step, c.shrink)
	default:
		amsgradGo(w, m, v, most, grad, c)
	}
}

func rmsVec(w, v, grad []float32, c *rmsConstants) {
	switch vectors {
	case simdAVX512:
		rmsAVX512(&w[0], &v[0], &grad[0], len(w), c.scale, c.decay, c.keep, c.rest, c.eps, c.lr)
	case simdAVX2:
		rmsAVX2(&w[0], &v[0], &grad[0], len(w), c.scale, c.decay, c.keep, c.rest, c.eps, c.lr)
	default:
		rmsGo(w, v, grad, c)
	}
}

func rmsMomentumVec(w, v, velocity, grad []float32, c *rmsConstants) {
	switch vectors {
	case simdAVX512:
		rmsMomentumAVX512(&w[0], &v[0], &velocity[0], &grad[0], len(w), c.scale, c.decay, c.keep, c.rest, c.eps, c.momentum, c.lr)
	case simdAVX2:
		rmsMomentumAVX2(&w[0], &v[0], &velocity[0], &grad[0], len(w), c.scale, c.decay, c.keep, c.rest, c.eps, c.momentum, c.lr)
	default:
		rmsMomentumGo(w, v, velocity, grad, c)
	}
}

// sumSquaresVec hands whole groups of lanes to the kernel.
func sumSquaresVec(lanes *[squareLanes]float64, x []float32) {
	if n := len(x) / squareLanes * squareLanes; n > 0 && vectors != simdNone {
		if vectors == simdAVX512 {
			sumSquaresAVX512(&lanes[0], &x[0], n)
		} else {
			sumSquaresAVX2(&lanes[0], &x[0], n)
		}
		x = x[n:]
	}
	sumSquaresGo(lanes, x)
}
