// Package plan says which placement and code suit the layers of a model on a
// cluster. Layers and cluster come as plain descriptions, so the package depends
// neither on the network stack nor on the layers.
//
//	m := plan.LAN(100e9, 20e9, 20e9, 20e9, 20e9) // flop/s: of the coordinator, of four workers
//	answer, err := plan.Make(ctx, plan.Question{Machines: m, Products: layers, Batch: 64, Rest: 0.004})
//	fmt.Println(answer.StepMS, answer.LocalMS)
//	for _, l := range answer.Layers {
//		fmt.Println(l.Layer, l.Chosen.Placement, l.Chosen.Code, l.Chosen.Why)
//	}
//
// # What a placement costs
//
// Let F be the flops of a layer's forward product for the batch, |X|, |Y|, |W| the
// bytes of its input, its output and its weights, and f = ceil(out/k)/out and
// r = ceil(in/k)/in the parts of them that a block is. Every product is a round: the
// coordinator encodes, sends an operand to each of n workers, waits for what the code
// needs, and decodes.
//
//	            sent to each   flops of a shard   its result   and besides
//	local                                                      3F and the update here
//	resident Y  |X|            F f                |Y| f        F(f+r) flops and the update of
//	         dX |dY|           F r                |X| r        |W|(f+r) on each worker
//	batch    Y  |X|/k          F/k                |Y|/k        |W| to each after the update
//	         dX |dY|/k         F/k                |X|/k
//	         dW (|X|+|dY|)/k   F/k                |W|          min(n, 2k-1) answers, or F here
//	shipped     the loads of the code (coded.Loads), for each of three products
//
// Where chunks of a coded batch are samples (of convolutions with larger activations than
// weights), they are sent with their chunks: |X| to those who compute in all, and a worker
// begins when its first chunk is there.
//
// A first layer, whose dX nobody wants, has no such round and no R: dY is sent all
// the same. An update with momentum moves 20 bytes for a weight, and memory bounds it.
//
// # How long that takes
//
// A step is followed in virtual time. The coordinator does one thing after another:
// its own layers, encoding and copying what is sent, waiting for rounds, decoding. On the
// way back it waits for dX when dW is started too, or made here, and for a dW of the
// workers at the end of the step. What it sends leaves one after another. Worker w can
// begin with a round at
//
//	max(time at which the link is free + latency + (w+1) (message + sent/bandwidth), end of
//	what it is at) + what it still owes to its shard of this layer
//
// since it puts products before updates, but needs the shard to be up to date; what it
// owes to other layers waits, or is done while the coordinator is busy elsewhere. From
// there on dist/sim runs the round, chunk by chunk, handed out by the same rule as
// package dist does, under any of its models of stragglers. So updates hide behind the
// coordinator's own work where they can, and delay the next step where they cannot.
//
// # Messages and shared machines
//
// A message costs its bytes and its latency, and the coordinator besides some time that
// bytes do not explain: to seal or open it, to wake who waits for it, to decide what comes
// next. The n operands of a round leave one by one; answers, one for each chunk of each
// worker, wait for each other in the order in which they come. So a round of C chunks of
// which k answers suffice takes at least
//
//	message (n + k C)
//
// however fast the workers are. That is what bounds small layers. A probe measures it: a
// round of n workers that asks next to nothing of them takes message (n + n C - 2) longer
// than one of a single worker. If workers share the coordinator's machine, so that both
// ends and all who wake up share its cores, the probe sees that too.
//
// Workers beside the coordinator take their parts s/local of its machine while they are at
// work. Together they have no more than all of it: their speeds are scaled to that. The
// coordinator has the rest of its machine for what it does meanwhile, though no less than
// an equal part. Workers that share another machine have the speeds that they have when all
// of them are at work.
//
// Parts tell what a step waits for: by how much it would be shorter without messages, then
// without stragglers as well, and so on.
//
// # What is chosen
//
// A layer is ranked by a step of its own. Then the model is put together, and each
// placed layer goes back to the coordinator if the whole step is faster so.
//
// # Limits
//
//   - Answers of two rounds that are under way together do not wait for each other, and what
//     the coordinator computes meanwhile does not make messages wait.
//   - Strangers on the machines, which the probe did not see, are not known to the plan.
//   - Sending is as fast as the coordinator's one link, results share it evenly.
//   - Rest and the local layers are as long as they are said to be.
//
// # Choose
//
// Choose is a rule of thumb, without any speeds: large linear layers become resident.
// A coded layer costs its operands and results on the wire and two shard-sized products
// for the update; it saves the coordinator three products. Both grow with the number of
// weights, the fixed cost of a round does not: so small layers stay local, and so do
// convolutions, which have few weights beside their activations.
//
// All functions are pure and safe for concurrent use; equal questions have equal answers.
package plan
