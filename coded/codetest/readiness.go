package codetest

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/coda-ml/coda/coded"
)

// threshold decides the claims of the code in exact arithmetic.
func (s *suite) threshold() error {
	if s.code.Approximate() {
		return nil
	}
	exact, err := coded.NewExactTracker(s.code)
	if err != nil {
		return err
	}
	if all := s.draw(s.code.N()); !exactlyReady(exact, all) {
		return fmt.Errorf("all %d tasks do not decode", len(all))
	}
	k := s.code.Threshold()
	if k == 0 {
		return nil
	}
	for _, set := range s.sets {
		switch ready := exactlyReady(exact, set); {
		case len(set) >= k && !ready:
			return fmt.Errorf("tasks %v do not decode, any %d should", set, k)
		case len(set) < k && ready && s.code.MDS():
			return fmt.Errorf("tasks %v decode, fewer than %d of an MDS code should not", set, k)
		}
	}
	report, err := s.code.CheckThreshold(drawnSets, s.rng)
	switch {
	case err != nil:
		return err
	case report.Refuted != nil:
		return fmt.Errorf("tasks %v do not decode, any %d should", report.Refuted, k)
	case report.Tight == nil:
		return fmt.Errorf("the threshold is %d, but any %d tasks seem to decode", k, k-1)
	}
	return nil
}

func exactlyReady(exact *coded.ExactTracker, set []int) bool {
	exact.Reset()
	for _, t := range set {
		exact.Add(t)
	}
	return exact.Ready()
}

// readiness compares every way of asking whether a set decodes.
func (s *suite) readiness() error {
	exact, err := coded.NewExactTracker(s.code)
	if err != nil && s.code.Approximate() {
		return nil
	}
	if err != nil {
		return err
	}
	trackers := map[string]*coded.Tracker{
		"the tracker": coded.NewTracker(s.code), "the rank tracker": coded.NewRankTracker(s.code),
	}
	decoder := coded.NewDecoder(s.code, coded.DecoderConfig{})
	for _, set := range s.sets {
		want := exactlyReady(exact, set)
		if got := s.rank(set, true) == s.rank(set, false); got != want {
			return fmt.Errorf("tasks %v: ready by singular values is %t, exactly %t", set, got, want)
		}
		if _, err := decoder.Weights(set); errors.Is(err, coded.ErrTooFewResults) == want && !s.code.Approximate() {
			return fmt.Errorf("tasks %v: the decoder says %v, ready is %t", set, err, want)
		}
		for name, tracker := range trackers {
			for range orders {
				if err := s.agree(tracker, exact, s.shuffled(set)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// agree adds tasks to both trackers and compares what they say after each.
func (s *suite) agree(tracker *coded.Tracker, exact *coded.ExactTracker, order []int) error {
	tracker.Reset()
	exact.Reset()
	for i, t := range order {
		ready := exact.Ready()
		if got, want := tracker.Add(t), exact.Add(t); got != want && !ready {
			return fmt.Errorf("tasks %v: innovative is %t, exactly %t", order[:i+1], got, want)
		}
		if got, want := tracker.Ready(), exact.Ready(); got != want {
			return fmt.Errorf("tasks %v: ready is %t, exactly %t", order[:i+1], got, want)
		}
		if tracker.Add(t) {
			return fmt.Errorf("task %d is innovative when added again", t)
		}
		if tracker.Count() != i+1 || !tracker.Has(t) {
			return fmt.Errorf("tasks %v: count is %d, has(%d) is %t", order[:i+1], tracker.Count(), t, tracker.Has(t))
		}
	}
	return nil
}

// rank gives the rank of the rows of a set, with or without the wanted rows, by
// singular values.
func (s *suite) rank(set []int, wanted bool) int {
	var rows [][]float64
	for _, t := range set {
		rows = append(rows, s.code.Rows(t)...)
	}
	if wanted {
		rows = append(rows, s.code.Wanted()...)
	}
	if len(rows) == 0 {
		return 0
	}
	m := mat.NewDense(len(rows), len(rows[0]), nil)
	for i, row := range rows {
		m.SetRow(i, row)
	}
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDNone) {
		return -1
	}
	return svd.Rank(1e-9)
}
