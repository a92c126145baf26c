package coded

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/combin"
)

// Conditions sums up how a code behaves over its survivor sets, the sets of
// exactly Threshold tasks; of a code without a threshold, the set of all tasks.
type Conditions struct {
	Sets       int  // sets that were tried
	Exhaustive bool // they are all there are

	// Worst and Median are condition numbers, see Weights; +Inf of a set that does
	// not decode. If sets are drawn, Worst and Amplification are also over the n
	// sets whose missing tasks follow each other, round the circle: the worst ones
	// of many codes.
	Worst, Median float64
	WorstSet      []int   // the first set that has Worst
	Amplification float64 // the worst over the sets, see Weights.Amplification
}

// Conditions tries every survivor set if there are at most limit, and otherwise
// limit sets drawn with rng, which must then not be nil.
func (c *Code) Conditions(limit int, rng *rand.Rand) (Conditions, error) {
	n, k := c.N(), c.def.Threshold
	if k == 0 {
		k = n
	}
	report := Conditions{Exhaustive: atMost(n, k, limit)}
	var conds []float64
	try := func(set []int) error {
		cond, err := report.add(c, set)
		conds = append(conds, cond)
		return err
	}
	var err error
	switch {
	case limit < 1:
		err = fmt.Errorf("coded: %v: at most %d survivor sets, want at least 1", c, limit)
	case report.Exhaustive:
		err = eachSubset(n, k, try)
	case rng == nil:
		err = fmt.Errorf("coded: %v has more than %d survivor sets and there is no random source to draw them with", c, limit)
	default:
		if err = drawSubsets(n, k, limit, rng, try); err == nil {
			err = report.addBursts(c, n, k)
		}
	}
	if err != nil {
		return Conditions{}, err
	}
	slices.Sort(conds)
	report.Sets, report.Median = len(conds), (conds[(len(conds)-1)/2]+conds[len(conds)/2])/2
	return report, nil
}

// conditionRounding, times the condition number, is the relative residual that the
// rounding of weights may leave: a set whose residual is no larger decodes, and
// its condition number is known, even if a Decoder would refuse it.
const conditionRounding = 1e-14

// add takes a set into account and returns its condition number.
func (r *Conditions) add(c *Code, set []int) (float64, error) {
	w, err := c.solve(set)
	if err != nil {
		return 0, err
	}
	cond := w.Cond
	if !c.def.Approximate && len(w.undecoded()) > 0 && !(math.Sqrt(w.Residual) <= conditionRounding*cond) {
		cond = math.Inf(1)
	}
	if cond > r.Worst {
		r.Worst, r.WorstSet = cond, slices.Clone(set)
	}
	r.Amplification = max(r.Amplification, w.Amplification())
	return cond, nil
}

// addBursts takes the sets of k tasks into account that follow each other.
func (r *Conditions) addBursts(c *Code, n, k int) error {
	set := make([]int, k)
	for from := range n {
		for i := range set {
			set[i] = (from + i) % n
		}
		sorted := slices.Sorted(slices.Values(set))
		if _, err := r.add(c, sorted); err != nil {
			return err
		}
	}
	return nil
}

// atMost tells whether n things have at most limit subsets of k.
func atMost(n, k, limit int) bool {
	sets := 1.0
	for i := range min(k, n-k) {
		if sets = sets * float64(n-i) / float64(i+1); sets > float64(limit) {
			return false
		}
	}
	return true
}

// eachSubset calls f with every subset of k of 0..n-1, ascending, which f must
// not keep.
func eachSubset(n, k int, f func([]int) error) error {
	gen := combin.NewCombinationGenerator(n, k)
	set := make([]int, k)
	for gen.Next() {
		if err := f(gen.Combination(set)); err != nil {
			return err
		}
	}
	return nil
}

// drawSubsets calls f with random subsets, each drawn by itself.
func drawSubsets(n, k, draws int, rng *rand.Rand, f func([]int) error) error {
	for range draws {
		set := rng.Perm(n)[:k]
		slices.Sort(set)
		if err := f(set); err != nil {
			return err
		}
	}
	return nil
}
