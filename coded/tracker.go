package coded

import "math"

// Tolerances of the rank questions that are answered in float64.
//
// A row is new when, made orthogonal to the rows before it, more than
// newTolerance of its norm is left: less could be the rounding of a dependent
// row, and a set that hangs on it has a condition number above 1e8, of no use to
// float32. The basis then errs by at most about 1e-16/newTolerance, so an output
// counts as decoded when less than outTolerance of its wanted row is left.
const (
	newTolerance = 1e-8
	outTolerance = 1e-6
)

// Tracker answers "ready?" while results arrive: can every output be decoded
// from the tasks added so far? It keeps an orthonormal basis of their rows, and
// of each wanted row the part outside of its span. For an MDS code it counts.
// It allocates nothing after its creation. One goroutine uses it.
type Tracker struct {
	code     *Code
	counting bool
	seen     []bool
	count    int // tasks added
	rank     int // rows in the basis
	left     int // outputs that cannot be decoded yet

	basis   []float64 // rank rows of code.cols
	rest    []float64 // of each wanted row
	limit   []float64 // norm of rest below which an output is decoded
	decoded []bool
	row     []float64
}

// NewTracker returns a tracker to which no task has been added.
func NewTracker(c *Code) *Tracker {
	if c.def.MDS {
		t := &Tracker{code: c, counting: true, seen: make([]bool, c.N())}
		t.Reset()
		return t
	}
	return NewRankTracker(c)
}

// NewRankTracker is NewTracker but does not rely on the code's claims: it never
// counts. The two agree on every code that holds what it claims.
func NewRankTracker(c *Code) *Tracker {
	t := &Tracker{
		code:    c,
		seen:    make([]bool, c.N()),
		basis:   make([]float64, min(len(c.rows), c.cols)*c.cols),
		rest:    make([]float64, len(c.wanted)*c.cols),
		limit:   make([]float64, len(c.wanted)),
		decoded: make([]bool, len(c.wanted)),
		row:     make([]float64, c.cols),
	}
	for i, w := range c.wanted {
		t.limit[i] = outTolerance * norm(w)
	}
	t.Reset()
	return t
}

// Reset takes every task out again.
func (t *Tracker) Reset() {
	clear(t.seen)
	clear(t.decoded)
	t.count, t.rank, t.left = 0, 0, len(t.code.wanted)
	if !t.counting {
		for i, w := range t.code.wanted {
			copy(t.rest[i*t.code.cols:], w)
		}
	}
}

// CopyFrom makes t equal to another tracker of the same code, without
// allocating: for asking "what if". It does nothing for another code's tracker.
func (t *Tracker) CopyFrom(from *Tracker) {
	if t.code != from.code || t.counting != from.counting {
		return
	}
	copy(t.seen, from.seen)
	copy(t.decoded, from.decoded)
	copy(t.basis, from.basis)
	copy(t.rest, from.rest)
	t.count, t.rank, t.left = from.count, from.rank, from.left
}

// Add adds the results of a task and tells whether they say anything new. A task
// that was added before or that the code does not have changes nothing.
func (t *Tracker) Add(task int) (innovative bool) {
	if task < 0 || task >= len(t.seen) || t.seen[task] {
		return false
	}
	t.seen[task] = true
	t.count++
	if t.counting {
		if t.count == t.code.def.Threshold {
			t.left = 0
		}
		return t.count <= t.code.def.Threshold
	}
	for _, row := range t.code.Rows(task) {
		if t.addRow(row) {
			innovative = true
		}
	}
	return innovative
}

// Has tells whether a task was added.
func (t *Tracker) Has(task int) bool { return task >= 0 && task < len(t.seen) && t.seen[task] }

// Count returns the number of tasks added.
func (t *Tracker) Count() int { return t.count }

// Ready tells whether every output can be decoded.
func (t *Tracker) Ready() bool { return t.left == 0 }

func (t *Tracker) addRow(row []float64) bool {
	cols := t.code.cols
	if t.rank == cols {
		return false
	}
	r := t.row
	copy(r, row)
	// Twice is enough (Kahan, Parlett): the second pass removes what rounding
	// left of the basis in a row that is nearly dependent.
	for range 2 {
		for i := range t.rank {
			subtractPart(r, t.basis[i*cols:(i+1)*cols])
		}
	}
	size := norm(r)
	if size <= newTolerance*norm(row) {
		return false
	}
	q := t.basis[t.rank*cols : (t.rank+1)*cols]
	for j := range q {
		q[j] = r[j] / size
	}
	t.rank++
	t.settle(q)
	return true
}

// settle takes a new row of the basis out of what is left of the wanted rows.
func (t *Tracker) settle(q []float64) {
	cols := t.code.cols
	for i := range t.decoded {
		if t.decoded[i] {
			continue
		}
		rest := t.rest[i*cols : (i+1)*cols]
		subtractPart(rest, q)
		if norm(rest) <= t.limit[i] {
			t.decoded[i] = true
			t.left--
		}
	}
}

// subtractPart takes from x its part along the unit vector q.
func subtractPart(x, q []float64) {
	s := dot(x, q)
	for j, v := range q {
		x[j] -= s * v
	}
}

func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }
