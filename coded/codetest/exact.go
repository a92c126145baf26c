package codetest

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/exact"
	"github.com/coda-ml/coda/coded/field"
)

// exactSets bounds the sets that are decoded over each field.
const exactSets = 40

// exactDecoding runs jobs of small random matrices of integers over every field
// over which the code has a form, and compares what is decoded, from every set
// that decodes, with the outputs computed directly. A code that has no exact form
// at all fails the law of its threshold.
func (s *suite) exactDecoding() error {
	for _, p := range []field.Prime{field.Fermat, field.Mersenne31, field.Mersenne61} {
		code, err := exact.Of(s.code, p)
		if err != nil || s.code.Approximate() {
			continue
		}
		if err := s.exactDecodingOver(code, p); err != nil {
			return fmt.Errorf("modulo %d: %w", p, err)
		}
	}
	return nil
}

func (s *suite) exactDecodingOver(code *exact.Code, p field.Prime) error {
	a, b := s.integers(p, s.code.K()), s.integers(p, s.code.BBlocks())
	want, err := directOutputs(s.code, p, a, b)
	if err != nil {
		return err
	}
	results := make([][]exact.Matrix, code.N())
	for t := range results {
		if results[t], err = code.Run(t, a, b); err != nil {
			return err
		}
	}
	tracker, err := coded.NewExactTracker(s.code)
	if err != nil {
		return err
	}
	decoder := exact.NewDecoder(code, 0)
	for _, i := range s.rng.Perm(len(s.sets))[:min(exactSets, len(s.sets))] {
		set := s.sets[i]
		if len(set) == 0 || !exactlyReady(tracker, set) {
			continue
		}
		var answers []exact.Matrix
		for _, t := range set {
			answers = append(answers, results[t]...)
		}
		got, err := decoder.Decode(set, answers)
		if err != nil {
			return fmt.Errorf("tasks %v decode modulo %d: %w", set, field.Mersenne31, err)
		}
		for c := range want {
			if !slices.Equal(got[c].Data, want[c].Data) {
				return fmt.Errorf("tasks %v: output %d is %v, want %v", set, c, got[c].Data, want[c].Data)
			}
		}
	}
	return nil
}

// integers draws square matrices.
func (s *suite) integers(p field.Prime, count int) []exact.Matrix {
	out := make([]exact.Matrix, count)
	for i := range out {
		out[i] = exact.NewMatrix(2, 2)
		for j := range out[i].Data {
			out[i].Data[j] = s.rng.Uint64N(uint64(p))
		}
	}
	return out
}

// directOutputs computes the wanted sums of products of blocks.
func directOutputs(c *coded.Code, p field.Prime, a, b []exact.Matrix) ([]exact.Matrix, error) {
	out := make([]exact.Matrix, c.Outputs())
	for i, row := range c.Wanted() {
		out[i] = exact.NewMatrix(2, 2)
		for j, times := range row {
			if times == 0 {
				continue
			}
			product, err := exact.Product(p, a[j/len(b)], b[j%len(b)])
			if err != nil {
				return nil, err
			}
			for e, v := range product.Data {
				out[i].Data[e] = p.Add(out[i].Data[e], p.Mul(p.Int(int64(times)), v))
			}
		}
	}
	return out, nil
}
