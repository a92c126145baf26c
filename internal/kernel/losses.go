package kernel

import (
	"fmt"
	"math"
)

// MSE returns the mean of (x - target)^2 and writes its gradient to grad unless nil.
func MSE(p *Pool, x, target, grad []float32) float64 {
	return meanLoss(p, "mean squared error", x, target, grad, 0, func(x, t, _ float64) (loss, grad float64) {
		d := x - t
		return d * d, 2 * d
	})
}

// SmoothL1 returns the mean of d^2/(2 beta) where |d| < beta and |d| - beta/2
// elsewhere, with d = x - target (Girshick, 2015), and writes its gradient to
// grad unless nil. PyTorch's default of beta is 1; with 0 it is the mean of |d|.
func SmoothL1(p *Pool, x, target []float32, beta float64, grad []float32) float64 {
	return meanLoss(p, "smooth l1", x, target, grad, beta, func(x, t, beta float64) (loss, grad float64) {
		d := x - t
		switch a := math.Abs(d); {
		case a < beta:
			return d * d / (2 * beta), d / beta
		case d == 0:
			return 0, 0
		default:
			return a - beta/2, d / a
		}
	})
}

// BCEWithLogits returns the mean of the binary cross entropy between
// sigmoid(x) and targets from 0 to 1, and writes its gradient to grad unless nil:
//
//	loss = max(x, 0) - x*target + log(1 + exp(-|x|))
func BCEWithLogits(p *Pool, x, target, grad []float32) float64 {
	return meanLoss(p, "binary cross entropy", x, target, grad, 0, func(x, t, _ float64) (loss, grad float64) {
		z := math.Exp(-math.Abs(x))
		num := 1.0
		if x < 0 {
			num = z
		}
		return max(x, 0) - x*t + math.Log1p(z), num/(1+z) - t
	})
}

// pointLoss is the loss of one entry and its derivative.
type pointLoss func(x, target, setting float64) (loss, grad float64)

// lossTask is a loss under way; a part is a chunk of entries.
type lossTask struct {
	x, target, grad []float32
	setting         float64
	f               pointLoss
	sums            []float64 // of each part
}

var lossTasks = freeList[lossTask]{most: 8}

const lossChunk = 4096

func meanLoss(p *Pool, op string, x, target, grad []float32, setting float64, f pointLoss) float64 {
	checkLen(op, "the target", len(x), len(target))
	if grad != nil {
		checkLen(op, "the gradient", len(x), len(grad))
	}
	t := lossTasks.get()
	parts := ceilDiv(len(x), lossChunk)
	*t = lossTask{x, target, grad, setting, f, grow(t.sums, parts)}
	p.run(parts, t)
	total := 0.0
	for _, s := range t.sums {
		total += s
	}
	*t = lossTask{sums: t.sums}
	lossTasks.put(t)
	return total / float64(len(x))
}

func (t *lossTask) part(i int) {
	lo := i * lossChunk
	hi := min(lo+lossChunk, len(t.x))
	sum, n := 0.0, float64(len(t.x))
	for j := lo; j < hi; j++ {
		loss, d := t.f(float64(t.x[j]), float64(t.target[j]), t.setting)
		sum += loss
		if t.grad != nil {
			t.grad[j] = float32(d / n)
		}
	}
	t.sums[i] = sum
}

// CrossEntropy is SoftmaxCrossEntropy with a weight for each class (nil counts
// as ones), in PyTorch's form:
//
//	loss = -sum over i, c of w[c] t[i,c] log softmax(logits[i])[c] / sum over i of w[labels[i]]
//	t[i,c] = (1-smoothing) [c = labels[i]] + smoothing/classes
//
// Rows are computed in parallel and added in order. If the weights of all labels
// are zero, loss and gradient are NaN.
func CrossEntropy(p *Pool, logits []float32, labels []int32, n, classes int, weights []float32, smoothing float64, grad []float32) (loss float64, err error) {
	t := crossEntropies.get()
	defer t.release()
	t.logits, t.labels = atLeast("the logits", logits, n*classes), atLeast("the labels", labels, n)
	if grad != nil {
		t.grad = atLeast("the gradient", grad, n*classes)
	}
	t.weights = orFill(weights, &t.ones, classes, 1)
	t.classes, t.smoothing = classes, smoothing
	t.losses = grow(t.losses, n)
	total := 0.0
	for i, label := range t.labels {
		if label < 0 || int(label) >= classes {
			return 0, fmt.Errorf("cross entropy: label %d of row %d, want 0 to %d", label, i, classes-1)
		}
		total += float64(t.weights[label])
	}
	t.total = total
	p.run(ceilDiv(n, t.rows()), t)
	for _, l := range t.losses {
		loss += l
	}
	return loss / total, nil
}

// crossEntropy is a cross entropy under way; a part is some rows.
type crossEntropy struct {
	logits, grad, weights []float32
	labels                []int32
	classes               int
	smoothing, total      float64
	losses                []float64 // of each row
	ones                  []float32
}

var crossEntropies = freeList[crossEntropy]{most: 8}

func (t *crossEntropy) release() {
	*t = crossEntropy{losses: t.losses, ones: t.ones}
	crossEntropies.put(t)
}

// rows returns how many rows make a part.
func (t *crossEntropy) rows() int { return max(1, 1024/t.classes) }

func (t *crossEntropy) part(i int) {
	for r := i * t.rows(); r < min((i+1)*t.rows(), len(t.labels)); r++ {
		t.losses[r] = t.row(r)
	}
}

// row returns the sum of a row and writes its gradient.
func (t *crossEntropy) row(r int) float64 {
	row, label := t.logits[r*t.classes:][:t.classes], int(t.labels[r])
	top, sum := rowMax(row), 0.0
	for _, v := range row {
		sum += math.Exp(float64(v) - top)
	}
	logSum := math.Log(sum)
	off := t.smoothing / float64(t.classes)
	loss, mass := 0.0, 0.0 // mass is the sum of w[c] t[c]
	for c, v := range row {
		if w := t.weight(c, label, off); w != 0 {
			loss -= w * (float64(v) - top - logSum)
			mass += w
		}
	}
	if t.grad == nil {
		return loss
	}
	out := t.grad[r*t.classes:][:t.classes]
	for c, v := range row {
		out[c] = float32((mass*math.Exp(float64(v)-top-logSum) - t.weight(c, label, off)) / t.total)
	}
	return loss
}

// weight returns w[c] t[c].
func (t *crossEntropy) weight(c, label int, off float64) float64 {
	target := off
	if c == label {
		target += 1 - t.smoothing
	}
	return float64(t.weights[c]) * target
}
