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
	checks setCache[[][]float64]
}

// NewAgreement returns that of a code's results.
func NewAgreement(c *Code) *Agreement {
	return &Agreement{code: c, checks: newSetCache[[][]float64](c.N(), DefaultCacheSize)}
}

// Spare tells whether a set of tasks may have results to spare, without arithmetic: it
// has if it is right about an MDS code.
func (a *Agreement) Spare(have []int) bool {
	if a.code.MDS() {
		return len(have) > a.code.Threshold()
	}
	return a.rows(have) > a.code.cols
}

// rows is how many results some tasks have.
func (a *Agreement) rows(have []int) (n int) {
	for _, t := range have {
		n += a.code.Results(t)
	}
	return n
}

// Residual compares the results of some tasks, in increasing order: all of them one
// after the other, or the same elements of each. checks is how many there are, 0 if
// nothing is to spare.
func (a *Agreement) Residual(have []int, results [][]float32) (residual float64, checks int, err error) {
	null, err := a.of(have)
	if err != nil {
		return 0, 0, fmt.Errorf("coded: residual: %w", err)
	}
	uneven := func(r []float32) bool { return len(r) != len(results[0]) }
	if rows := a.rows(have); len(results) != rows || !slices.IsSorted(have) || slices.ContainsFunc(results, uneven) {
		return 0, 0, fmt.Errorf("coded: residual: %d results of tasks %v, want %d of one size, of tasks in order", len(results), have, rows)
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
	null, known, valid := a.checks.find(have)
	switch {
	case !valid:
		return nil, a.code.checkSet(have)
	case known:
		return null, nil
	}
	var rows [][]float64
	for _, t := range have {
		rows = append(rows, a.code.Rows(t)...)
	}
	null, err := leftNull(rows, singularTolerance)
	if err != nil {
		return nil, fmt.Errorf("%v: results %v: %w", a.code, have, err)
	}
	a.checks.keep(null)
	return null, nil
}
