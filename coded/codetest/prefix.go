package codetest

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// prefix spreads results over the tasks at random, of each task the first ones,
// and asks in exact arithmetic whether they decode.
func (s *suite) prefix() error {
	claimed := s.code.Prefix()
	if claimed == 0 {
		return nil
	}
	chunks, err := s.code.Chunks()
	if err != nil {
		return err
	}
	exact, err := coded.NewExactTracker(chunks)
	if err != nil {
		return err
	}
	fewer := false // some pattern of one result less does not decode
	for range 4 * drawnSets {
		set, counts := s.drawPrefixes(claimed)
		if len(set) < claimed {
			return fmt.Errorf("%d results are claimed to decode, there are %d", claimed, len(set))
		}
		if !exactlyReady(exact, set) {
			return fmt.Errorf("the first %v results of the tasks do not decode, any %d should", counts, claimed)
		}
		set, _ = s.drawPrefixes(claimed - 1)
		fewer = fewer || !exactlyReady(exact, set)
	}
	if !fewer {
		return fmt.Errorf("any %d results are claimed to decode, but so do any %d", claimed, claimed-1)
	}
	return nil
}

// drawPrefixes lets tasks drawn at random give their next result until there are
// so many, or none are left. It returns the tasks of Chunks and each task's count.
func (s *suite) drawPrefixes(total int) (set, counts []int) {
	counts = make([]int, s.code.N())
	slow := s.rng.IntN(s.code.N() + 1) // tasks that never answer, if there are enough others
	open := s.rng.Perm(s.code.N())
	for len(set) < total && len(open) > 0 {
		i := s.rng.IntN(max(1, len(open)-slow))
		t := open[i]
		if counts[t] == s.code.Results(t) {
			open = append(open[:i], open[i+1:]...)
			slow = min(slow, max(0, len(open)-1))
			continue
		}
		set = append(set, s.code.Chunk(t, counts[t]))
		counts[t]++
	}
	return set, counts
}
