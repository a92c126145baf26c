package exact_test

import (
	"fmt"

	"github.com/coda-ml/coda/coded/exact"
	"github.com/coda-ml/coda/coded/field"
)

// Any four of six workers give a product of large integers, whichever they are.
func Example() {
	const p = field.Mersenne61
	code, err := exact.Polynomial(p, 6, 2, 2)
	if err != nil {
		panic(err)
	}
	// A has two blocks of one row, B two blocks of one column.
	a := []exact.Matrix{{Rows: 1, Cols: 2, Data: []uint64{1000003, 7}}, {Rows: 1, Cols: 2, Data: []uint64{5, 999983}}}
	b := []exact.Matrix{{Rows: 2, Cols: 1, Data: []uint64{1000033, 0}}, {Rows: 2, Cols: 1, Data: []uint64{1, 1000003}}}
	var results []exact.Matrix
	have := []int{0, 2, 3, 5}
	for _, task := range have {
		r, err := code.Run(task, a, b)
		if err != nil {
			panic(err)
		}
		results = append(results, r...)
	}
	outputs, err := exact.NewDecoder(code, 0).Decode(have, results)
	if err != nil {
		panic(err)
	}
	for _, c := range outputs {
		fmt.Println(c.Data[0])
	}
	// Output:
	// 1000036000099
	// 8000024
	// 5000165
	// 999985999954
}
