package optim

import (
	"math"
	"slices"
)

// Schedule gives the learning rate of a training step; steps count from 1. A
// step before the first counts as the first.
type Schedule func(step int) float64

// Constant is the same learning rate at every step.
func Constant(lr float64) Schedule {
	return func(int) float64 { return lr }
}

// Step multiplies the learning rate by gamma after every so many steps:
//
//	lr * gamma^floor((step-1)/every)
func Step(lr float64, every int, gamma float64) (Schedule, error) {
	var p problems
	p.rate(lr)
	p.want(every >= 1, "every %d steps, want at least 1", every)
	p.atLeastZero("gamma", gamma)
	if err := p.err("step schedule"); err != nil {
		return nil, err
	}
	return func(step int) float64 {
		return lr * math.Pow(gamma, float64(max(step-1, 0)/every))
	}, nil
}

// MultiStep multiplies the learning rate by gamma after each of the given
// numbers of steps, which increase.
func MultiStep(lr float64, milestones []int, gamma float64) (Schedule, error) {
	var p problems
	p.rate(lr)
	for i, m := range milestones {
		p.want(m >= 1 && (i == 0 || m > milestones[i-1]), "milestone %d is %d, want numbers from 1 on that increase", i+1, m)
	}
	p.atLeastZero("gamma", gamma)
	if err := p.err("multi-step schedule"); err != nil {
		return nil, err
	}
	milestones = slices.Clone(milestones)
	return func(step int) float64 {
		passed, _ := slices.BinarySearch(milestones, step) // those of at most step-1
		return lr * math.Pow(gamma, float64(passed))
	}, nil
}

// Exponential multiplies the learning rate by gamma after every step:
//
//	lr * gamma^(step-1)
func Exponential(lr, gamma float64) (Schedule, error) {
	var p problems
	p.rate(lr)
	p.atLeastZero("gamma", gamma)
	if err := p.err("exponential schedule"); err != nil {
		return nil, err
	}
	return func(step int) float64 { return lr * math.Pow(gamma, float64(max(step-1, 0))) }, nil
}

// Cosine falls from lr to floor along half a cosine (Loshchilov and Hutter,
// "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, eq. 5)
//
//	floor + (lr-floor) * (1 + cos(pi*(step-1)/steps)) / 2
//
// and stays at floor after so many steps.
func Cosine(lr, floor float64, steps int) (Schedule, error) {
	var p problems
	p.rate(lr)
	p.want(floor >= 0 && floor <= lr, "floor %v, want a number from 0 to the learning rate %v", floor, lr)
	p.steps(steps)
	if err := p.err("cosine schedule"); err != nil {
		return nil, err
	}
	return func(step int) float64 {
		return cosineBetween(lr, floor, float64(min(max(step-1, 0), steps))/float64(steps))
	}, nil
}

// cosineBetween goes from a to b along half a cosine as x goes from 0 to 1.
func cosineBetween(a, b, x float64) float64 { return b + (a-b)*(1+math.Cos(math.Pi*x))/2 }

// lineBetween goes from a to b along a straight line as x goes from 0 to 1.
func lineBetween(a, b, x float64) float64 { return a + (b-a)*x }

// OneCycleConfig is the configuration of OneCycle. Where it says so, zero means
// PyTorch's default.
type OneCycleConfig struct {
	Peak     float64 // highest learning rate
	Steps    int     // of the whole cycle
	Rise     float64 // part of the steps in which the rate rises, at most 1; 0 means 0.3
	Div      float64 // the first rate is Peak/Div, at least 1; 0 means 25
	FinalDiv float64 // the last rate is Peak/Div/FinalDiv, at least 1; 0 means 10000
	Linear   bool    // along straight lines: anneal_strategy "linear" there
}

// OneCycle rises from Peak/Div to Peak and falls to Peak/Div/FinalDiv, both along
// half a cosine or a straight line (Smith and Topin, "Super-convergence: very
// fast training of neural networks using large learning rates", 2018, in
// PyTorch's form). With i = step-1, the peak is at i = Rise*Steps - 1, the end at
// i = Steps - 1, after which the rate stays. For the momentum see CycleMomentum.
func OneCycle(c OneCycleConfig) (Schedule, error) {
	orDefault(&c.Div, 25)
	orDefault(&c.FinalDiv, 1e4)
	p := c.problems()
	p.rate(c.Peak)
	p.want(c.Div >= 1 && finite(c.Div), "div %v, want a finite number of at least 1", c.Div)
	p.want(c.FinalDiv >= 1 && finite(c.FinalDiv), "final div %v, want a finite number of at least 1", c.FinalDiv)
	if err := p.err("one-cycle schedule"); err != nil {
		return nil, err
	}
	return c.through(c.Peak/c.Div, c.Peak, c.Peak/c.Div/c.FinalDiv), nil
}

// CycleMomentum is the momentum that goes with the rate of OneCycle: it falls
// from high to low while the rate rises and rises to high while the rate falls
// (Smith, "A disciplined approach to neural network hyper-parameters", 2018,
// section 4.2; in PyTorch from 0.95 to 0.85). Of c only Steps, Rise and Linear
// count.
func CycleMomentum(c OneCycleConfig, high, low float64) (Schedule, error) {
	p := c.problems()
	p.within("momentum", high, 1)
	p.want(low >= 0 && low <= high, "momentum down to %v, want from 0 to the highest, %v", low, high)
	if err := p.err("one-cycle momentum"); err != nil {
		return nil, err
	}
	return c.through(high, low, high), nil
}

// problems sets the default of Rise and finds what is wrong with the cycle itself.
func (c *OneCycleConfig) problems() problems {
	orDefault(&c.Rise, 0.3)
	var p problems
	p.steps(c.Steps)
	p.want(c.Rise > 0 && c.Rise <= 1, "rise %v, want a part of the steps above 0, at most 1", c.Rise)
	return p
}

// through is the cycle from one value through another, at the peak of the rate,
// to a last one.
func (c OneCycleConfig) through(first, peak, last float64) Schedule {
	between := cosineBetween
	if c.Linear {
		between = lineBetween
	}
	top, end := max(0, c.Rise*float64(c.Steps)-1), float64(c.Steps-1)
	return func(step int) float64 {
		switch i := min(max(float64(step-1), 0), end); {
		case i < top:
			return between(first, peak, i/top)
		case i == top: // it may be the end as well
			return peak
		default:
			return between(peak, last, (i-top)/(end-top))
		}
	}
}
