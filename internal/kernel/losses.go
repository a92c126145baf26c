package kernel

// The losses of this file are means over the entries of x. The terms are
// computed in float32 and summed in float64, chunk by chunk, and the chunks in
// order: the value has the same bits on every processor and for any number of
// threads, and is within 4e-7 of itself of the true one.

// MSE returns the mean of (x - target)^2 and writes its gradient to grad unless nil.
func MSE(p *Pool, x, target, grad []float32) float64 {
	return meanLoss(p, "mean squared error", lossTask{kind: lossMSE, x: x, target: target, grad: grad, scale: float32(2 / float64(len(x)))})
}

// SmoothL1 returns the mean of d^2/(2 beta) where |d| < beta and |d| - beta/2
// elsewhere, with d = x - target (Girshick, 2015), and writes its gradient to
// grad unless nil. PyTorch's default of beta is 1; with 0 it is the mean of |d|.
func SmoothL1(p *Pool, x, target []float32, beta float64, grad []float32) float64 {
	// A beta of 0 counts as the least normal number, with which 0 gives 0.
	const least = 0x1p-126
	return meanLoss(p, "smooth l1", lossTask{
		kind: lossSmoothL1, x: x, target: target, grad: grad,
		scale: float32(1 / float64(len(x))), beta: max(float32(beta), least), half: float32(beta / 2),
	})
}

// BCEWithLogits returns the mean of the binary cross entropy between
// sigmoid(x) and targets from 0 to 1, and writes its gradient to grad unless nil:
//
//	loss = max(x, 0) - x*target + log(1 + exp(-|x|))
func BCEWithLogits(p *Pool, x, target, grad []float32) float64 {
	return meanLoss(p, "binary cross entropy", lossTask{kind: lossBCE, x: x, target: target, grad: grad, scale: float32(1 / float64(len(x)))})
}

type lossKind uint8

const (
	lossMSE lossKind = iota
	lossSmoothL1
	lossBCE
)

// lossTask is a loss under way; a part is a chunk of entries.
type lossTask struct {
	kind              lossKind
	x, target, grad   []float32
	scale, beta, half float32   // scale: of the gradient
	sums              []float64 // of each part
}

var lossTasks = freeList[lossTask]{most: 8}

const lossChunk = 4096

// lossPieces take the gradients that nobody wants.
var lossPieces = freeList[[lossChunk]float32]{most: 16}

func meanLoss(p *Pool, op string, task lossTask) float64 {
	n := len(task.x)
	checkLen(op, "the target", n, len(task.target))
	if task.grad != nil {
		checkLen(op, "the gradient", n, len(task.grad))
	}
	t := lossTasks.get()
	parts := ceilDiv(n, lossChunk)
	task.sums = grow(t.sums, parts)
	*t = task
	p.run(parts, t)
	total := 0.0
	for _, s := range t.sums {
		total += s
	}
	*t = lossTask{sums: t.sums}
	lossTasks.put(t)
	return total / float64(n)
}

func (t *lossTask) part(i int) {
	lo := i * lossChunk
	hi := min(lo+lossChunk, len(t.x))
	if t.grad != nil {
		t.sums[i] = t.chunk(t.grad[lo:hi], lo, hi)
		return
	}
	piece := lossPieces.get()
	t.sums[i] = t.chunk(piece[:hi-lo], lo, hi)
	lossPieces.put(piece)
}

// chunk returns the sum of the losses of the entries lo..hi-1.
func (t *lossTask) chunk(grad []float32, lo, hi int) float64 {
	var lanes lossLanes
	switch x, target := t.x[lo:hi], t.target[lo:hi]; t.kind {
	case lossMSE:
		mseVec(&lanes, grad, x, target, t.scale)
	case lossSmoothL1:
		smoothL1Vec(&lanes, grad, x, target, t.scale, t.beta, t.half)
	case lossBCE:
		bceVec(&lanes, grad, x, target, t.scale)
	}
	return lanes.sum()
}
