package kernel

import (
	"fmt"
	"math"
)

// SoftmaxCrossEntropy returns the mean over n rows of the cross entropy
// between the softmax of logits (n x classes) and the labels (0 .. classes-1):
//
//	loss = -1/n sum over i, c of t[i,c] log softmax(logits[i])[c]
//	t[i,c] = (1-smoothing) [c = labels[i]] + smoothing/classes
//
// If grad is not nil, it writes the gradient (softmax - t)/n to it. Rows are
// shifted by their maximum, so any finite logits are safe; a row with a NaN or
// +Inf gives NaN. It fails on a label out of range; grad is then undefined.
func SoftmaxCrossEntropy(logits []float32, labels []int32, n, classes int, smoothing float64, grad []float32) (loss float64, err error) {
	logits, labels = atLeast("the logits", logits, n*classes), atLeast("the labels", labels, n)
	if grad != nil {
		grad = atLeast("the gradient", grad, n*classes)
	}
	off := smoothing / float64(classes)
	for i := range n {
		row := logits[i*classes : (i+1)*classes]
		label := labels[i]
		if label < 0 || int(label) >= classes {
			return 0, fmt.Errorf("cross entropy: label %d of row %d, want 0 to %d", label, i, classes-1)
		}
		top, sum, shifted := rowMax(row), 0.0, 0.0
		for _, v := range row {
			d := float64(v) - top
			sum += math.Exp(d)
			shifted += d
		}
		logSum := math.Log(sum)
		// -sum t log softmax, with the part of the smoothing taken over the whole row
		loss += logSum - (1-smoothing)*(float64(row[label])-top)
		if smoothing != 0 {
			loss -= off * shifted
		}
		if grad == nil {
			continue
		}
		out := grad[i*classes : (i+1)*classes]
		for c, v := range row {
			t := off
			if c == int(label) {
				t += 1 - smoothing
			}
			out[c] = float32((math.Exp(float64(v)-top-logSum) - t) / float64(n))
		}
	}
	return loss / float64(n), nil
}

// rowMax returns the largest entry, NaN if there is one.
func rowMax(row []float32) float64 {
	m := row[0]
	for _, v := range row[1:] {
		m = max(m, v)
	}
	return float64(m)
}

// Correct counts the rows of logits (n x classes) whose largest entry, the
// first of equals, stands at the row's label. A NaN counts as the largest.
func Correct(logits []float32, labels []int32, n, classes int) int {
	logits, labels = atLeast("the logits", logits, n*classes), atLeast("the labels", labels, n)
	correct := 0
	for i := range n {
		row := logits[i*classes : (i+1)*classes]
		best := 0
		for c, v := range row {
			if b := row[best]; v > b || v != v && b == b {
				best = c
			}
		}
		if best == int(labels[i]) {
			correct++
		}
	}
	return correct
}
