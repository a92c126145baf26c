package optim

// Then follows one schedule for so many steps, and another one from its
// beginning after that.
func Then(first Schedule, steps int, next Schedule) (Schedule, error) {
	var p problems
	p.want(first != nil && next != nil, "want two schedules")
	p.steps(steps)
	if err := p.err("schedule after another"); err != nil {
		return nil, err
	}
	return func(step int) float64 {
		if step <= steps {
			return first(step)
		}
		return next(step - steps)
	}, nil
}

// WarmUp rises linearly for so many steps, from a part of the first rate of the
// schedule that follows to that rate, and then follows that schedule from its
// beginning (Goyal et al., "Accurate, large minibatch SGD: training ImageNet in
// 1 hour", 2017, section 2.2). With i = step-1:
//
//	then(1) * (from + (1-from)*i/steps)  while i < steps
func WarmUp(from float64, steps int, then Schedule) (Schedule, error) {
	var p problems
	p.want(from >= 0 && from <= 1, "first part %v, want from 0 to 1", from)
	p.steps(steps)
	p.schedule(then)
	if err := p.err("warm-up"); err != nil {
		return nil, err
	}
	return Then(func(step int) float64 {
		return then(1) * (from + (1-from)*float64(max(step-1, 0))/float64(steps))
	}, steps, then)
}

// Every makes a schedule that counts epochs of one that counts steps: it
// advances after every so many steps.
func Every(steps int, epochs Schedule) (Schedule, error) {
	var p problems
	p.want(epochs != nil, "want a schedule")
	p.steps(steps)
	if err := p.err("schedule of epochs"); err != nil {
		return nil, err
	}
	return func(step int) float64 { return epochs(1 + max(step-1, 0)/steps) }, nil
}
