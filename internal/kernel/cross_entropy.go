package kernel

import (
	"fmt"
	"math"
)

// CrossEntropy returns the cross entropy between the softmax of n rows of logits
// (n x classes) and the labels (0 .. classes-1), in PyTorch's form, with a weight
// of at least 0 for each class (nil counts as ones):
//
//	loss = -sum over i, c of w[c] t[i,c] log softmax(logits[i])[c] / sum over i of w[labels[i]]
//	t[i,c] = (1-smoothing) [c = labels[i]] + smoothing/classes
//
// If grad is not nil, it writes the gradient to it; grad must not overlap the
// logits. Rows are shifted by their
// maximum, so any finite logits are safe; a row with a NaN or +Inf gives NaN. If
// the weights of all labels are zero, loss and gradient are NaN. It fails on a
// label out of range; grad is then undefined.
//
// The exponentials of a row are float32, all else is float64; rows are computed
// in parallel and added in order. With classes at most d below the largest of
// their row the loss is within (2+d) 2^-24 of itself.
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
	for i, label := range t.labels {
		if label < 0 || int(label) >= classes {
			return 0, fmt.Errorf("cross entropy: label %d of row %d, want 0 to %d", label, i, classes-1)
		}
		t.total += float64(t.weights[label])
	}
	for _, w := range t.weights {
		t.sumWeights += float64(w)
	}
	p.run(ceilDiv(n, t.rows()), t)
	for _, l := range t.losses {
		loss += l
	}
	return loss / t.total, nil
}

// crossEntropy is a cross entropy under way; a part is some rows.
type crossEntropy struct {
	logits, grad, weights []float32
	labels                []int32
	classes               int
	smoothing             float64
	total, sumWeights     float64   // of the labels' weights; of all classes'
	losses                []float64 // of each row
	ones                  []float32
}

var crossEntropies = freeList[crossEntropy]{most: 8}

func (t *crossEntropy) release() {
	*t = crossEntropy{losses: t.losses, ones: t.ones}
	crossEntropies.put(t)
}

// rows returns how many rows make a part.
func (t *crossEntropy) rows() int { return max(1, softmaxChunk/t.classes) }

func (t *crossEntropy) part(i int) {
	e := softmaxPieces.get()
	defer softmaxPieces.put(e)
	for r := i * t.rows(); r < min((i+1)*t.rows(), len(t.labels)); r++ {
		t.losses[r] = t.row(r, e)
	}
}

// row returns the sum of a row and writes its gradient; e is scratch.
func (t *crossEntropy) row(r int, e *[softmaxPiece]float32) float64 {
	row, label := t.logits[r*t.classes:][:t.classes], int(t.labels[r])
	top := rowTop(row)
	var sum float64
	if t.grad != nil {
		var lanes lossLanes
		expSumVec(&lanes, t.grad[r*t.classes:][:t.classes], row, top)
		sum = lanes.sum()
	} else {
		sum = sumOfExp(e, row, top)
	}
	logSum := math.Log(sum)
	// The target's weights: of each class w[c] off, of the label on besides.
	off, on := t.smoothing/float64(t.classes), (1-t.smoothing)*float64(t.weights[label])
	loss := 0.0
	if on != 0 {
		loss = on * (logSum - (float64(row[label]) - float64(top)))
	}
	if off != 0 {
		var lanes lossLanes
		weightedSumVec(&lanes, t.weights, row)
		loss += off * (t.sumWeights*(logSum+float64(top)) - lanes.sum())
	}
	if t.grad != nil {
		t.gradient(r, sum, off, on)
	}
	return loss
}

// gradient turns the exponentials of a row, whose sum is given, into its gradient.
// The label's entry, which may cancel, is computed on its own.
func (t *crossEntropy) gradient(r int, sum, off, on float64) {
	out, label := t.grad[r*t.classes:][:t.classes], int(t.labels[r])
	mass := off*t.sumWeights + on
	own := (mass*(float64(out[label])/sum) - on - off*float64(t.weights[label])) / t.total
	scaleVec(out, float32(mass/(sum*t.total)), out)
	if off != 0 {
		axpyVec(out, float32(-off/t.total), t.weights)
	}
	out[label] = float32(own)
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
