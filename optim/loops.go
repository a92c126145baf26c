package optim

import (
	"math"

	"github.com/coda-ml/coda/coded"
)

// sgd makes one step of SGD in one pass; v is nil without momentum.
func sgd(w, grad, v []float32, u coded.Update) {
	lr, mom, decay, scale := float32(u.LR), float32(u.Momentum), float32(u.Decay), float32(u.Scale)
	for i := range w {
		g := scale*grad[i] + decay*w[i]
		if v != nil {
			v[i] = mom*v[i] + g
			if u.Nesterov {
				g += mom * v[i]
			} else {
				g = v[i]
			}
		}
		w[i] -= lr * g
	}
}

// adam makes one step of Adam in one pass; rate is the learning rate over the
// bias correction of the mean, root that of the root of the mean square.
func adam(w, grad, m, s []float32, c AdamConfig, rate, root float64) {
	b1, b2, decay, eps := float32(c.Beta1), float32(c.Beta2), float32(c.Decay), float32(c.Eps)
	// 1-b in float64: 1-0.999 in float32 is off by 5e-5.
	a1, a2 := float32(1-c.Beta1), float32(1-c.Beta2)
	r, q := float32(rate), float32(root)
	for i := range w {
		g := grad[i] + decay*w[i]
		m[i] = b1*m[i] + a1*g
		s[i] = b2*s[i] + a2*g*g
		w[i] -= r * m[i] / (float32(math.Sqrt(float64(s[i])))/q + eps)
	}
}
