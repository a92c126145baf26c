package datasets

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of errors, for errors.Is.
var (
	// ErrUnknown is the kind of error for a name that no data set has.
	ErrUnknown = errors.New("unknown data set")
	// ErrNotFound is the kind of error that NotFoundError is.
	ErrNotFound = errors.New("data set not found")
	// ErrFormat is the kind of FileError for a file that is not what its name
	// says: not IDX, damaged, of another shape, with labels out of range.
	ErrFormat = errors.New("wrong format")
	// ErrTruncated is the kind of FileError for a file that ends too early.
	ErrTruncated = errors.New("truncated file")
	// ErrChecksum is the kind of FileError for a file with another SHA-256.
	ErrChecksum = errors.New("wrong checksum")
)

// NotFoundError says where a data set was looked for, and what can be done.
type NotFoundError struct {
	Name   string   // of the data set
	Looked []string // every place that was looked at, each with what was wrong there
	Advice string   // what the user can do
	Err    error    // why the last way to get it failed; may be nil
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s not found; looked at %s; %s",
		e.Name, strings.Join(e.Looked, ", "), e.Advice)
}

// Unwrap gives ErrNotFound and the cause.
func (e *NotFoundError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNotFound}
	}
	return []error{ErrNotFound, e.Err}
}

// FileError says what is wrong with one file.
type FileError struct {
	Path    string // the file, or the address that it came from
	Entry   string // the entry of the archive that the file is; may be empty
	Problem string // what is wrong, in a few words
	Found   string // what was found
	Want    string // what was expected
	Kind    error  // ErrFormat, ErrTruncated or ErrChecksum
}

func (e *FileError) Error() string {
	place := e.Path
	if e.Entry != "" {
		place += ": " + e.Entry
	}
	return fmt.Sprintf("%s: %s: found %s, expected %s", place, e.Problem, e.Found, e.Want)
}

// Unwrap gives the kind.
func (e *FileError) Unwrap() error { return e.Kind }
