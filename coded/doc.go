// Package coded holds codes for linear algebra: how to cut a product into more
// tasks than are needed, so that any sufficient set of their results gives it
// exactly. It is pure mathematics: no goroutine, clock, socket or log.
//
// # The idea
//
// Cut A into blocks A_1 .. A_k and give worker i of n the combination
//
//	F_i = sum_j G_ij A_j
//
// Since (sum_j G_ij A_j) X = sum_j G_ij (A_j X), what it computes, F_i X, is the
// same combination of the wanted products. If any k rows of G are independent,
// any k answers give all of A X (K. Lee, M. Lam, R. Pedarsani, D. Papailiopoulos,
// K. Ramchandran, "Speeding up distributed machine learning using codes", IEEE
// Trans. Information Theory 2018): nobody waits for the n-k slowest workers.
//
//	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 6, K: 4})
//	// worker i holds F_i, computed with code.Row(i) and coded.EncodeRows
//	tracker := coded.NewTracker(code)
//	for !tracker.Ready() {
//		tracker.Add(<-answered) // an answer's slot
//	}
//	w, err := coded.NewDecoder(code, coded.DecoderConfig{}).Weights(have)
//	err = coded.DecodeRows(y, w.D, results, coded.Blocks(rows, code.K()), 0)
//
// # One idea for every code
//
// A job is a bilinear map: blocks A_a, blocks B_b, and wanted outputs
//
//	C_c = sum over the pairs (a,b) of output c of A_a * B_b
//
// where * is a product or a convolution; a linear job has one B block equal to 1.
// A task has coefficients u and v and computes (sum_a u_a A_a) * (sum_b v_b B_b),
// which is the row vec(u v^T) of a matrix M over all the products A_a * B_b (Q. Yu,
// M. Maddah-Ali, S. Avestimehr, "Polynomial codes", NIPS 2017, is of this form, and
// so are its successors). A task may have several coded blocks on a side, and
// then gives several rows: each result is one product of coded blocks, or a sum.
// With W the rows of the wanted outputs and M_S the rows of a set S of tasks:
//
//   - S decodes exactly when each row of W lies in the row space of M_S. [Tracker]
//     answers this while results arrive; a count is enough for MDS codes only.
//   - The weights D with D M_S = W decode. [Decoder] computes and keeps them, those
//     of least norm if S is larger than it needs to be.
//   - If S is too small, D is the least-squares estimate and its residual is the
//     error to expect.
//
// A job may also be a sum: for the gradient over all parts of a data set one output is
// wanted, the sum of every part's, and a worker returns a combination of those of the
// parts that it knows ([EncodeGradients], [DecodeGradients]; R. Tandon et al.,
// "Gradient coding", ICML 2017). [Weights.Amplification] tells how much the rounding
// of what they send grows.
//
// So a new code is one file with a partition and coefficients: a [Family], whose
// [Definition] for given sizes goes into the registry behind [New]. Package
// codetest has the laws that it must satisfy; what it claims (a threshold, that
// nothing less decodes, that unfinished work counts) is tested in exact
// arithmetic, over a prime field of package field.
//
// # Which code
//
//   - One operand is coded and used again and again (the weights of a layer):
//     trigonometric; with more than five spare workers gaussian;
//     systematic-trigonometric where most rounds lose nobody; low-weight for sparse
//     operands; universally-decodable, hierarchical or lt where workers are slow
//     rather than lost and what they have finished should count.
//   - Both operands are coded: ortho-polynomial or rotation (blocks of C come back),
//     ortho-matdot (all of C comes back from every worker, but fewer are needed),
//     entangled between the two, systematic-khatri-rao for sparse ones; over a prime
//     field polynomial, with package exact. [Reencode] makes the blocks smaller
//     without the data.
//   - Many products at once: lagrange; csa if a task may do several.
//   - Sums of gradients: fractional-repetition if n allows it, else
//     cyclic-reed-solomon; communication-efficient on slow links.
//   - Functions that are not linear: berrut, approximately.
//
// `train codes` prints them all with what they need and cost.
//
// # Conditioning
//
// Weights are computed in float64 and applied in float32. The error of a decoded
// output is at most about 3.5 times the condition number of M_S times 6e-8, so
// the choice of G matters: a Vandermonde matrix at integers is of no use beyond a
// dozen workers. The trigonometric code is a harmonic frame, a submatrix of the
// orthogonal discrete Fourier basis; its worst condition number over all sets of
// k workers, and the median:
//
//	n, k      6,4       8,6       10,8     12,9     18,15     31,28
//	          4.7/2.5   7.3/3.7   10/3.5   37/6.9   103/9.1   404/13
//
// It grows with n-k: [Code.Conditions] measures it, and a set beyond the limit of
// a Decoder is refused with a [ConditionError]; waiting for one more result
// lowers it much. The frame is tight: its columns are orthonormal, so that the
// squared norms of all F_i sum to that of A.
//
// # Wrong results
//
// A worker may return nonsense. [Verifier] is Freivalds' test of one result, at the
// cost of reading it and its operand; [Decoder.Screen] leaves out those that fail,
// so that n-k liars cost no more than n-k stragglers. Where the operands are not at
// hand, [Code.Locate] finds up to n-k-1 unrelated errors by what results to spare say.
// [Agreement] tells by how much results to spare disagree.
// Decoding itself looks at shapes, not at values: NaN in a result is NaN in outputs,
// unless [CheckFinite] screens them.
//
// # Invariants
//
//   - A Code is immutable. Slices that its methods return are borrowed, and must
//     not be written to.
//   - Everything is a function of its arguments: the same set of tasks gives the
//     same weights, bit for bit, in whatever order it is listed, and sums are made
//     in the order of tasks, never of arrival.
//   - No function panics on account of sizes, tasks or coefficients that came from
//     outside; Task and Rows index like a slice.
//
// Not guaranteed: that a Definition holds what it claims (NewCode checks its form,
// codetest the claims); that a set that is sufficient in exact arithmetic is
// accepted in float64.
//
// # Goroutines
//
// Code, Decoder and Verifier are safe for concurrent use. A Tracker belongs to one
// goroutine. Encoding and decoding may run concurrently on different results.
package coded
