// Package shard holds what a worker computes for a layer of a network: coded
// pieces of the layer's weights that are multiplied and trained in place.
//
// A fully connected layer with weight W (in x out here; stored out x in) and a
// one-sided code with generator G, n x k, gives the worker at slot i two coded
// copies of the weights,
//
//	F_i = sum_j G_ij W_j    over k blocks W_j of output features (columns)
//	R_i = sum_j G_ij W^j    over k blocks W^j of input features (rows)
//
// with blocks padded by zeros to equal size, and the products
//
//	forward   X F_i      any k of them decode Y  = X W   = [Y_1 .. Y_k]
//	backward  dY R_i^T   any k of them decode dX = dY W^T
//	update    dF_i = X^T (sum_j G_ij dY_j),  dR_i = (sum_j G_ij X_j)^T dY
//
// The gradient is made from operands that the worker has seen already, and a
// linear optimiser commutes with G: so the weights are trained without ever
// leaving the workers (after Dutta, Bai, Low and Grover, "CodeNet: training
// large scale neural networks in presence of soft-errors", 2019). The first
// layer of a network, whose dX nobody wants, keeps no R.
//
// The gradient is computed part by part while a worker has nothing else to do, and
// what is not done when the update comes is done with it, without going through memory
// (see coded.DeferringShard): the bits are the same.
//
// A convolution is the same with * for the product: F_i combines blocks of output
// channels and R_i blocks of input channels, within each group, so that both are
// weights of smaller convolutions. A chunk of a product is some columns (channels) of
// the shard or, where the weights are smaller than the operand, some samples.
//
// Stacked holds several coded blocks of outputs, whose results decode together with
// those of others once there are enough, whoever finished them: for comparing codes
// in which unfinished work counts. It is not trained.
//
// Batch and Gradient are the shards of layers whose batch is coded, X_i = sum_j G_ij
// X_j over k blocks of samples, and whose workers all have the whole weights:
//
//	forward   X_i W, backward  dY_i W^T   any k decode Y and dX
//	gradient  X_i^T dY_i                  a sum of products: dW, from min(n, 2k-1)
//
// Shipped is that of layers of which both factors of every product are coded and sent,
// with any code for C = A B: A in m x p blocks, B in p x q.
//
// A worker process builds its shards through a table of factories; what
// follows computes two rows of a layer at slot 0:
//
//	raw, err := shard.LinearConfig{In: 784, Out: 100}.Marshal()
//	...
//	layer := coded.Layer{Name: "fc1", Kind: shard.KindLinear, Config: raw,
//		Code: coded.Spec{Name: "trigonometric", N: 6, K: 4}, Chunks: 5}
//	s, err := shard.Factories()[layer.Kind](layer, 0)
//	...
//	y, err := s.Multiply(coded.Forward, coded.NewTensor(2, 784), 3) // columns 15 to 20 of 25
//
// Followers, by [Followers], know sums of the weights with secret signs and tell
// from them whether answers and states are right (Freivalds' test), without any shard.
// They follow the momenta as well, which they need, but do not test them: a wrong
// momentum is found by the weights that come of it. Where both factors of a product
// are sent, shipped layers and gradients over coded batches, there is nothing to follow:
// an answer is tested with the factors (see [PairFollower]).
//
// [Local] runs all shards of a code in one process: a coded.Executor for tests,
// for examples and for trying codes on one machine.
//
// Invariants: every tensor of a shard's state is the combination with the
// slot's coefficients of the same blocks of weights and momenta, up to rounding
// (about 1e-6 of the largest entry after thousands of updates). After the first
// step with a batch size, a shard allocates nothing for batches up to it. Not
// guaranteed: bit-equality with an uncoded layer. A shard and a Local are used by
// one goroutine at a time; the rest is safe for concurrent use.
package shard
