package dist

import (
	"slices"
	"time"
)

// durations remembers the last ones of a kind, for their quantiles. It is not
// safe for concurrent use.
type durations struct {
	last   []time.Duration // ring
	most   int             // of last
	count  int
	sorted []time.Duration
}

func (d *durations) observe(took time.Duration) {
	if len(d.last) < d.most {
		d.last = append(d.last, took)
	} else {
		d.last[d.count%d.most] = took
	}
	d.count++
}

// quantile returns 0 if nothing has been observed.
func (d *durations) quantile(q float64) time.Duration {
	if len(d.last) == 0 {
		return 0
	}
	d.sorted = append(d.sorted[:0], d.last...)
	slices.Sort(d.sorted)
	return d.sorted[int(q*float64(len(d.sorted)-1)+0.5)]
}

// limit is eight times the 99th percentile, within limits. Until so many have been
// observed it is the first.
func (d *durations) limit(warmUp int, first, least, most time.Duration) time.Duration {
	if d.count < warmUp {
		return first
	}
	return min(max(deadlineFactor*d.quantile(0.99), least), most)
}

// roundDeadline says how long a round may take, from the last ones.
type roundDeadline struct {
	durations
	first, least, most time.Duration
}

const (
	deadlineRounds = 256
	deadlineWarmUp = 16 // rounds before quantiles are trusted
	deadlineFactor = 8
)

func newRoundDeadline(first, least, most time.Duration) roundDeadline {
	return roundDeadline{durations: durations{most: deadlineRounds}, first: first, least: least, most: most}
}

// limit returns the deadline of the next round.
func (d *roundDeadline) limit() time.Duration {
	return d.durations.limit(deadlineWarmUp, d.first, d.least, d.most)
}
