// Package kernel holds the float32 kernels of Coda: products, convolution,
// pooling, element-wise functions, sums and the optimisers' steps.
//
//	pool := kernel.NewPool(runtime.GOMAXPROCS(0))
//	defer pool.Close()
//	// y = x * w^T + bias, then ReLU: x is batch x in, w is out x in.
//	kernel.Gemm(pool, false, true, batch, out, in, 1, x, in, w, in, 0, y, out)
//	kernel.AddBiasReLU(y, out, batch, bias)
//	// dw = dy^T * x, summed onto what dw holds.
//	kernel.Gemm(pool, true, false, out, in, batch, 1, dy, out, x, in, 1, dw, in)
//
// # Products
//
// Gemm follows Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (ACM TOMS 34, 2008): a micro-kernel in assembly keeps a tile
// of C in registers and reads panels of A and B that lie in the caches. The
// kernels are chosen when the program starts: AVX-512, AVX2 with FMA, or Go. The
// build tag noasm leaves only Go.
//
// A product of a batch of few rows by the transpose of a large matrix, as a layer's
// weights are, is computed the other way round: the weights are read where they lie.
//
// GemmSGD makes a step of SGD whose gradient is a product, tile by tile, while the
// products hide the time that memory takes for weights and velocities.
//
// # Convolutions
//
// A convolution and both of its gradients are matrix products in which one
// factor is read in place from the padded tensor (after Dukhan, "The indirect
// convolution algorithm", arXiv:1907.02129), so that no im2col matrix is
// written. Vectors run over output channels: tiles of the result are computed
// channels last and transposed when they are stored.
//
//	y[n,o,i,j] = bias[o] + sum over c,p,q of w[o,c,p,q] * x[n, c, i*s-pad+p*d, j*s-pad+q*d]
//
// ConvForward, ConvBackwardInput and ConvBackwardParams take any stride,
// padding, dilation and groups. The gradient of the weights is summed over
// parts of the batch that depend on the geometry alone.
//
// Kernels of 3 x 3 with stride 1 between many channels are computed by Winograd's
// F(2x2, 3x3), with less than half of the products. Where a group has few result
// channels, as in depthwise convolutions, they are computed plane by plane.
//
// # Combinations
//
// CombineAll makes several weighted sums of the same inputs, as encoding and
// decoding do, in one pass: tile by tile, each input is read from memory once.
// Inputs whose tiles would evict each other are copied, a tile ahead of the sums.
//
// # Layers
//
// Batch normalisation takes ReLU and the sum with a residual along: a forward
// pass reads its inputs once from memory and once from a cache, and writes once.
// Means and variances are merged block by block in float64. Activations are
// computed by range reduction and minimax polynomials, within about two units in
// the last place.
//
// # Determinism
//
// Every function gives the same bits however many goroutines compute and
// whatever they do besides. The vector kernels give the same bits on every
// processor as well; products and what is built on them give the same bits with
// AVX-512 and AVX2 but not with the portable kernels, which round each product.
//
// # Safety
//
// Slices that are too short, and lengths that differ, panic before assembly is
// entered and before anything is written: the package trusts its callers, which
// validate shapes, but never writes outside a slice. Different goroutines may
// call every function at the same time as long as what they write is not shared.
// Nothing is allocated in steady state; the buffers for packed panels are kept
// for the next call, some megabytes a product under way.
package kernel
