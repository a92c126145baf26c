package schedule

import (
	"cmp"
	"math"
	"slices"
)

// Pulled hands chunks out by pull and lets idle workers double up, as the package
// says.
type Pulled struct {
	Covered
	open    Covered // of what is done or being done
	cover   []int
	ranks   []Rank
	taken   []uint64 // by worker, words bits each: the chunks that it was given
	loads   []int    // by worker: how many
	ahead   lastPulls
	words   int
	workers int
	ready   int // chunks
	thin    int // chunks whose cover is not enough

	speeds []speed // by worker
	habits *Habits // nil: nothing is known from earlier rounds

	looked   float64    // when expected was computed; negative: never
	events   int        // since then
	expected []expected // by chunk
	coming   [][]Coming // alike
}

// expected is what is known of a chunk whose cover is enough.
type expected struct {
	ready float64 // when it will be
	late  float64 // when the next worker will be late with it, if it is not done
}

// speed is what is known of a worker.
type speed struct {
	queue []int32 // chunks that it has been given and not answered, in order
	since float64 // when it began the first of them
	busy  float64 // time in this round for
	count int     // so many chunks
}

// NewPulled returns the adaptive schedule. It learns the habits of the workers, and
// heeds them, if it is given any.
func NewPulled(readiness func() Covered, workers, chunks int, habits *Habits) *Pulled {
	words := (chunks + 63) / 64
	s := &Pulled{
		Covered: readiness(), open: readiness(), cover: make([]int, chunks), ranks: make([]Rank, chunks),
		taken: make([]uint64, workers*words), loads: make([]int, workers), words: words, workers: workers,
		speeds: make([]speed, workers), habits: habits, expected: make([]expected, chunks), coming: make([][]Coming, chunks),
	}
	s.Reset()
	return s
}

// Reset implements Schedule.
func (s *Pulled) Reset() {
	s.Covered.Reset()
	s.open.Reset()
	clear(s.cover)
	clear(s.ranks)
	clear(s.taken)
	clear(s.loads)
	s.ready, s.thin, s.looked = 0, len(s.ranks), -1
	for w := range s.speeds {
		s.speeds[w] = speed{queue: s.speeds[w].queue[:0]}
	}
}

// Next implements Schedule.
func (s *Pulled) Next(worker int, idle bool, now float64) (chunk int, after float64, ok bool) {
	if chunk, ok = s.thinnest(worker); ok {
		return chunk, 0, true
	}
	if !idle || s.Done() {
		return 0, 0, false
	}
	return s.double(worker, now)
}

// thinnest returns the chunk of least cover among those whose cover is not enough; among
// the last ones, one that leaves the others something to do.
func (s *Pulled) thinnest(worker int) (chunk int, ok bool) {
	if s.thin == 0 {
		return 0, false
	}
	return s.ahead.first(s, worker, Offset(worker, s.workers, len(s.ranks)))
}

// given tells which chunks a worker has been given.
func (s *Pulled) given(worker int) func(chunk int) bool {
	taken := s.taken[worker*s.words : (worker+1)*s.words]
	return func(chunk int) bool { return taken[chunk>>6]>>(chunk&63)&1 != 0 }
}

// margin is how much later than by an idle worker a result must be expected for
// that worker to double up on it.
const margin = 1.25

// double returns the chunk that will be ready last, if a worker that is idle is
// expected to change that. Else it says when to look again: when somebody is late
// with a chunk, or has been late for long enough.
func (s *Pulled) double(worker int, now float64) (chunk int, after float64, ok bool) {
	given, offset := s.given(worker), Offset(worker, s.workers, len(s.ranks))
	usual, spread := s.usual(worker)
	need := margin*usual + spread
	s.expect(now, need/16)
	chunk, latest, after := -1, now+need*(1-1e-9), math.Inf(1) // rounding must not put it off for ever
	for i := range s.ranks {
		c := (offset + i) % len(s.ranks)
		if s.ranks[c] == Over || given(c) {
			continue
		}
		e := &s.expected[c]
		switch {
		case e.ready > latest || chunk < 0 && e.ready == latest:
			chunk, latest = c, e.ready
		case e.late > now:
			after = min(after, e.late-now)
		default:
			after = min(after, now+need-e.ready)
		}
	}
	switch {
	case chunk >= 0:
		return chunk, 0, true
	case math.IsInf(after, 1):
		return 0, 0, false
	}
	return 0, wait(now, max(after, need/8)), false
}

// wait makes a time from now on one that passes, unless it is 0.
func wait(now, after float64) float64 {
	if now+after == now && after > 0 {
		return math.Nextafter(now, math.Inf(1)) - now
	}
	return after
}

// expect looks ahead, if much has changed since it did so last: with thousands of
// workers not every time.
func (s *Pulled) expect(now, much float64) {
	if s.looked >= 0 && now-s.looked <= much && 8*s.events < s.workers {
		return
	}
	s.looked, s.events = now, 0
	for c := range s.expected {
		s.coming[c] = s.coming[c][:0]
		s.expected[c].late = math.Inf(1)
	}
	for w := range s.speeds {
		v := &s.speeds[w]
		d, spread := s.usual(w)
		e, patient := now-v.since, d+patience*spread
		first, each := max(d, e), d
		if e >= patient {
			first, each = max(d, 2*e), max(d, e)
		}
		for i, c := range v.queue {
			s.coming[c] = append(s.coming[c], Coming{w, v.since + first + float64(i)*each - spread})
			if late := v.since + patient; late > now {
				s.expected[c].late = min(s.expected[c].late, late)
			}
		}
	}
	for c, coming := range s.coming {
		slices.SortFunc(coming, func(a, b Coming) int { return cmp.Compare(a.At, b.At) })
		s.expected[c].ready = s.When(c, coming)
		if math.IsInf(s.expected[c].late, 1) {
			s.expected[c].late = now
		}
	}
}

// usual is the time that a worker takes for a chunk, 0 if nothing is known, and by
// how much one differs from that.
func (s *Pulled) usual(worker int) (mean, spread float64) {
	if v := &s.speeds[worker]; v.count > 0 {
		mean = v.busy / float64(v.count)
	} else if s.habits != nil {
		mean = s.habits.workers[worker].mean
	}
	if s.habits != nil {
		spread = min(s.habits.workers[worker].spread, maxSpread) * mean
	}
	return mean, spread
}

// Start implements Schedule.
func (s *Pulled) Start(worker, chunk int, now float64) {
	s.taken[worker*s.words+chunk>>6] |= 1 << (chunk & 63)
	s.loads[worker]++
	s.cover[chunk]++
	s.open.Add(worker, chunk)
	s.rank(chunk)
	s.events++
	v := &s.speeds[worker]
	if len(v.queue) == 0 {
		v.since = now
	}
	v.queue = append(v.queue, int32(chunk))
}

// rank brings the rank of a chunk that is not ready up to date.
func (s *Pulled) rank(chunk int) {
	was := s.ranks[chunk] < Enough
	s.ranks[chunk] = RankOf(s.cover[chunk], s.open.Ready(chunk))
	switch is := s.ranks[chunk] < Enough; {
	case was && !is:
		s.thin--
	case is && !was:
		s.thin++
	}
}

// Finish implements Schedule.
func (s *Pulled) Finish(worker, chunk int, now float64) (useful, ready bool) {
	s.events++
	v := &s.speeds[worker]
	if i := slices.Index(v.queue, int32(chunk)); i >= 0 {
		// What was before it has been called off.
		v.queue = slices.Delete(v.queue, 0, i+1)
		took := now - v.since
		if s.habits != nil {
			mean, _ := s.usual(worker)
			s.habits.workers[worker].note(took, mean)
		}
		v.busy += took
		v.count++
	}
	v.since = now
	useful, ready = finish(s.Covered, worker, chunk)
	if ready {
		s.settle(chunk)
	}
	return useful, ready
}

// Settle takes note that a chunk may have become ready without a result: see Limit.
func (s *Pulled) Settle(chunk int) {
	if s.ranks[chunk] != Over && s.Ready(chunk) {
		s.events++
		s.settle(chunk)
	}
}

// settle takes a chunk that is ready out of the queues, but from where it may be
// under way: a worker finishes what it has begun.
func (s *Pulled) settle(chunk int) {
	if s.ranks[chunk] < Enough {
		s.thin--
	}
	s.ranks[chunk] = Over
	s.ready++
	for w := range s.speeds {
		v := &s.speeds[w]
		if i := slices.Index(v.queue, int32(chunk)); i > 0 {
			v.queue = slices.Delete(v.queue, i, i+1)
		}
	}
}

// Drop implements Schedule.
func (s *Pulled) Drop(worker, chunk int) {
	s.events++
	s.taken[worker*s.words+chunk>>6] &^= 1 << (chunk & 63)
	s.loads[worker]--
	v := &s.speeds[worker]
	v.queue = slices.DeleteFunc(v.queue, func(c int32) bool { return c == int32(chunk) })
	s.cover[chunk]--
	s.open.Remove(worker, chunk)
	if s.ranks[chunk] != Over {
		s.rank(chunk)
	}
}
