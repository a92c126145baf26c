package coded_test

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// A line is fitted to data in ten parts on five workers, two of which are late in
// every step. Each worker knows six parts, and the three answers that are there give
// the gradient of all ten as if nobody were missing.
func Example_gradientCoding() {
	code, err := coded.New(coded.Spec{Name: "cyclic-reed-solomon", N: 5, K: 10, Load: 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	decoder := coded.NewDecoder(code, coded.DecoderConfig{})
	line := []float32{0, 0} // slope and intercept; the data are of y = 2x - 1
	for step := range 60 {
		have := []int{step % 5, (step + 1) % 5, (step + 3) % 5} // who answers
		w, err := decoder.Weights(have)
		if err != nil {
			fmt.Println(err)
			return
		}
		var results []coded.Tensor
		for _, worker := range w.Have {
			result := coded.NewTensor(2)
			if err := coded.EncodeGradients(result, code.Rows(worker)[0], lineGradients(code.Parts(worker), code.K(), line)); err != nil {
				fmt.Println(err)
				return
			}
			results = append(results, result)
		}
		gradient := coded.NewTensor(2)
		if err := coded.DecodeGradients(gradient, w.D, results); err != nil {
			fmt.Println(err)
			return
		}
		for i, g := range gradient.Data {
			line[i] -= 0.1 * g
		}
	}
	fmt.Printf("y = %.3fx %+.3f\n", line[0], line[1])
	// Output: y = 2.000x -1.000
}

// lineGradients is what a worker computes: the gradients of the squared errors over
// the parts that it knows, half a point apart; the others stay empty.
func lineGradients(known []int, parts int, line []float32) []coded.Tensor {
	gradients := make([]coded.Tensor, parts)
	for _, p := range known {
		x := float32(p)/4 - 1
		e := line[0]*x + line[1] - (2*x - 1)
		gradients[p] = coded.Tensor{Shape: []int{2}, Data: []float32{e * x, e}}
	}
	return gradients
}

// Workers of unequal speed know parts in proportion, so that they are done together.
func ExampleNewHeterogeneous() {
	code, err := coded.NewHeterogeneous(20, []float64{1, 1, 2, 4}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for w := range code.N() {
		fmt.Printf("worker %d knows %d parts\n", w, len(code.Parts(w)))
	}
	fmt.Println("any", code.Threshold(), "are enough")
	// Output:
	// worker 0 knows 5 parts
	// worker 1 knows 5 parts
	// worker 2 knows 10 parts
	// worker 3 knows 20 parts
	// any 3 are enough
}

// With some answers missing, fractional repetition leaves out the parts that nobody
// sent, and says how much of the gradient that is.
func ExampleDecoder_Weights_gradients() {
	code, err := coded.New(coded.Spec{Name: "fractional-repetition", N: 6, K: 6, Load: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	decoder := coded.NewDecoder(code, coded.DecoderConfig{})
	for _, have := range [][]int{{0, 1, 2, 4}, {0, 1, 3}} {
		w, err := decoder.Weights(have)
		fmt.Printf("%.1f: amplification %.2f, error %.2f, %v\n", w.Row(0), w.Amplification(), w.Residual, err)
	}
	// Output:
	// [1.0 0.5 1.0 0.5]: amplification 1.58, error 0.00, <nil>
	// [0.5 1.0 0.5]: amplification 1.22, error 0.33, fractional-repetition (6,6): too few results: 3, any 5 are enough: 1 of 1 outputs cannot be decoded (residual 0.333)
}
