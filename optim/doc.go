// Package optim holds optimisers and learning rate schedules. They work on
// named flat slices and know nothing of graphs, layers or clusters.
//
//	cosine, err := optim.Cosine(0.05, 0, steps-500)
//	...
//	lr, err := optim.WarmUp(0.1, 500, cosine)
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
// New and NewSchedule choose by name, for command lines.
//
// # Optimisers
//
// The updates are PyTorch's, operation for operation, for one parameter w with
// the gradient g = grad + decay*w at update t:
//
//	SGD       v = momentum*v + g
//	          w -= lr * (g + momentum*v if Nesterov, else v)
//	Adam      m = b1*m + (1-b1)*g;  s = b2*s + (1-b2)*g*g
//	          w -= lr/(1-b1^t) * m / (sqrt(s)/sqrt(1-b2^t) + eps)
//	AdamW     Adam with g = grad, after w *= 1 - lr*decay
//	AMSGrad   Adam with the largest s so far in the root
//	RMSProp   s = alpha*s + (1-alpha)*g*g;  d = g / (sqrt(s) + eps)
//	          v = momentum*v + d;  w -= lr * v
//	Adagrad   s += g*g;  w -= lr * g / (sqrt(s) + eps)
//	LAMB      u = Adam's m / (sqrt(s) + eps), corrected, with g = grad, + decay*w
//	          w -= lr * |w|/|u| * u
//
// SGD: Sutskever et al., "On the importance of initialization and momentum in
// deep learning", ICML 2013. Adam: Kingma and Ba, ICLR 2015. AdamW: Loshchilov
// and Hutter, "Decoupled weight decay regularization", ICLR 2019. AMSGrad: Reddi,
// Kale and Kumar, "On the convergence of Adam and beyond", ICLR 2018. RMSProp:
// Tieleman and Hinton, lecture 6.5, 2012. Adagrad: Duchi, Hazan and Singer, JMLR
// 12, 2011. LAMB: You et al., "Large batch optimization for deep learning:
// training BERT in 76 minutes", ICLR 2020, algorithm 2.
//
// Each can clip the gradients by their global norm (ClipNorm), give parameters
// settings of their own (Groups), and use several goroutines (Pool).
//
// # Schedules
//
// A schedule is a function of the step. Steps are numbered from 1 everywhere: in
// [Schedule], in [Optimizer] and in [coded.Update]. [WarmUp] and [Then] put
// schedules one after another, [Every] makes one of epochs one of steps, and a
// [Plateau] scales any by what it has observed.
//
// # Invariants
//
// An optimiser's state starts at zero for a parameter that it has not seen, so
// the first step of SGD gives v = g. A step that fails changes nothing. After
// the first step an optimiser allocates no memory. The result does not depend,
// to the bit, on the number of goroutines or on being saved and loaded between.
// A constructor's error lists every problem of its configuration.
//
// A layer whose weights live on workers in coded form can only be updated by a
// linear map of weights, momenta and gradients: [Optimizer.Linear] gives the
// update of each step as plain data, or an error of type [*NotLinearError].
//
// Not guaranteed: the same bits as PyTorch, which fuses some products and sums.
//
// An optimiser, an [EMA] or a [Plateau] is used by one goroutine at a time; other
// schedules are pure functions.
package optim
