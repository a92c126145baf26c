package coded

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrIllConditioned is the kind of error that ConditionError is.
var ErrIllConditioned = errors.New("ill-conditioned")

// ConditionError says that a set of results decodes, but amplifies rounding
// more than was allowed.
type ConditionError struct {
	Code  string
	Have  []int   // the tasks of the set
	Cond  float64 // its condition number, +Inf if it is singular to working precision
	Limit float64
}

func (e *ConditionError) Error() string {
	return fmt.Sprintf("%s: results %v are ill-conditioned: condition number %.3g, limit %.3g", e.Code, e.Have, e.Cond, e.Limit)
}

func (e *ConditionError) Unwrap() error { return ErrIllConditioned }

// InsufficientError says that a set of results does not decode every output.
type InsufficientError struct {
	Code      string
	Have      []int   // the tasks of the set
	Threshold int     // number of tasks of which any decode; 0 if there is none
	Missing   []int   // outputs that cannot be decoded
	Outputs   int     // number of outputs
	Residual  float64 // of the best estimate, see Weights
}

func (e *InsufficientError) Error() string {
	enough := ""
	if e.Threshold > 0 {
		enough = fmt.Sprintf(", any %d are enough", e.Threshold)
	}
	return fmt.Sprintf("%s: too few results: %d%s: %d of %d outputs cannot be decoded (residual %.3g)",
		e.Code, len(e.Have), enough, len(e.Missing), e.Outputs, e.Residual)
}

func (e *InsufficientError) Unwrap() error { return ErrTooFewResults }

// TaskError says that a list of tasks has one that the code does not have, or one
// twice.
type TaskError struct {
	Code  string
	Task  int
	Tasks int  // of the code: 0 to Tasks-1
	Twice bool // the task is listed twice
}

func (e *TaskError) Error() string {
	if e.Twice {
		return fmt.Sprintf("%s: task %d is listed twice", e.Code, e.Task)
	}
	return fmt.Sprintf("%s: task %d, want 0 to %d", e.Code, e.Task, e.Tasks-1)
}

// ShapeError says that a tensor has not the shape that it must have, or not the
// elements of its shape.
type ShapeError struct {
	What     string // "encode rows: result"
	Got      []int  // its shape
	Elements int    // and how many there are
	Want     []int  // -1 where any size will do
	Or       string // what else will do: "fewer rows"; may be empty
}

func (e *ShapeError) Error() string {
	if len(e.Got) > 0 && !filled(e.Got, e.Elements) {
		return fmt.Sprintf("coded: %s has %d elements, which are not those of its shape %v", e.What, e.Elements, e.Got)
	}
	var want []string
	for _, n := range e.Want {
		if n < 0 {
			want = append(want, "_")
		} else {
			want = append(want, strconv.Itoa(n))
		}
	}
	or := ""
	if e.Or != "" {
		or = " or " + e.Or
	}
	return fmt.Sprintf("coded: %s has shape %v, want [%s]%s", e.What, e.Got, strings.Join(want, " "), or)
}

// shapeError copies the shapes, which their owners may change.
func shapeError(what string, got Tensor, want []int, or string) error {
	return &ShapeError{What: what, Got: slices.Clone(got.Shape), Elements: len(got.Data), Want: slices.Clone(want), Or: or}
}

// withSize returns a shape with another size along an axis.
func withSize(shape []int, axis, size int) []int {
	out := slices.Clone(shape)
	out[axis] = size
	return out
}

// ResultError says that a result holds a value that is not finite.
type ResultError struct {
	Task   int
	Result int // of the results of the task
	Index  int // of the first such value
	Value  float32
}

func (e *ResultError) Error() string {
	return fmt.Sprintf("task %d: result %d has the value %v at index %d, want finite numbers", e.Task, e.Result, e.Value, e.Index)
}
