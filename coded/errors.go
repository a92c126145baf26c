package coded

import (
	"errors"
	"fmt"
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
