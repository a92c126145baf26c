// Package nn builds neural networks out of modules on a gorgonia graph and
// trains them.
//
//	rng := rand.New(rand.NewPCG(1, 0))
//	model := nn.Sequential{
//		nn.NewConv2d(rng, 1, 32, 3, nn.Conv2dConfig{Padding: 1}), nn.ReLU{}, nn.MaxPool2d{Kernel: 2},
//		nn.Flatten{}, nn.NewLinear(rng, 32*14*14, 10),
//	}
//	net, err := nn.NewNetwork(model, []int{1, 28, 28}, nn.Config{})
//	...
//	defer net.Close()
//	loss, correct, err := net.Train(ctx, step, images, labels)
//	// An optimiser now reads p.Grad and changes p.Value.Data of net.Params().
//
// # Models are plain data
//
// A Module is anything with a Forward method; a model of one's own is a struct
// whose exported fields are modules. Params finds the parameters by walking it
// and names them as PyTorch does ("conv1.weight"); they have PyTorch's layouts
// and, by default, its initial distributions, so that SaveState and LoadState
// exchange weights with it. What training changes but no optimiser, such as the
// running statistics of a BatchNorm, are a model's Buffers: part of its State,
// saved and loaded with the parameters, and changed only by steps that succeed.
// Constructors draw from the *rand.Rand that they are given and from nothing
// else.
//
// # What runs
//
// A Network minimises a Loss: unless Config says otherwise, the mean cross
// entropy of a batch of n samples,
//
//	L = -1/n sum_i sum_c t[i,c] log softmax(z_i)[c]
//
// z_i being the model's logits and t the one-hot labels, smoothed if asked
// (Szegedy et al. 2016, section 7). It builds one gorgonia graph for each batch
// size and mode, when first needed, over shared parameters, and runs its nodes
// in the order in which they were made. Every node is an operation of this
// package: gorgonia's own are slow, some are wrong, and all of them allocate, as
// its machine does for each node. The gradients are made of the operations' SymDiff by
// reverse-mode differentiation (see Griewank and Walther 2008, section 3.2)
// over gorgonia's graph.
//
// Three things hold for every graph:
//
//   - A step allocates nothing of the size of a tensor, and gradients of
//     parameters are computed where Param.Grad points to. An operation has
//     memory for its output from the beginning, which those that run after the
//     last reader may have as well.
//   - No two nodes are merged: gorgonia tells nodes apart by a 32-bit hash,
//     which here holds a sequence number and is checked after building.
//   - A gradient that leads to no trainable parameter is not computed: not that
//     of the first layer's input, nor that of a Frozen parameter.
//
// Sequential and Chain fuse a ReLU into its neighbours; ChainAdd and Residual
// fuse an addition and a ReLU into the BatchNorm before them; in evaluation a
// BatchNorm becomes part of the Conv2d before it.
//
// # Layers of one's own
//
// Most are made of others: a struct of modules whose Forward calls theirs. One
// that computes something new adds an Op by Graph.Apply, with a Forward and a
// Backward over plain slices; it is then as good as those of this package.
// CheckGradients compares the two by finite differences. A module may use
// gorgonia's operations as well, off the hot path and with care: some of them
// write over their inputs.
//
// # Placement
//
// A layer does not know where its product is computed. With On(placement) its
// training graphs hold the placement's nodes in place of the local product;
// bias and activation stay here, and evaluation uses the local weight.
//
// Resident keeps the weights of layers (Linear, Conv2d) in coded form on the workers of a
// coded.Executor (see packages coded and nn/shard), where they are trained as
// well. X and dY go out, any sufficient set of answers is decoded:
//
//	x  -> forward start  -> forward wait and decode  = x·Wᵀ
//	dy -> backward start -> backward wait and decode = dy·W
//
// A start returns at once, so what does not depend on the answers runs while
// they are under way. The life of placed layers is
//
//	model.FC1.Place(&nn.Resident{Executor: executor, Code: code, Chunks: 4})
//	err := nn.Place(ctx, model, nil)          // encode the weights, send them
//	loss, correct, err := net.Train(ctx, step, x, labels)
//	err = nn.UpdatePlaced(ctx, model, update) // an optimiser step, on the workers
//	momenta, err := nn.Sync(ctx, model)       // decode, before evaluation and checkpoints
//
// Every coded copy rounds in its own way: MeasureDrift tells how far they are apart, and
// puts a layer right that has drifted too far.
//
// Batch codes the batch in place of the weights: a worker has all of them and gets
// one combination of the blocks of X, and of dY. Any optimiser will do, here; the
// gradient of the weights is computed here, or by the workers: then the start of its
// round is the gradient, and Train waits for it when everything else is done.
//
// Shipped codes both factors of every product, X and W, dY and W, dY and X, by any code
// for C = A B, and workers keep nothing: any optimiser will do as well.
//
//	                 Resident            Batch                Shipped
//	sent a step      X, dY to each       blocks of X and dY,  blocks of both factors
//	                                     W when it changed    of three products
//	code             of one factor       of one factor        of two factors
//	features         >= k, in and out    any                  in >= p, q; out >= m, p, q
//	optimisers       linear ones         any                  any
//	groups of Conv2d yes                 yes                  no
//	lost workers     n - k               n - k; of a coded    n - threshold
//	                                     gradient n - (2k-1)
//
// m, p and q are the numbers of blocks that a code of two factors has (A in m x p, B in
// p x q). What a placement cannot do, Place says before anything is sent.
//
// The weights of resident layers are then Remote: they have no Grad here, and optimisers leave
// them alone. Clipping by the global norm needs the norms of their gradients, which
// Network.SumSquares finds from the operands that were sent. Package nn/train does all of this.
//
// # Errors
//
// An error of a run is an *OpError with the layer, the step and the cause,
// which errors.As finds (a *coded.TooFewError for one); a loss that is not
// finite is a *NonFiniteError that says where the first such number appeared. A
// panic inside an operation becomes an error. After any of them the next step
// may be tried.
//
// # Guarantees
//
// The same parameters, batches and binary give the same bits, on any number of
// threads. Another batch size may round differently, and so may another set of
// answers of a placed layer. A Network, a Graph and the modules of a model belong
// to one goroutine at a time; different networks may run at once if they share
// no parameter.
package nn
