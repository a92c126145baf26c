// Package optim holds optimisers and learning rate schedules. They work on
// named flat slices and know nothing of graphs, layers or clusters.
//
//	lr, err := optim.Cosine(0.05, 0, steps)
//	...
//	sgd, err := optim.NewSGD(optim.SGDConfig{LR: lr, Momentum: 0.9, Decay: 5e-4, Nesterov: true})
//	...
//	for step := 1; step <= steps; step++ {
//		// fill the gradients
//		if err := sgd.Step(step, params); err != nil {
//			return err
//		}
//	}
//
// Steps are numbered from 1 everywhere: in [Schedule], in [Optimizer] and in
// [coded.Update]. The updates are PyTorch's. SGD with g = grad + decay*w:
//
//	v = momentum*v + g
//	w -= lr * (g + momentum*v if Nesterov, else v)
//
// (Sutskever et al., "On the importance of initialization and momentum in deep
// learning", ICML 2013), and Adam with t updates made, g as above:
//
//	m = b1*m + (1-b1)*g;  s = b2*s + (1-b2)*g*g
//	w -= lr/(1-b1^t) * m / (sqrt(s/(1-b2^t)) + eps)
//
// (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015).
//
// An optimiser's state starts at zero for a parameter that it has not seen, so
// the first step of SGD gives v = g. A step that fails changes nothing. After
// the first step an optimiser allocates no memory.
//
// A layer whose weights live on workers in coded form can only be updated by a
// linear map of weights, momenta and gradients: [Optimizer.Linear] gives the
// update of each step as plain data, or an error of type [*NotLinearError].
//
// An optimiser is used by one goroutine at a time; schedules are pure functions.
package optim
