package schedule

// lastPulls looks ahead when no more results are missing than there are workers: whoever
// takes the chunk that is covered least may leave the last one to workers all of which
// have been given it, and then somebody is given one more than all others. It is asked
// which chunk leaves to the others something for each that is missing.
type lastPulls struct {
	owner   []int // by worker: the chunk that it is expected to take, -1 for none
	visited []bool
	tried   []bool // by chunk
}

// manyCells are so many pairs of workers and chunks that nobody looks ahead.
const manyCells = 512

// first returns the chunk that a worker takes: the first in the order of Next with which
// the others can do the rest, or the first one if there is none.
func (l *lastPulls) first(s *Pulled, worker, offset int) (chunk int, ok bool) {
	given := s.given(worker)
	chunk, ok = Next(s.ranks, offset, Enough, given)
	count, counts := s.open.(*Count)
	if !ok || !counts || s.workers*len(s.ranks) > manyCells || count.missing() > s.workers {
		return chunk, ok
	}
	l.tried = append(l.tried[:0], make([]bool, len(s.ranks))...)
	skip := func(c int) bool { return given(c) || l.tried[c] }
	for c := chunk; ok; c, ok = Next(s.ranks, offset, Enough, skip) {
		if l.leaves(s, count, c, worker) {
			return c, true
		}
		l.tried[c] = true
	}
	return chunk, true
}

// leaves tells whether, when a worker takes a chunk, the others can take one each such that
// nothing is missing: those that have been given no more than the worker has now. It is a
// matching, built one result at a time (H. W. Kuhn, The Hungarian method, 1955).
func (l *lastPulls) leaves(s *Pulled, count *Count, chunk, worker int) bool {
	l.owner, l.visited = l.owner[:0], l.visited[:0]
	for range s.workers {
		l.owner, l.visited = append(l.owner, -1), append(l.visited, false)
	}
	for c, have := range count.have {
		if c == chunk {
			have++
		}
		for range count.need - have {
			clear(l.visited)
			l.visited[worker] = true
			if !l.takes(s, c, s.loads[worker]) {
				return false
			}
		}
	}
	return true
}

// takes finds a worker with so many chunks at most for one more result of a chunk; others
// may take another one for it.
func (l *lastPulls) takes(s *Pulled, chunk, load int) bool {
	for w := range s.workers {
		if l.visited[w] || s.loads[w] > load || s.given(w)(chunk) {
			continue
		}
		l.visited[w] = true
		if l.owner[w] < 0 || l.takes(s, l.owner[w], load) {
			l.owner[w] = chunk
			return true
		}
	}
	return false
}
