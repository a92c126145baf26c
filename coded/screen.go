package coded

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coda-ml/coda/internal/kernel"
)

// TaskResults is what one task gave: all of its results, in their order.
type TaskResults struct {
	Task    int
	Results []Tensor
}

// Check tests what a task gave. A task that fails can be left out, as one that did
// not answer: see Decoder.Screen.
type Check func(TaskResults) error

// CheckFinite tests that every value is finite. The error is a *ResultError. It
// costs a sum of squares.
func CheckFinite(r TaskResults) error {
	for i, x := range r.Results {
		if finite(kernel.SumSquares(x.Data)) {
			continue
		}
		at := slices.IndexFunc(x.Data, func(v float32) bool { return !finite(float64(v)) })
		return &ResultError{Task: r.Task, Result: i, Index: at, Value: x.Data[at]}
	}
	return nil
}

// CheckShape gives a test that every result has a shape. The error is a *ShapeError.
func CheckShape(shape ...int) Check {
	want := slices.Clone(shape)
	return func(r TaskResults) error {
		for i, x := range r.Results {
			if !slices.Equal(x.Shape, want) || !filled(x.Shape, len(x.Data)) {
				return shapeError(fmt.Sprintf("task %d: result %d", r.Task, i), x, want, "")
			}
		}
		return nil
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Rejected is a task whose results are not used.
type Rejected struct {
	Task int
	Err  error // why
}

func (r Rejected) String() string { return fmt.Sprintf("task %d: %v", r.Task, r.Err) }

// Screened are results that passed, ready to be decoded: with DecodeRows or
// DecodeColumns, and Weights.D.
type Screened struct {
	Weights  *Weights
	Results  []Tensor   // of the tasks Weights.Have, in order
	Rejected []Rejected // by task
	// Unchecked lists tasks whose results are used although nothing is known of
	// them: see Location.
	Unchecked []int
}

// RejectedError says that what is left of a set of results, after those that failed
// a test, does not decode. It wraps the *InsufficientError or *ConditionError of
// the rest, and the reason of each rejection.
type RejectedError struct {
	Code     string
	Given    int // tasks
	Rejected []Rejected
	Err      error
}

func (e *RejectedError) Error() string {
	var reasons []string
	for _, r := range e.Rejected {
		reasons = append(reasons, r.String())
	}
	return fmt.Sprintf("%s: %d of %d tasks rejected: %s; of the rest: %v",
		e.Code, len(e.Rejected), e.Given, strings.Join(reasons, "; "), e.Err)
}

// Unwrap lists the error of the rest, then the reasons of the rejections.
func (e *RejectedError) Unwrap() []error {
	errs := []error{e.Err}
	for _, r := range e.Rejected {
		errs = append(errs, r.Err)
	}
	return errs
}

// Screen applies tests to what tasks gave, in any order, leaves out every task that
// fails one, or gave another number of results than it has, and gives the weights
// that decode from the rest: a liar that is found costs no more than a straggler, and
// n-k of them are borne by a code any k of whose n tasks decode. Verifiers as tests
// find any lie (R. Freivalds 1977):
//
//	s, err := decoder.Screen(given, coded.CheckShape(m, n), func(r coded.TaskResults) error {
//		return verifiers[r.Task].Check(r.Results[0], x)
//	})
//	err = coded.DecodeRows(y, s.Weights.D, s.Results, p, 0)
//
// If too few are left, the error is a *RejectedError, or that of Weights when none
// was rejected; what there is comes with it, as from Weights. A task that the code
// does not have, or that is listed twice, gives a *TaskError and nothing else.
func (d *Decoder) Screen(given []TaskResults, tests ...Check) (*Screened, error) {
	sorted, err := d.code.sortResults(given)
	if err != nil {
		return nil, fmt.Errorf("coded: screen: %w", err)
	}
	s := new(Screened)
	var left []TaskResults
	for _, r := range sorted {
		if err := d.code.test(r, tests); err != nil {
			s.Rejected = append(s.Rejected, Rejected{r.Task, err})
			continue
		}
		left = append(left, r)
	}
	return s, d.finish(s, left, len(given))
}

// finish weighs the results that are left.
func (d *Decoder) finish(s *Screened, left []TaskResults, given int) error {
	var have []int
	for _, r := range left {
		have = append(have, r.Task)
		s.Results = append(s.Results, r.Results...)
	}
	var err error
	s.Weights, err = d.Weights(have)
	if err != nil && len(s.Rejected) > 0 {
		return &RejectedError{Code: d.code.String(), Given: given, Rejected: s.Rejected, Err: err}
	}
	return err
}

// test applies tests to what a task gave.
func (c *Code) test(r TaskResults, tests []Check) error {
	if got, want := len(r.Results), c.Results(r.Task); got != want {
		return fmt.Errorf("%d results, want %d", got, want)
	}
	for _, check := range tests {
		if err := check(r); err != nil {
			return err
		}
	}
	return nil
}

// sortResults sorts what tasks gave by task, and checks that these are a set.
func (c *Code) sortResults(given []TaskResults) ([]TaskResults, error) {
	sorted := slices.Clone(given)
	slices.SortStableFunc(sorted, func(a, b TaskResults) int { return cmp.Compare(a.Task, b.Task) })
	tasks := make([]int, len(sorted))
	for i, r := range sorted {
		tasks[i] = r.Task
	}
	return sorted, c.checkSet(tasks)
}
