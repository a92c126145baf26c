package alarm

import "time"

// Coarse is an alarm by a timer of Go's, for wherever the time of a
// testing/synctest bubble counts.
type Coarse struct {
	timer *time.Timer
	rings chan struct{} // capacity 1
}

// NewCoarse returns an alarm that is not set. It holds nothing that has to be
// closed, but for the timer of its last setting.
func NewCoarse() *Coarse { return &Coarse{rings: make(chan struct{}, 1)} }

// Set makes the alarm ring at a moment, at once if that is past, instead of when it
// was set to before.
func (a *Coarse) Set(at time.Time) {
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(at), func() { ring(a.rings) })
		return
	}
	a.timer.Reset(time.Until(at))
}

// C gives a value when the alarm rings.
func (a *Coarse) C() <-chan struct{} { return a.rings }

// Stop takes the setting back.
func (a *Coarse) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Close stops the alarm.
func (a *Coarse) Close() error {
	a.Stop()
	return nil
}

// ring does not wait: one ring that nobody has heard is enough.
func ring(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
