package coded

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// Agreement tells by how much results agree where there are more than decode: the
// checks of Locate, as a number. With h every row of an orthonormal basis of the left
// null space of M_S, and R_w the results,
//
//	residual^2 = sum_h |sum_w h_w R_w|^2 / sum_h sum_w h_w^2 |R_w|^2
//
// which is rounding (some 1e-7) of honest results, and about 1 if one is as wrong as
// it is large. It keeps the checks of sets, and is safe for concurrent use.
type Agreement struct {
	code *Code

	mu     sync.Mutex
	checks map[string][][]float64 // by the set
	key    []byte
}

// NewAgreement returns that of a code's results.
func NewAgreement(c *Code) *Agreement {
	return &Agreement{code: c, checks: map[string][][]float64{}}
}

// Spare tells whether a set of tasks may have results to spare, without arithmetic: it
// has if it is right about an MDS code.
func (a *Agreement) Spare(have []int) bool {
	if a.code.MDS() {
		return len(have) > a.code.Threshold()
	}
	rows := 0
	for _, t := range have {
		rows += a.code.Results(t)
	}
	return rows > a.code.cols
}

// Residual compares the results of some tasks, in increasing order: all of them one
// after the other, or the same elements of each. checks is how many there are, 0 if
// nothing is to spare.
func (a *Agreement) Residual(have []int, results [][]float32) (residual float64, checks int, err error) {
	if err := a.code.checkSet(have); err != nil {
		return 0, 0, fmt.Errorf("coded: residual: %w", err)
	}
	rows, sorted := 0, slices.IsSorted(have)
	for _, t := range have {
		rows += a.code.Results(t)
	}
	uneven := func(r []float32) bool { return len(r) != len(results[0]) }
	if len(results) != rows || !sorted || slices.ContainsFunc(results, uneven) {
		return 0, 0, fmt.Errorf("coded: residual: %d results of tasks %v, want %d of one size, of tasks in order", len(results), have, rows)
	}
	null, err := a.of(have)
	if err != nil {
		return 0, 0, fmt.Errorf("coded: residual: %v: results %v: %w", a.code, have, err)
	}
	var apart, size float64
	for _, h := range null {
		for e := range results[0] {
			var sum float64
			for w, r := range results {
				v := h[w] * float64(r[e])
				sum += v
				size += v * v
			}
			apart += sum * sum
		}
	}
	return math.Sqrt(ratio(apart, size)), len(null), nil
}

// of returns the checks of a set.
func (a *Agreement) of(have []int) ([][]float64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.key = a.key[:0]
	for _, t := range have {
		a.key = append(a.key, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	if null, known := a.checks[string(a.key)]; known {
		return null, nil
	}
	var rows [][]float64
	for _, t := range have {
		rows = append(rows, a.code.Rows(t)...)
	}
	null, err := leftNull(rows, singularTolerance)
	if err != nil {
		return nil, err
	}
	if len(a.checks) >= DefaultCacheSize {
		clear(a.checks)
	}
	a.checks[string(a.key)] = null
	return null, nil
}
