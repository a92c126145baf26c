package coded

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/coda-ml/coda/internal/kernel"
)

// suspicion looks for the smallest set of tasks whose results contradict the others.
type suspicion struct {
	code      *Code
	tolerance float64
	tasks     []int       // ascending; sets below hold indices of it
	first     []int       // task i has the results first[i]..first[i+1]-1
	results   [][]float32 // of finite values, all equally long
	squares   []float64   // mean square of each result
	checks    [][]float64 // H
	tried     int
}

const (
	maxLocateSets = 4000 // sets of tasks that are tried
	maxFailures   = 256  // elements that fail a check and are kept
	locateBlock   = 4096 // elements that are looked at together
)

func newSuspicion(c *Code, given []TaskResults, tolerance float64) (*suspicion, error) {
	s := &suspicion{code: c, tolerance: tolerance}
	var rows [][]float64
	for _, r := range given {
		s.tasks, s.first = append(s.tasks, r.Task), append(s.first, len(rows))
		rows = append(rows, c.Rows(r.Task)...)
		for _, x := range r.Results {
			s.results = append(s.results, x.Data)
			s.squares = append(s.squares, ratio(kernel.SumSquares(x.Data), float64(len(x.Data))))
		}
	}
	s.first = append(s.first, len(rows))
	var err error
	s.checks, err = leftNull(rows, singularTolerance)
	return s, err
}

// leftNull returns an orthonormal basis of the vectors v with v m = 0: those of the
// singular values up to a tolerance times the largest. Elements that are nothing but
// rounding are 0.
func leftNull(m [][]float64, tolerance float64) ([][]float64, error) {
	if len(m) == 0 {
		return nil, nil
	}
	var svd mat.SVD
	if !svd.Factorize(dense(m), mat.SVDFullU) {
		return nil, errors.New("the singular value decomposition did not converge")
	}
	rank := svd.Rank(tolerance)
	var u mat.Dense
	svd.UTo(&u)
	dropRounding(&u)
	var null [][]float64
	for j := rank; j < len(m); j++ {
		null = append(null, mat.Col(nil, j, &u))
	}
	return null, nil
}

// without returns the checks that do not involve a set of tasks.
func (s *suspicion) without(set []int) ([][]float64, error) {
	if len(set) == 0 || len(s.checks) == 0 {
		return s.checks, nil
	}
	combinations, err := leftNull(s.columns(set), 1e-10)
	if err != nil {
		return nil, err
	}
	checks := make([][]float64, len(combinations))
	for i, v := range combinations {
		h := make([]float64, len(s.results))
		for j, x := range v {
			for w, y := range s.checks[j] {
				h[w] += x * y
			}
		}
		for _, t := range set {
			clear(h[s.first[t]:s.first[t+1]]) // of rounding
		}
		checks[i] = h
	}
	return checks, nil
}

// columns returns the columns of H that belong to a set of tasks.
func (s *suspicion) columns(set []int) [][]float64 {
	m := make([][]float64, len(s.checks))
	for j, h := range s.checks {
		for _, t := range set {
			m[j] = append(m[j], h[s.first[t]:s.first[t+1]]...)
		}
	}
	return m
}

// failure is an element in which a check fails, and by what factor.
type failure struct {
	element int
	factor  float64
}

// fails tells by what factor a check exceeds the tolerance in an element; above 1
// it fails.
func (s *suspicion) fails(check []float64, element int) float64 {
	var sum, squares float64
	for w, h := range check {
		if h != 0 {
			v := float64(s.results[w][element])
			sum += h * v
			squares += h * h * max(v*v, s.squares[w])
		}
	}
	if sum == 0 {
		return 0
	}
	return math.Abs(sum) / (s.tolerance * math.Sqrt(squares))
}

// inspect returns the elements that fail checks worst.
func (s *suspicion) inspect(checks [][]float64) []failure {
	var failures []failure
	worst := func() {
		slices.SortStableFunc(failures, func(a, b failure) int { return cmp.Compare(b.factor, a.factor) })
		failures = failures[:min(len(failures), maxFailures)]
	}
	for _, check := range checks {
		w, xs, least := s.terms(check)
		var sum [locateBlock]float32
		for at := 0; len(xs) > 0 && at < len(s.results[0]); at += locateBlock {
			block := sum[:min(locateBlock, len(s.results[0])-at)]
			for i := range xs {
				xs[i] = xs[i][min(at, locateBlock):]
			}
			kernel.Combine(block, w, xs)
			if float64(kernel.MaxAbs(block)) <= least {
				continue
			}
			for i, v := range block {
				if math.Abs(float64(v)) <= least {
					continue
				}
				if f := s.fails(check, at+i); f > 1 {
					failures = append(failures, failure{at + i, f})
				}
			}
			if len(failures) > 8*maxFailures {
				worst()
			}
		}
	}
	worst()
	return failures
}

// terms prepares a check for float32: its terms that are not 0, and what its sum
// must exceed before it can fail, less what the rounding of the sum may take.
func (s *suspicion) terms(check []float64) (w []float32, xs [][]float32, least float64) {
	var squares float64
	for i, h := range check {
		if h != 0 {
			w, xs = append(w, float32(h)), append(xs, s.results[i])
			squares += h * h * s.squares[i]
		}
	}
	return w, xs, 0.9 * s.tolerance * math.Sqrt(squares)
}

// locate returns the smallest set of tasks without which every check that is left
// is passed.
func (s *suspicion) locate() ([]int, error) {
	var seen []int // elements that failed
	var set []int
	for {
		checks, err := s.without(set)
		if err != nil {
			return nil, err
		}
		failures := s.inspect(checks)
		if len(failures) == 0 {
			return set, nil
		}
		for _, f := range failures {
			if !slices.Contains(seen, f.element) {
				seen = append(seen, f.element)
			}
		}
		// Every set found passes in all that was seen before and fails in something
		// new, so that sets do not repeat.
		if set, err = s.search(seen); err != nil {
			return nil, err
		}
	}
}

// explains tells whether every check that does not involve a set is passed in some
// elements.
func (s *suspicion) explains(set, elements []int) (bool, error) {
	s.tried++
	checks, err := s.without(set)
	if err != nil {
		return false, err
	}
	for _, check := range checks {
		for _, e := range elements {
			if s.fails(check, e) > 1 {
				return false, nil
			}
		}
	}
	return true, nil
}

// search finds the smallest set that explains what some elements have.
func (s *suspicion) search(elements []int) ([]int, error) {
	for size := 1; size <= len(s.tasks); size++ {
		if !atMost(len(s.tasks), size, maxLocateSets-s.tried) {
			return s.span(elements)
		}
		var found [][]int
		err := eachSubset(len(s.tasks), size, func(set []int) error {
			if ok, err := s.explains(set, elements); err != nil || !ok {
				return err
			}
			found = append(found, slices.Clone(set))
			if len(found) == 2 {
				return errAmbiguous
			}
			return nil
		})
		switch {
		case errors.Is(err, errAmbiguous):
			return nil, s.ambiguous(found...)
		case err != nil:
			return nil, err
		case found != nil:
			return found[0], nil
		}
	}
	return nil, s.ambiguous()
}

var errAmbiguous = errors.New("several sets explain it")

func (s *suspicion) ambiguous(sets ...[]int) error {
	e := &LocateError{Code: s.code.String(), Have: s.tasks, Spare: len(s.checks), Tried: s.tried}
	for _, set := range sets {
		e.Sets = append(e.Sets, s.names(set))
	}
	return e
}

func (s *suspicion) names(set []int) []int {
	var names []int
	for _, i := range set {
		names = append(names, s.tasks[i])
	}
	return names
}

// rest tells how many checks do not involve a set, and which of the other tasks have
// a result in none of them.
func (s *suspicion) rest(set []int) (spare int, unchecked []int) {
	checks, err := s.without(set)
	if err != nil {
		return 0, s.tasks
	}
	for i, t := range s.tasks {
		if slices.Contains(set, i) {
			continue
		}
		for w := s.first[i]; w < s.first[i+1]; w++ {
			weighs := func(h []float64) bool { return math.Abs(h[w]) > 2*s.tolerance }
			if !slices.ContainsFunc(checks, weighs) {
				unchecked = append(unchecked, t)
				break
			}
		}
	}
	return len(checks), unchecked
}
