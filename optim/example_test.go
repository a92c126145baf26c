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

// Warm up for five steps, then fall; leave biases out of weight decay.
func ExampleNew() {
	lr, _, err := optim.NewSchedule("cosine", optim.ScheduleConfig{LR: 0.4, Steps: 105, WarmUp: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	adamw, err := optim.New("adamw", optim.Config{LR: lr, Decay: 0.01, Groups: []optim.Group{{Match: "*.bias", NoDecay: true}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	w, bias := []float32{1}, []float32{1}
	if err := adamw.Step(6, []optim.Param{
		{Name: "fc.weight", Value: w, Grad: []float32{0}}, {Name: "fc.bias", Value: bias, Grad: []float32{0}},
	}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lr(1), lr(6), lr(56), w, bias)
	// Output: 0 0.4 0.2 [0.996] [1]
}

// Train with the weights, evaluate with their moving average.
func ExampleEMA_With() {
	ema, err := optim.NewEMA(optim.EMAConfig{Decay: 0.5})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := []float32{0}
	params := []optim.Param{{Name: "w", Value: w}}
	for range 3 {
		w[0] += 4 // an optimiser's step
		if err := ema.Update(params); err != nil {
			fmt.Println(err)
			return
		}
	}
	err = ema.With(params, func() error {
		fmt.Println("evaluated with", w)
		return nil
	})
	fmt.Println("goes on with", w, err)
	// Output:
	// evaluated with [9]
	// goes on with [12] <nil>
}
