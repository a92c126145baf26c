package coded

import (
	"fmt"
	"math/rand/v2"
)

// ThresholdReport says how far the threshold of a code was tested. It holds when
// both Refuted is nil and Tight is not.
type ThresholdReport struct {
	Sets       int   // sets of Threshold tasks that were tried
	Exhaustive bool  // they are all there are
	Refuted    []int // a set of Threshold tasks that does not decode
	Tight      []int // a set of Threshold-1 tasks that does not decode, if one was found
}

// CheckThreshold tests the claimed threshold in exact arithmetic: whether every
// set of Threshold tasks decodes, and some set of one task less does not. It
// tries all sets if there are at most limit, and otherwise limit sets drawn with
// rng. The error says that the code has no threshold or no exact form.
func (c *Code) CheckThreshold(limit int, rng *rand.Rand) (ThresholdReport, error) {
	n, k := c.N(), c.def.Threshold
	if k == 0 {
		return ThresholdReport{}, fmt.Errorf("coded: %v claims no threshold", c)
	}
	exact, err := NewExactTracker(c)
	if err != nil {
		return ThresholdReport{}, err
	}
	report := ThresholdReport{Exhaustive: atMost(n, k, limit)}
	try := func(set []int) error {
		report.Sets++
		if report.Refuted == nil && !exact.decodes(set) {
			report.Refuted = append([]int{}, set...)
		}
		return nil
	}
	if report.Exhaustive {
		err = eachSubset(n, k, try)
	} else {
		err = drawSubsets(n, k, limit, rng, try)
	}
	if err != nil {
		return ThresholdReport{}, fmt.Errorf("coded: threshold of %v: %w", c, err)
	}
	report.Tight = exact.stuck(k-1, min(limit, 40), rng)
	return report, nil
}

// decodes tells whether a set of tasks decodes every output.
func (t *ExactTracker) decodes(set []int) bool {
	t.Reset()
	for _, task := range set {
		t.Add(task)
	}
	return t.Ready()
}

// stuck looks for a set of so many tasks that does not decode: it adds tasks in
// random order as long as the set does not decode. nil if it finds none.
func (t *ExactTracker) stuck(size, tries int, rng *rand.Rand) []int {
	for range tries {
		set := []int{}
		for _, task := range rng.Perm(len(t.seen)) {
			if len(set) == size {
				return set
			}
			if !t.decodes(append(set, task)) {
				set = append(set, task)
			}
		}
		if len(set) == size {
			return set
		}
	}
	return nil
}
