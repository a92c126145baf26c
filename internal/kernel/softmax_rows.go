package kernel

import "math"

// Softmax sets each row of dst (rows x cols) to the softmax of the row of x,
// shifted by its maximum; a row with a NaN or +Inf gives NaN. dst may be x.
func Softmax(p *Pool, dst, x []float32, rows, cols int) {
	runRows(p, softmaxRows{kind: softmaxForward, dst: dst, x: x}, rows, cols)
}

// LogSoftmax sets each row of dst to the logarithm of the softmax of the row of
// x, without computing the latter. dst may be x.
func LogSoftmax(p *Pool, dst, x []float32, rows, cols int) {
	runRows(p, softmaxRows{kind: logSoftmaxForward, dst: dst, x: x}, rows, cols)
}

// SoftmaxBackward computes dx = y * (dy - sum of dy*y) row by row, for the
// output y of Softmax. dx may be dy.
func SoftmaxBackward(p *Pool, dx, dy, y []float32, rows, cols int) {
	runRows(p, softmaxRows{kind: softmaxBackward, dst: dx, dy: dy, x: y}, rows, cols)
}

// LogSoftmaxBackward computes dx = dy - exp(y) * sum of dy row by row, for the
// output y of LogSoftmax. dx may be dy, not y.
func LogSoftmaxBackward(p *Pool, dx, dy, y []float32, rows, cols int) {
	runRows(p, softmaxRows{kind: logSoftmaxBackward, dst: dx, dy: dy, x: y}, rows, cols)
}

type softmaxKind uint8

const (
	softmaxForward softmaxKind = iota
	logSoftmaxForward
	softmaxBackward
	logSoftmaxBackward
)

// softmaxRows is a pass under way; a part is some rows.
type softmaxRows struct {
	kind       softmaxKind
	rows, cols int
	dst, dy, x []float32
}

var softmaxTasks = freeList[softmaxRows]{most: 8}

// Exponentials that are not kept are computed piece by piece.
const softmaxPiece = 1024

var softmaxPieces = freeList[[softmaxPiece]float32]{most: 16}

const softmaxChunk = 4096 // entries of a part, if rows are short

func runRows(p *Pool, task softmaxRows, rows, cols int) {
	t := softmaxTasks.get()
	*t = task
	t.rows, t.cols = rows, cols
	t.dst, t.x = atLeast("the destination", t.dst, rows*cols), atLeast("the rows", t.x, rows*cols)
	if t.kind >= softmaxBackward {
		t.dy = atLeast("dy", t.dy, rows*cols)
	}
	p.run(ceilDiv(rowsOf(rows, cols), t.rowsPer()), t)
	*t = softmaxRows{}
	softmaxTasks.put(t)
}

func (t *softmaxRows) rowsPer() int { return max(1, softmaxChunk/max(t.cols, 1)) }

func (t *softmaxRows) part(i int) {
	lo := i * t.rowsPer()
	hi := min(lo+t.rowsPer(), t.rows)
	switch t.kind {
	case softmaxForward:
		t.softmax(lo, hi)
	case logSoftmaxForward:
		t.logSoftmax(lo, hi)
	case softmaxBackward:
		for r := lo; r < hi; r++ {
			y, dy, dx := t.row(t.x, r), t.row(t.dy, r), t.row(t.dst, r)
			softmaxBackVec(dx, dy, y, Dot(dy, y))
		}
	case logSoftmaxBackward:
		t.logSoftmaxBackward(lo, hi)
	}
}

func (t *softmaxRows) row(x []float32, r int) []float32 { return x[r*t.cols : (r+1)*t.cols] }

func (t *softmaxRows) softmax(lo, hi int) {
	for r := lo; r < hi; r++ {
		x, y := t.row(t.x, r), t.row(t.dst, r)
		var lanes lossLanes
		expSumVec(&lanes, y, x, rowTop(x))
		scaleVec(y, float32(1/lanes.sum()), y)
	}
}

func (t *softmaxRows) logSoftmax(lo, hi int) {
	e := softmaxPieces.get()
	defer softmaxPieces.put(e)
	for r := lo; r < hi; r++ {
		x := t.row(t.x, r)
		top := rowTop(x)
		shiftVec(t.row(t.dst, r), x, top, float32(math.Log(sumOfExp(e, x, top))))
	}
}

// rowTop returns what a row is shifted by: its largest entry. NaN is passed
// over, since it makes the sum of the exponentials NaN in any case.
func rowTop(row []float32) float32 {
	return rowMaxVec(row) + 0 // no -0, which a set of vectors may take for the larger
}

// sumOfExp returns the sum of exp(x-top) of a row; e is scratch.
func sumOfExp(e *[softmaxPiece]float32, row []float32, top float32) float64 {
	var lanes lossLanes
	for len(row) > 0 {
		n := min(len(row), softmaxPiece)
		expSumVec(&lanes, e[:n], row[:n], top)
		row = row[n:]
	}
	return lanes.sum()
}

func (t *softmaxRows) logSoftmaxBackward(lo, hi int) {
	e := softmaxPieces.get()
	defer softmaxPieces.put(e)
	for r := lo; r < hi; r++ {
		y, dy, dx := t.row(t.x, r), t.row(t.dy, r), t.row(t.dst, r)
		sum := Sum(dy)
		for at := 0; at < t.cols; at += softmaxPiece {
			v := e[:min(softmaxPiece, t.cols-at)]
			activateVec(ActExp, v, y[at:at+len(v)], 0)
			scaleVec(v, -sum, v)
			addVec(dx[at:at+len(v)], dy[at:at+len(v)], v)
		}
	}
}

func softmaxBackGo(dx, dy, y []float32, dot float32) {
	dy, y = dy[:len(dx)], y[:len(dx)]
	for i := range dx {
		dx[i] = y[i] * (dy[i] - dot)
	}
}

// shiftGo sets dst = (x - a) - b.
func shiftGo(dst, x []float32, a, b float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = v - a - b
	}
}
