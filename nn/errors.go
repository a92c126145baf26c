package nn

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// OpError says which operation of which layer failed, and at which step.
type OpError struct {
	Layer string // dotted name
	Op    string // what was computed: "conv2d backward input"
	Step  int
	Err   error
}

func (e *OpError) Error() string {
	// This one names layer, step and product itself.
	if tooFew := (*coded.TooFewError)(nil); errors.As(e.Err, &tooFew) {
		return "nn: " + e.Err.Error()
	}
	return fmt.Sprintf("nn: layer %s: step %d: %s: %v", e.Layer, e.Step, e.Op, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// PanicError is a panic that was caught inside an operation.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// NonFiniteError says that the loss became NaN or infinite, and where the
// first number that is not finite was found.
type NonFiniteError struct {
	Step  int
	Loss  float64
	Where string // "output of layer conv1 (conv2d)"; empty if all but the loss is finite
}

func (e *NonFiniteError) Error() string {
	msg := fmt.Sprintf("nn: step %d: loss is %v", e.Step, e.Loss)
	if e.Where == "" {
		return msg
	}
	return msg + "; first not finite: " + e.Where
}

// shapeError says that a layer cannot take an input of this shape.
func shapeError(layer string, got []int, want string) error {
	return fmt.Errorf("nn: layer %s: input of shape %v, want %s", layer, got, want)
}

// runError takes the typed error out of what gorgonia's machine returns: its
// wrapper has an Err method and no Unwrap.
func runError(err error) error {
	for err != nil {
		if e := (*OpError)(nil); errors.As(err, &e) {
			return e
		}
		w, ok := err.(interface{ Err() error })
		if !ok {
			break
		}
		err = w.Err()
	}
	return fmt.Errorf("nn: run graph: %w", err)
}
