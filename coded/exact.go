package coded

import (
	"fmt"

	"github.com/coda-ml/coda/coded/field"
)

// exactField is where claims are tested.
const exactField = field.Mersenne31

// ExactTracker is a Tracker in exact arithmetic over GF(2^31-1). It answers for
// the structure of a code, without a tolerance, and is how claimed thresholds
// are tested: a set of tasks that decodes over the field decodes for almost all
// values of the code's parameters, and where the coefficients are integers below
// 2^31-1 it decodes over the reals as well.
//
// Irrational coefficients have no image in the field. Such a code gives, as its
// Definition.Modular, the same formula at points of the field (of its unit
// circle, for a trigonometric one): that tests the formula, and the condition
// numbers of the real code's sets test its points.
type ExactTracker struct {
	cols    int
	rows    [][]uint64
	first   []int
	wanted  [][]uint64
	seen    []bool
	basis   [][]uint64 // echelon form: by the column of the leading 1, nil if none
	scratch []uint64
}

// NewExactTracker returns a tracker without tasks. It fails when the code has no
// exact form: a coefficient that is not an integer and no Modular tasks.
func NewExactTracker(c *Code) (*ExactTracker, error) {
	t := &ExactTracker{cols: c.cols, seen: make([]bool, c.N()), scratch: make([]uint64, c.cols)}
	tasks, err := c.modular(exactField)
	if err == nil {
		t.rows, t.first, err = expand(exactField, tasks, c.def.ABlocks, c.def.BBlocks)
	}
	if err == nil {
		t.wanted, err = toModular(c.wanted, exactField)
	}
	if err != nil {
		return nil, fmt.Errorf("coded: %v has no exact form: %w", c, err)
	}
	t.Reset()
	return t, nil
}

// Reset takes every task out again.
func (t *ExactTracker) Reset() {
	clear(t.seen)
	t.basis = make([][]uint64, t.cols)
}

// Add adds the results of a task and tells whether they say anything new.
func (t *ExactTracker) Add(task int) (innovative bool) {
	if task < 0 || task >= len(t.seen) || t.seen[task] {
		return false
	}
	t.seen[task] = true
	for _, row := range t.rows[t.first[task]:t.first[task+1]] {
		if lead := t.reduce(row); lead < t.cols {
			inv := exactField.Inv(t.scratch[lead])
			q := make([]uint64, t.cols)
			for j, v := range t.scratch {
				q[j] = exactField.Mul(v, inv)
			}
			t.basis[lead], innovative = q, true
		}
	}
	return innovative
}

// Ready tells whether every output can be decoded.
func (t *ExactTracker) Ready() bool {
	for _, w := range t.wanted {
		if t.reduce(w) < t.cols {
			return false
		}
	}
	return true
}

// reduce leaves in scratch what remains of a row over the basis and returns the
// column of its first entry that is not 0, or cols if nothing remains.
func (t *ExactTracker) reduce(row []uint64) int {
	r := t.scratch
	copy(r, row)
	for j := range r {
		if r[j] == 0 {
			continue
		}
		q := t.basis[j]
		if q == nil {
			return j
		}
		f := r[j]
		for i := j; i < len(r); i++ {
			r[i] = exactField.Sub(r[i], exactField.Mul(f, q[i]))
		}
	}
	return len(r)
}
