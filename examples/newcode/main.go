// Newcode adds a code of one's own to the catalogue: single parity, whose last
// worker holds the sum of all blocks, so that any one worker may be lost.
//
//	go run ./examples/newcode
//
// A code is a partition and coefficients. That is all: decoding, the question
// whether enough answers are there, condition numbers, the conformance suite
// (main_test.go) and the simulator work from the same few lines.
package main

import (
	"errors"
	"fmt"
	"log"

	"github.com/coda-ml/coda/coded"
)

var parity = coded.Family{
	Name:  "parity",
	Doc:   "k blocks and their sum: any one of k+1 workers may be lost",
	Paper: "K.-H. Huang, J. A. Abraham, Algorithm-based fault tolerance for matrix operations, IEEE Trans. Computers 1984",
	Kind:  coded.Linear,
	Uses:  coded.UsesK,
	Define: func(s coded.Spec) (coded.Definition, error) {
		if s.N != s.K+1 {
			return coded.Definition{}, errors.New("n must be k+1")
		}
		d := coded.Definition{ABlocks: s.K, BBlocks: 1, Threshold: s.K, MDS: true}
		for worker := range s.N {
			row := make([]float64, s.K)
			for j := range row {
				if worker == j || worker == s.K {
					row[j] = 1
				}
			}
			d.Tasks = append(d.Tasks, coded.Task{A: [][]float64{row}, B: [][]float64{{1}}})
		}
		return d, nil
	},
	Examples: []coded.Spec{{Name: "parity", N: 5, K: 4}, {Name: "parity", N: 13, K: 12}},
}

func main() {
	if err := coded.Register(parity); err != nil {
		log.Fatal(err)
	}
	code, err := coded.New(coded.Spec{Name: "parity", N: 5, K: 4})
	if err != nil {
		log.Fatal(err)
	}
	weights, err := coded.NewDecoder(code, coded.DecoderConfig{}).Weights([]int{0, 1, 3, 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("worker 2 is lost: its block is %.2g times the others' answers\n", weights.Row(2))
}
