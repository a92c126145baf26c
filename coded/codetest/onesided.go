package codetest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// repair checks that the combination of donors is the lost row of the generator.
func (s *suite) repair() error {
	if _, err := s.code.Generator(); err != nil {
		return nil
	}
	for _, set := range s.sets {
		for lost := range s.code.N() {
			if slices.Contains(set, lost) {
				continue
			}
			if err := s.repairOne(lost, set); err != nil {
				return fmt.Errorf("slot %d from slots %v: %w", lost, set, err)
			}
		}
	}
	return nil
}

func (s *suite) repairOne(lost int, fresh []int) error {
	donors, weights, amplification, err := s.code.Repair(lost, s.shuffled(fresh))
	if errors.Is(err, coded.ErrTooFewResults) && len(fresh) < s.enough() {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.IsSorted(donors) || len(donors) != len(weights) {
		return fmt.Errorf("donors %v with weights %v", donors, weights)
	}
	row := make([]float64, s.code.K())
	for i, d := range donors {
		if !slices.Contains(fresh, d) || weights[i] == 0 {
			return fmt.Errorf("donor %d with weight %g", d, weights[i])
		}
		for j, g := range s.code.Row(d) {
			row[j] += weights[i] * g
		}
	}
	for j, want := range s.code.Row(lost) {
		if math.Abs(row[j]-want) > 1e-12*max(1, amplification) {
			return fmt.Errorf("coefficient %d is %g, want %g", j, row[j], want)
		}
	}
	if math.Abs(amplification-norm(weights)) > 1e-12*amplification {
		return fmt.Errorf("amplification %g, the norm of the weights is %g", amplification, norm(weights))
	}
	return nil
}

// blocks sends tensors of uneven sizes, and smaller ones than there are blocks,
// through encoding and decoding, by rows and by columns.
func (s *suite) blocks() error {
	if _, err := s.code.Generator(); err != nil {
		return nil
	}
	k := s.code.K()
	if s.code.Approximate() {
		return nil
	}
	for _, total := range []int{0, 1, k - 1, k, k + 1, 2*k + 1, 3 * k} {
		for axis := range 2 {
			shape := []int{3, 3}
			shape[axis] = total
			x := coded.NewTensor(shape...)
			for i := range x.Data {
				x.Data[i] = float32(s.rng.NormFloat64())
			}
			set := s.draw(s.enough())
			if err := s.roundTrip(x, axis, set); err != nil {
				return fmt.Errorf("shape %v cut along %d, slots %v: %w", shape, axis, set, err)
			}
		}
	}
	return nil
}

func (s *suite) roundTrip(x coded.Tensor, axis int, set []int) error {
	encode, decode := coded.EncodeRows, coded.DecodeRows
	if axis == 1 {
		encode, decode = coded.EncodeColumns, coded.DecodeColumns
	}
	p := coded.Blocks(x.Shape[axis], s.code.K())
	var results []coded.Tensor
	for _, slot := range set {
		shape := slices.Clone(x.Shape)
		shape[axis] = p.Size
		f := coded.NewTensor(shape...)
		if err := encode(f, s.code.Row(slot), x, p); err != nil {
			return err
		}
		results = append(results, f)
	}
	w, err := coded.NewDecoder(s.code, noLimit).Weights(set)
	if err != nil {
		return err
	}
	got := coded.NewTensor(x.Shape...)
	for i := range got.Data {
		got.Data[i] = float32(math.NaN()) // every element must be written
	}
	if err := decode(got, w.D, results, p, 0); err != nil {
		return err
	}
	for i, v := range x.Data {
		// 1e-6 is some 16 roundings of float32; the values are below 5.
		if e := math.Abs(float64(got.Data[i] - v)); !(e <= 5e-6*max(1, w.Cond)) {
			return fmt.Errorf("element %d is %g, want %g (condition number %.3g)", i, got.Data[i], v, w.Cond)
		}
	}
	return nil
}
