package codetest

import (
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
)

// linearity encodes two sets of blocks of uneven sizes, and their sum.
func (s *suite) linearity() error {
	for t := range s.code.N() {
		task := s.code.Task(t)
		for _, row := range append(append([][]float64{}, task.A...), task.B...) {
			last := s.rng.IntN(3) // rows of the last block
			x, y := s.unevenBlocks(len(row), last), s.unevenBlocks(len(row), last)
			var sum []coded.Tensor
			for j := range x {
				both := coded.NewTensor(x[j].Shape...)
				for i := range both.Data {
					both.Data[i] = x[j].Data[i] + y[j].Data[i]
				}
				sum = append(sum, both)
			}
			var coding [3]coded.Tensor
			for i, blocks := range [][]coded.Tensor{x, y, sum} {
				coding[i] = coded.NewTensor(3, 2)
				if err := coded.Encode(coding[i], row, blocks); err != nil {
					return fmt.Errorf("task %d: %w", t, err)
				}
			}
			// 1e-5 is some 80 roundings of float32; the values are below 5.
			limit := 1e-5 * 5 * norm1(row)
			for i, v := range coding[2].Data {
				if e := math.Abs(float64(v - coding[0].Data[i] - coding[1].Data[i])); !(e <= limit) {
					return fmt.Errorf("task %d: the code of a sum is not the sum of the codes, by %.3g", t, e)
				}
			}
		}
	}
	return nil
}

// unevenBlocks gives random blocks of two columns and three rows, save the last
// one if there are several.
func (s *suite) unevenBlocks(count, last int) []coded.Tensor {
	blocks := make([]coded.Tensor, count)
	for j := range blocks {
		rows := 3
		if j > 0 && j == count-1 {
			rows = last
		}
		blocks[j] = coded.NewTensor(rows, 2)
		for i := range blocks[j].Data {
			blocks[j].Data[i] = float32(s.rng.NormFloat64())
		}
	}
	return blocks
}

func norm1(row []float64) float64 {
	var sum float64
	for _, v := range row {
		sum += math.Abs(v)
	}
	return sum
}
