package schedule

import "math"

// Habits is what is known over rounds of how long workers take for a chunk. The
// rounds of a layer share it; one goroutine at a time uses it.
type Habits struct{ workers []habit }

// habit is that of a worker: a moving mean of its times, and of how far they are
// from the mean of their round, as a fraction of it.
type habit struct{ mean, spread float64 }

const (
	// habitGain is the weight of the newest chunk (1/8, as for the round-trip time of
	// TCP: V. Jacobson, Congestion avoidance and control, SIGCOMM 1988).
	habitGain = 1.0 / 8
	// patience is how many spreads a worker may be behind its usual time before it is
	// late.
	patience = 2
	// maxSpread bounds the spread as a fraction of the usual time: whoever has
	// stopped now and then, for long, is not waited for ever longer.
	maxSpread = 0.5
)

// NewHabits returns those of workers of whom nothing is known.
func NewHabits(workers int) *Habits { return &Habits{make([]habit, workers)} }

// note takes in how long a worker took for a chunk for which it was expected to take
// some time, 0 if nothing was known.
func (h *habit) note(took, mean float64) {
	if mean > 0 {
		h.spread += habitGain * (math.Abs(took-mean)/mean - h.spread)
	}
	if h.mean == 0 {
		h.mean = took
	}
	h.mean += habitGain * (took - h.mean)
}
