package coded_test

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// A product of two matrices over 7 workers: A is cut into 1 x 2 blocks and B into
// 2 x 2. Two workers are lost.
func Example_bilinear() {
	code, err := coded.New(coded.Spec{Name: "entangled", N: 7, M: 1, P: 2, Q: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := coded.Tensor{Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}}
	b := coded.Tensor{Shape: []int{3, 3}, Data: []float32{1, 0, 2, 0, 1, 0, 2, 0, 1}}
	rows, inner, cols := coded.Blocks(2, 1), coded.Blocks(3, 2), coded.Blocks(3, 2)
	as, errA := coded.Grid{Rows: rows, Cols: inner}.Cut(a)
	bs, errB := coded.Grid{Rows: inner, Cols: cols}.Cut(b)
	if errA != nil || errB != nil {
		fmt.Println(errA, errB)
		return
	}

	// What each of the workers that answer is sent, and its product.
	var results []coded.Tensor
	have := []int{0, 1, 3, 5, 6}
	for _, task := range have {
		x, y := coded.NewTensor(rows.Size, inner.Size), coded.NewTensor(inner.Size, cols.Size)
		if err := coded.Encode(x, code.Task(task).A[0], as); err != nil {
			fmt.Println(err)
			return
		}
		if err := coded.Encode(y, code.Task(task).B[0], bs); err != nil {
			fmt.Println(err)
			return
		}
		results = append(results, multiply(x, y))
	}

	// Each block of C is a combination of the results.
	w, err := coded.NewDecoder(code, coded.DecoderConfig{}).Weights(have)
	if err != nil {
		fmt.Println(err)
		return
	}
	blocks := make([]coded.Tensor, code.Outputs())
	for out := range blocks {
		blocks[out] = coded.NewTensor(rows.Size, cols.Size)
		if err := coded.Encode(blocks[out], w.Row(out), results); err != nil {
			fmt.Println(err)
			return
		}
	}
	c := coded.NewTensor(2, 3)
	if err := (coded.Grid{Rows: rows, Cols: cols}).Assemble(c, blocks); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f\n", c.Data)
	// Output: [7.000 2.000 5.000 16.000 5.000 14.000]
}

func multiply(a, b coded.Tensor) coded.Tensor {
	c := coded.NewTensor(a.Shape[0], b.Shape[1])
	for i := range a.Shape[0] {
		for k := range a.Shape[1] {
			for j := range b.Shape[1] {
				c.Data[i*b.Shape[1]+j] += a.Data[i*a.Shape[1]+k] * b.Data[k*b.Shape[1]+j]
			}
		}
	}
	return c
}
