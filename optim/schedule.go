package optim

import (
	"fmt"
	"math"
)

// Schedule gives the learning rate of a training step; steps count from 1.
type Schedule func(step int) float64

// Constant is the same learning rate at every step.
func Constant(lr float64) Schedule {
	return func(int) float64 { return lr }
}

// Step multiplies the learning rate by gamma after every so many steps:
//
//	lr * gamma^floor((step-1)/every)
func Step(lr float64, every int, gamma float64) (Schedule, error) {
	var problems []string
	if p := rateProblem(lr); p != "" {
		problems = append(problems, p)
	}
	if every < 1 {
		problems = append(problems, fmt.Sprintf("every %d steps, want at least 1", every))
	}
	if !within(gamma, math.Inf(1)) {
		problems = append(problems, fmt.Sprintf("gamma %v, want a finite number of at least 0", gamma))
	}
	if err := invalid("step schedule", problems); err != nil {
		return nil, err
	}
	return func(step int) float64 {
		return lr * math.Pow(gamma, float64(max(step-1, 0)/every))
	}, nil
}

// Cosine falls from lr to floor along half a cosine (Loshchilov and Hutter,
// "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, eq. 5)
//
//	floor + (lr-floor) * (1 + cos(pi*(step-1)/steps)) / 2
//
// and stays at floor after so many steps.
func Cosine(lr, floor float64, steps int) (Schedule, error) {
	var problems []string
	if p := rateProblem(lr); p != "" {
		problems = append(problems, p)
	}
	if !(floor >= 0 && floor <= lr) {
		problems = append(problems, fmt.Sprintf("floor %v, want a number from 0 to the learning rate %v", floor, lr))
	}
	if steps < 1 {
		problems = append(problems, fmt.Sprintf("%d steps, want at least 1", steps))
	}
	if err := invalid("cosine schedule", problems); err != nil {
		return nil, err
	}
	return func(step int) float64 {
		t := min(max(step-1, 0), steps)
		return floor + (lr-floor)*(1+math.Cos(math.Pi*float64(t)/float64(steps)))/2
	}, nil
}
