package kernel

import "math"

// This file holds the kernels of the losses in Go: what every processor can run,
// and what the assembly is tested against to the bit. The terms are float32, of
// few separately rounded operations that do not cancel, so a term of a sum of
// terms >= 0 that is within some units in the last place keeps the sum within as
// many. The sums are float64: nothing is lost however many terms there are.

// lossLanes are the sums of a loss: lane l adds the entries l, l+8, ... Their
// order depends on the length alone.
type lossLanes [8]float64

// sum adds the lanes in halves.
func (l *lossLanes) sum() float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// mseGo adds the squares of x-target, which float64 holds exactly.
func mseGo(lanes *lossLanes, grad, x, target []float32, scale float32) {
	for i, v := range x {
		d := v - target[i]
		lanes[i%len(lanes)] += float64(d) * float64(d)
		grad[i] = float32(d * scale)
	}
}

// smoothL1Go has beta > 0, and half of it or of what it stands for.
func smoothL1Go(lanes *lossLanes, grad, x, target []float32, scale, beta, half float32) {
	for i, v := range x {
		d := v - target[i]
		q := d / beta
		loss := abs32(d) - half
		if abs32(q) < 1 {
			loss = float32(d*q) * 0.5
		}
		lanes[i%len(lanes)] += float64(loss)
		switch {
		case q > 1:
			q = 1
		case q < -1:
			q = -1
		}
		grad[i] = q * scale
	}
}

// bceGo takes the loss as |x|*u + log(1+z) with z = exp(-|x|), u = 1-target for
// x >= 0 and u = target for x < 0. Both terms are at least 0; and the gradient,
// u - z/(1+z) or its negative, keeps its accuracy for logits far from 0.
func bceGo(lanes *lossLanes, grad, x, target []float32, scale float32) {
	for i, v := range x {
		z := abs32(v)
		e := expNegative(z)
		u := 1 - target[i]
		if v < 0 {
			u = target[i]
		}
		lanes[i%len(lanes)] += float64(float32(z*u) + log1pUnit(e))
		d := u - e/(1+e)
		if v < 0 {
			d = -d
		}
		grad[i] = d * scale
	}
}

// expSumGo sets dst = exp(x-top) and adds it.
func expSumGo(lanes *lossLanes, dst, x []float32, top float32) {
	for i, v := range x {
		e := exp32(v - top)
		dst[i] = e
		lanes[i%len(lanes)] += float64(e)
	}
}

// weightedSumGo adds w*x, exactly but for the sum, where w > 0: weights of 0
// leave out even infinite entries.
func weightedSumGo(lanes *lossLanes, w, x []float32) {
	for i, v := range x {
		if w[i] > 0 {
			lanes[i%len(lanes)] += float64(w[i]) * float64(v)
		}
	}
}

var negInf = float32(math.Inf(-1))

// rowMaxGo returns the largest of at least one entry. It passes over NaN and
// returns -Inf if there is nothing else.
func rowMaxGo(x []float32) float32 {
	most := negInf
	for _, v := range x {
		if v > most {
			most = v
		}
	}
	return most
}
