package optim_test

import (
	"fmt"

	"github.com/coda-ml/coda/optim"
)

// Minimise (w-3)^2 by gradient descent with momentum.
func Example() {
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.1), Momentum: 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := []float32{0}
	grad := []float32{0}
	params := []optim.Param{{Name: "w", Value: w, Grad: grad}}
	for step := 1; step <= 60; step++ {
		grad[0] = 2 * (w[0] - 3)
		if err := sgd.Step(step, params); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%.4f\n", w[0])
	// Output: 3.0000
}
