package coded_test

import (
	"errors"
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// A product over six workers, of which any four are enough.
func Example() {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 6, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := coded.Tensor{Shape: []int{6, 2}, Data: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	x := []float32{1, -1}
	blocks := coded.Blocks(6, code.K()) // of two rows; the last one is empty

	// What the workers hold, and what those that answer compute.
	have := []int{0, 2, 3, 5}
	var results []coded.Tensor
	for _, slot := range have {
		f := coded.NewTensor(blocks.Size, 2)
		if err := coded.EncodeRows(f, code.Row(slot), a, blocks); err != nil {
			fmt.Println(err)
			return
		}
		y := coded.NewTensor(blocks.Size, 1)
		for i := range y.Data {
			y.Data[i] = f.Data[2*i]*x[0] + f.Data[2*i+1]*x[1]
		}
		results = append(results, y)
	}

	decoder := coded.NewDecoder(code, coded.DecoderConfig{})
	w, err := decoder.Weights(have)
	if err != nil {
		fmt.Println(err)
		return
	}
	y := coded.NewTensor(6, 1)
	if err := coded.DecodeRows(y, w.D, results, blocks, 0); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n", y.Data)
	// Output: [-1.0000 -1.0000 -1.0000 -1.0000 -1.0000 -1.0000]
}

// A replicated job is ready when there is a copy of every block, which a count
// does not tell.
func ExampleTracker() {
	code, err := coded.New(coded.Spec{Name: "replication", N: 6, K: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	tracker := coded.NewTracker(code)
	for _, task := range []int{4, 1, 0, 3, 5} {
		innovative := tracker.Add(task)
		fmt.Printf("task %d holds block %d: new %t, ready %t\n", task, task%3, innovative, tracker.Ready())
	}
	// Output:
	// task 4 holds block 1: new true, ready false
	// task 1 holds block 1: new false, ready false
	// task 0 holds block 0: new true, ready false
	// task 3 holds block 0: new false, ready false
	// task 5 holds block 2: new true, ready true
}

// Too few results give the best estimate, and say how wrong it is.
func ExampleDecoder_Weights() {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 8, K: 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	decoder := coded.NewDecoder(code, coded.DecoderConfig{MaxCond: 5})
	for _, have := range [][]int{{0, 1, 2, 4, 6}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5, 6}} {
		w, err := decoder.Weights(have)
		switch {
		case errors.Is(err, coded.ErrTooFewResults):
			fmt.Printf("%v; best estimate: error %.2f\n", err, w.Residual)
		case errors.Is(err, coded.ErrIllConditioned):
			fmt.Println(err)
		default:
			fmt.Printf("%d results: condition number %.1f\n", len(have), w.Cond)
		}
	}
	// Output:
	// trigonometric (8,6): too few results: 5, any 6 are enough: 4 of 6 outputs cannot be decoded (residual 0.167); best estimate: error 0.17
	// trigonometric (8,6): results [0 1 2 3 4 5] are ill-conditioned: condition number 7.25, limit 5
	// 7 results: condition number 2.0
}

// A lost slot is a combination of the others.
func ExampleCode_Repair() {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 4, K: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	donors, weights, amplification, err := code.Repair(1, []int{0, 2, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("slot 1 = %.2f times slots %v, amplification %.2f\n", weights, donors, amplification)
	// Output: slot 1 = [1.00 1.00 -1.00] times slots [0 2 3], amplification 1.73
}

func ExampleBlocks() {
	p := coded.Blocks(10, 4)
	for j := range p.K {
		lo, hi := p.Bounds(j)
		fmt.Printf("[%d,%d) ", lo, hi)
	}
	fmt.Println("of size", p.Size)
	// Output: [0,3) [3,6) [6,9) [9,10) of size 3
}
