//go:build !linux

package alarm

// Alarm rings at a moment.
type Alarm struct{ *Coarse }

// New returns an alarm that is not set. Close ends it.
func New() (*Alarm, error) { return &Alarm{NewCoarse()}, nil }
