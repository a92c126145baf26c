package codetest

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/coda-ml/coda/coded"
)

const (
	lieRounds = 6 // liars that are tried, one at a time
	lieSize   = 4 // rows and columns of the results
)

// lies lets one task after another return something else in all that it returns, and
// looks for it with what the others say.
func (s *suite) lies() error {
	a, b := s.matrices(s.code.K(), lieSize, 3), s.matrices(s.code.BBlocks(), 3, lieSize)
	given := make([]coded.TaskResults, s.code.N())
	for t := range given {
		given[t] = coded.TaskResults{Task: t, Results: tensors(run(s.code.Task(t), a, b))}
	}
	truth, err := s.code.Locate(given, 0)
	if err != nil || truth.Wrong != nil {
		return fmt.Errorf("honest results: %+v, error %v", truth, err)
	}
	for _, liar := range s.rng.Perm(s.code.N())[:min(lieRounds, s.code.N())] {
		if err := s.lie(given, liar, slices.Contains(truth.Unchecked, liar)); err != nil {
			return fmt.Errorf("task %d lies: %w", liar, err)
		}
	}
	return nil
}

func (s *suite) lie(given []coded.TaskResults, liar int, unchecked bool) error {
	bad := slices.Clone(given)
	bad[liar].Results = tensors(s.matrices(len(given[liar].Results), lieSize, lieSize))
	loc, err := s.code.Locate(bad, 0)
	spare := s.code.N() - s.code.Threshold()
	switch {
	case err != nil && !errors.As(err, new(*coded.LocateError)):
		return err
	case err != nil && s.code.MDS() && spare >= 2:
		return fmt.Errorf("with %d tasks to spare: %w", spare, err)
	case err == nil && loc.Wrong == nil && (!unchecked || s.code.MDS() && spare >= 1):
		return errors.New("nobody notices")
	case err == nil && loc.Wrong != nil && !slices.Equal(loc.Wrong, []int{liar}):
		return fmt.Errorf("tasks %v are blamed", loc.Wrong)
	}
	return nil
}

// tensors gives matrices in float32.
func tensors(ms []*mat.Dense) []coded.Tensor {
	out := make([]coded.Tensor, len(ms))
	for i, m := range ms {
		out[i] = coded.NewTensor(m.Dims())
		for j, v := range m.RawMatrix().Data {
			out[i].Data[j] = float32(v)
		}
	}
	return out
}
