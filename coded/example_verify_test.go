package coded_test

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
)

// product computes F X.
func product(f, x coded.Tensor) coded.Tensor {
	y := coded.NewTensor(f.Shape[0], x.Shape[1])
	for i := range f.Shape[0] {
		for j := range x.Shape[1] {
			for l := range f.Shape[1] {
				y.Data[i*x.Shape[1]+j] += f.Data[i*f.Shape[1]+l] * x.Data[l*x.Shape[1]+j]
			}
		}
	}
	return y
}

// Two of six workers lie. Freivalds' test finds them, and the other four decode.
func ExampleDecoder_Screen() {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 6, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := coded.Tensor{Shape: []int{4, 2}, Data: []float32{1, 2, 3, 4, 5, 6, 7, 8}}
	x := coded.Tensor{Shape: []int{2, 1}, Data: []float32{1, -1}}
	blocks, rng := coded.Blocks(4, code.K()), rand.New(rand.NewPCG(1, 2))

	verifiers := make([]*coded.Verifier, code.N())
	var given []coded.TaskResults
	for slot := range verifiers {
		f := coded.NewTensor(blocks.Size, 2)
		if err := coded.EncodeRows(f, code.Row(slot), a, blocks); err != nil {
			fmt.Println(err)
			return
		}
		if verifiers[slot], err = coded.NewVerifier(coded.FX, 10, rng, f); err != nil {
			fmt.Println(err)
			return
		}
		y := product(f, x)
		if slot == 1 || slot == 4 {
			y.Data[0] += 0.5
		}
		given = append(given, coded.TaskResults{Task: slot, Results: []coded.Tensor{y}})
	}

	decoder := coded.NewDecoder(code, coded.DecoderConfig{})
	s, err := decoder.Screen(given, coded.CheckShape(1, 1), func(r coded.TaskResults) error {
		return verifiers[r.Task].Check(r.Results[0], x)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range s.Rejected {
		fmt.Println("rejected: task", r.Task)
	}
	y := coded.NewTensor(4, 1)
	if err := coded.DecodeRows(y, s.Weights.D, s.Results, blocks, 0); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n", y.Data)
	// Output:
	// rejected: task 1
	// rejected: task 4
	// [-1.0000 -1.0000 -1.0000 -1.0000]
}

// Without the operands, spare results tell which ones are wrong, as long as one more
// is to spare than are wrong.
func ExampleCode_Locate() {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 6, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The results are the coded blocks of four numbers.
	var given []coded.TaskResults
	for slot := range code.N() {
		y := coded.NewTensor(1)
		for j, g := range code.Row(slot) {
			y.Data[0] += float32(g) * float32(j+1)
		}
		given = append(given, coded.TaskResults{Task: slot, Results: []coded.Tensor{y}})
	}
	given[2].Results[0].Data[0] += 0.25
	loc, err := code.Locate(given, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("wrong: tasks %v; checks that the others pass: %d\n", loc.Wrong, loc.Spare)

	_, err = code.Locate(given[:5], 0) // one to spare
	var unknown *coded.LocateError
	fmt.Println(errors.As(err, &unknown), unknown)
	// Output:
	// wrong: tasks [2]; checks that the others pass: 1
	// true trigonometric (6,4): results of tasks [0 1 2 3 4] contradict each other: with 1 spare ones, tasks [0] may be wrong, or [1]
}
