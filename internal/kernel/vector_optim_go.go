package kernel

import "math"

// The optimisers' steps in Go, as in vector_go.go.

func sgdGo(w, grad []float32, s *SGDStep) {
	grad = grad[:len(w)]
	for i := range w {
		g := float32(s.Scale*grad[i]) + float32(s.Decay*w[i])
		w[i] -= float32(s.LR * g)
	}
}

func sgdMomentumGo(w, velocity, grad []float32, s *SGDStep) {
	velocity, grad = velocity[:len(w)], grad[:len(w)]
	for i := range w {
		g := float32(s.Scale*grad[i]) + float32(s.Decay*w[i])
		v := float32(s.Momentum*velocity[i]) + g
		velocity[i] = v
		if s.Nesterov {
			v = g + float32(s.Momentum*v)
		}
		w[i] -= float32(s.LR * v)
	}
}

// moments returns the new values of Adam's moments.
func (c *adamConstants) moments(w, m, v, grad float32) (float32, float32) {
	g := float32(c.scale*grad) + float32(c.decay*w)
	return float32(c.beta1*m) + float32(c.rest1*g), float32(c.beta2*v) + float32(float32(c.rest2*g)*g)
}

// moved returns the new value of w.
func (c *adamConstants) moved(w, m, v float32) float32 {
	return float32(c.shrink*w) - float32(float32(c.step*m)/(float32(c.root*sqrt(v))+c.eps))
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func adamGo(dst, w, m, v, grad []float32, c *adamConstants) {
	w, m, v, grad = w[:len(dst)], m[:len(dst)], v[:len(dst)], grad[:len(dst)]
	for i := range dst {
		m[i], v[i] = c.moments(w[i], m[i], v[i], grad[i])
		dst[i] = c.moved(w[i], m[i], v[i])
	}
}

func amsgradGo(w, m, v, most, grad []float32, c *adamConstants) {
	m, v, most, grad = m[:len(w)], v[:len(w)], most[:len(w)], grad[:len(w)]
	for i := range w {
		m[i], v[i] = c.moments(w[i], m[i], v[i], grad[i])
		if !(most[i] > v[i]) {
			most[i] = v[i]
		}
		w[i] = c.moved(w[i], m[i], most[i])
	}
}

// root brings the mean square up to date and returns the gradient and what it is divided by.
func (c *rmsConstants) root(w float32, v *float32, grad float32) (g, d float32) {
	g = float32(c.scale*grad) + float32(c.decay*w)
	*v = float32(c.keep**v) + float32(float32(c.rest*g)*g)
	return g, sqrt(*v) + c.eps
}

func rmsGo(w, v, grad []float32, c *rmsConstants) {
	v, grad = v[:len(w)], grad[:len(w)]
	for i := range w {
		g, d := c.root(w[i], &v[i], grad[i])
		w[i] -= float32(float32(c.lr*g) / d)
	}
}

func rmsMomentumGo(w, v, velocity, grad []float32, c *rmsConstants) {
	v, velocity, grad = v[:len(w)], velocity[:len(w)], grad[:len(w)]
	for i := range w {
		g, d := c.root(w[i], &v[i], grad[i])
		velocity[i] = float32(c.momentum*velocity[i]) + float32(g/d)
		w[i] -= float32(c.lr * velocity[i])
	}
}

func sumSquaresGo(lanes *[squareLanes]float64, x []float32) {
	for i, v := range x {
		lanes[i%squareLanes] += float64(v) * float64(v) // exact, fused or not
	}
}
