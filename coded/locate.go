package coded

import (
	"fmt"
	"slices"
)

// DefaultTolerance is what Locate takes for rounding if it is not told otherwise,
// relative to the size of the results. Honest products of 4096 terms, summed one after
// another, were seen to take a twentieth of it.
const DefaultTolerance = 1e-4

// Location says which of a set of results are wrong.
type Location struct {
	Wrong []int // tasks, ascending; none if all results agree
	// Spare is the number of independent checks that the other results pass: 0 if
	// nothing is known of them.
	Spare int
	// Unchecked lists the tasks among the others in whose results a lie as large as
	// they are would not be seen, because no check involves them.
	Unchecked []int
}

// LocateError says that results contradict each other, but not which are wrong.
type LocateError struct {
	Code  string
	Have  []int // the tasks
	Spare int   // independent checks of all of them
	// Sets are two of the smallest sets of tasks of which one is wrong; nil if no
	// such set was found among those that were tried.
	Sets  [][]int
	Tried int // sets
}

func (e *LocateError) Error() string {
	if e.Sets == nil {
		return fmt.Sprintf("%s: results of tasks %v contradict each other: %d spare ones do not tell which are wrong (%d sets tried)",
			e.Code, e.Have, e.Spare, e.Tried)
	}
	return fmt.Sprintf("%s: results of tasks %v contradict each other: with %d spare ones, tasks %v may be wrong, or %v",
		e.Code, e.Have, e.Spare, e.Sets[0], e.Sets[1])
}

// Locate finds wrong results with nothing but the code: without the operands,
// when more tasks answered than decode. The results of a set of tasks are M_S P,
// with P the products of blocks, so that every row h of the left null space H of
// M_S (of n-k rows, if any k of n tasks decode) is a check:
//
//	h M_S = 0  implies  sum_w h_w R_w = 0, in every element of the results
//
// (the parity check of algorithm-based fault tolerance: K.-H. Huang, J. Abraham, IEEE
// Trans. Computers 1984). What H R leaves is a combination of the columns of H that
// belong to the wrong results. Locate finds the smallest set of tasks without which
// all checks are passed that the others allow. If there are several, the results do
// not say who lied: that is a *LocateError.
//
// Of a code any k of whose n tasks decode, with s = n-k spare results of which e are
// wrong, so that H R has rank r (a row for each check, a column for each element),
// the smallest set is the only one when 2e < s + r: two sets of e tasks, together more
// than s, span in H spaces that have 2e-s dimensions in common at most. So
//
//   - up to s-1 wrong results are found if their errors are unrelated (r = e), as
//     those of faults and of liars that do not conspire are with probability 1:
//     J. Metzner, E. Kapturowski, IEEE Trans. Information Theory 1990;
//   - up to s/2, rounded down, are found whatever they are;
//   - one spare result tells that something is wrong, and never what.
//
// More liars than that, who conspire, can frame others, and s+1 of them need not leave
// a trace: who must bear them uses Verifiers. Where the search for the smallest set
// would take more than maxLocateSets sets, Locate takes the tasks whose columns of H
// lie in the space that H R spans: that finds errors that are unrelated.
//
// A check counts as passed when it is at most tolerance (0 is DefaultTolerance) times
// the root of the sum of the squares of its terms, each of which counts as no smaller
// than its result's root mean square. A task with a value that is not finite is wrong
// from the start. Results must have one shape: unequal ones are a *ShapeError, and
// tasks that are no set a *TaskError.
func (c *Code) Locate(given []TaskResults, tolerance float64) (*Location, error) {
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if !(tolerance > 0 && finite(tolerance)) {
		return nil, fmt.Errorf("coded: locate: tolerance %v, want a finite number above 0", tolerance)
	}
	sorted, err := c.sortResults(given)
	if err != nil {
		return nil, fmt.Errorf("coded: locate: %w", err)
	}
	loc := new(Location)
	var left []TaskResults
	for _, r := range sorted {
		if CheckFinite(r) != nil {
			loc.Wrong = append(loc.Wrong, r.Task)
			continue
		}
		left = append(left, r)
	}
	if err := c.checkEqual(left); err != nil {
		return nil, err
	}
	s, err := newSuspicion(c, left, tolerance)
	if err != nil {
		return nil, fmt.Errorf("coded: locate: %v: %w", c, err)
	}
	wrong, err := s.locate()
	if err != nil {
		return nil, err
	}
	loc.Spare, loc.Unchecked = s.rest(wrong)
	loc.Wrong = slices.Sorted(slices.Values(append(loc.Wrong, s.names(wrong)...)))
	return loc, nil
}

// checkEqual checks that all results have one shape, and that none is missing.
func (c *Code) checkEqual(given []TaskResults) error {
	var same Check
	for _, r := range given {
		if same == nil && len(r.Results) > 0 {
			same = CheckShape(r.Results[0].Shape...)
		}
		if err := c.test(r, nil); err != nil {
			return fmt.Errorf("coded: locate: task %d: %w", r.Task, err)
		}
		if err := same(r); err != nil {
			return err
		}
	}
	return nil
}

// ScreenSpares is Screen with what Locate finds: without tests of its own, but with
// results to spare. Tasks that no check involves are used, and listed as Unchecked.
// The error is also a *LocateError, when the results contradict each other and it
// cannot be said which are wrong; nothing comes with it.
func (d *Decoder) ScreenSpares(given []TaskResults, tolerance float64) (*Screened, error) {
	loc, err := d.code.Locate(given, tolerance)
	if err != nil {
		return nil, err
	}
	sorted, err := d.code.sortResults(given)
	if err != nil {
		return nil, fmt.Errorf("coded: screen: %w", err)
	}
	s := &Screened{Unchecked: loc.Unchecked}
	var left []TaskResults
	for _, r := range sorted {
		if !slices.Contains(loc.Wrong, r.Task) {
			left = append(left, r)
			continue
		}
		reason := CheckFinite(r)
		if reason == nil {
			reason = &ContradictionError{Spare: loc.Spare}
		}
		s.Rejected = append(s.Rejected, Rejected{r.Task, reason})
	}
	return s, d.finish(s, left, len(given))
}

// ContradictionError says that a result is not what the others say that it is.
type ContradictionError struct {
	Spare int // independent checks on which the others agree
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("the results contradict the others, which pass %d checks", e.Spare)
}
