package schedule

import (
	"math"
	"slices"
)

// Speculation says when a chunk is late, so that an idle worker does it as well.
type Speculation struct {
	// Quantile is the part of the chunks that must be ready before any is late: who
	// is late is known by those who are not.
	Quantile float64
	// Multiple is of the median time of the results that there are. A chunk is late
	// when every worker that it was given to has been at it for that long.
	Multiple float64
}

// DefaultSpeculation is the best, among quantiles from 0 to 0.75 and multiples from 1
// to 1.5, that does not repeat what chance alone makes late: for eight workers and the
// models of stragglers in docs/benchmarks.md, where no other is more than 3 % faster.
// Spark takes 0.75 and 1.5, which save work more than time.
var DefaultSpeculation = Speculation{Quantile: 0.25, Multiple: 1.05}

// Valid tells whether there can be such a rule.
func (r Speculation) Valid() bool {
	return r.Quantile >= 0 && r.Quantile <= 1 && r.Multiple >= 1 && !math.IsInf(r.Multiple, 1)
}

// Speculative gives every worker one chunk at a time, and those that are late to
// idle workers too, the chunks of least cover first, as the package says.
type Speculative struct {
	*Pulled
	rule  Speculation
	begun []float64 // by chunk: when it was given last
	took  []float64 // times of the results, ascending
}

// NewSpeculative returns the schedule of a rule that is valid.
func NewSpeculative(readiness func() Covered, workers, chunks int, rule Speculation) *Speculative {
	return &Speculative{Pulled: NewPulled(readiness, workers, chunks, nil), rule: rule, begun: make([]float64, chunks)}
}

// Reset implements Schedule.
func (s *Speculative) Reset() {
	s.Pulled.Reset()
	s.took = s.took[:0]
}

// Next implements Schedule.
func (s *Speculative) Next(worker int, idle bool, now float64) (chunk int, after float64, ok bool) {
	if !idle {
		return 0, 0, false // a chunk is as much as a worker's share
	}
	if chunk, ok = s.thinnest(worker); ok {
		return chunk, 0, true
	}
	if s.Done() || len(s.took) == 0 || s.ready < int(s.rule.Quantile*float64(len(s.ranks))) {
		return 0, 0, false
	}
	return s.late(worker, now)
}

// late returns the chunk that an idle worker repeats, or says when the next one
// will be late.
func (s *Speculative) late(worker int, now float64) (chunk int, after float64, ok bool) {
	given, patience, next := s.given(worker), s.rule.Multiple*s.median(), math.Inf(1)
	chunk, ok = Next(s.ranks, Offset(worker, s.workers, len(s.ranks)), Over, func(chunk int) bool {
		if given(chunk) {
			return true
		}
		if now-s.begun[chunk] >= patience*(1-1e-9) { // rounding must not put it off for ever
			return false
		}
		next = min(next, s.begun[chunk]+patience)
		return true
	})
	switch {
	case ok:
		return chunk, 0, true
	case math.IsInf(next, 1):
		return 0, 0, false
	}
	return 0, wait(now, next-now), false
}

// median is that of the times of the results, of which there is one at least.
func (s *Speculative) median() float64 {
	n := len(s.took)
	return (s.took[(n-1)/2] + s.took[n/2]) / 2
}

// Start implements Schedule.
func (s *Speculative) Start(worker, chunk int, now float64) {
	s.Pulled.Start(worker, chunk, now)
	s.begun[chunk] = now
}

// Finish implements Schedule.
func (s *Speculative) Finish(worker, chunk int, now float64) (useful, ready bool) {
	took := now - s.speeds[worker].since
	if useful, ready = s.Pulled.Finish(worker, chunk, now); useful {
		i, _ := slices.BinarySearch(s.took, took)
		s.took = slices.Insert(s.took, i, took)
	}
	return useful, ready
}

// Drop implements Schedule.
func (s *Speculative) Drop(worker, chunk int) {
	s.Pulled.Drop(worker, chunk)
	s.begun[chunk] = math.Inf(-1)
	for w := range s.speeds {
		if v := &s.speeds[w]; slices.Contains(v.queue, int32(chunk)) {
			s.begun[chunk] = max(s.begun[chunk], v.since)
		}
	}
}
