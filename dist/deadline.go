package dist

import (
	"slices"
	"time"
)

// roundDeadline says how long a round may take: eight times the 99th
// percentile of the last rounds, within limits. Until enough rounds have been
// seen it is the first deadline. It is not safe for concurrent use.
type roundDeadline struct {
	first, least, most time.Duration
	seen               [256]time.Duration // ring of the last durations
	count              int
	sorted             []time.Duration
}

const (
	deadlineWarmUp = 16 // rounds before quantiles are trusted
	deadlineFactor = 8
)

// observe takes the duration of a round that ended well.
func (d *roundDeadline) observe(took time.Duration) {
	d.seen[d.count%len(d.seen)] = took
	d.count++
}

// limit returns the deadline of the next round.
func (d *roundDeadline) limit() time.Duration {
	if d.count < deadlineWarmUp {
		return d.first
	}
	return min(max(deadlineFactor*d.quantile(0.99), d.least), d.most)
}

func (d *roundDeadline) quantile(q float64) time.Duration {
	d.sorted = append(d.sorted[:0], d.seen[:min(d.count, len(d.seen))]...)
	slices.Sort(d.sorted)
	return d.sorted[int(q*float64(len(d.sorted)-1)+0.5)]
}
