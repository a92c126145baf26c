// Package train is the training loop: epochs of batches through a network, an
// optimiser step for each, an evaluation after each epoch, and hooks around
// them. Progress bars, logs, checkpoints and injected faults are hooks.
//
//	t, err := train.New(train.Config{
//		Model:     model,
//		Network:   network,
//		Optimizer: sgd,
//		Train:     loader,
//		Test:      test,
//		Epochs:    3,
//		Hooks:     []train.Hooks{{OnEpoch: func(ctx context.Context, e train.EpochInfo) error { ... }}},
//	})
//	result, err := t.Run(ctx)
//
// One step is: forward and backward pass of Accumulate batches, whose
// gradients are averaged; one update of the local parameters by the optimiser;
// one coded.Update that makes the workers of the placed layers do the same to
// their coded weights. Steps are numbered from 1 over the whole run, also
// after a resume.
//
// With Config.EMA the trainable parameters are averaged over the steps (see
// optim.EMA), and it is the averages that are evaluated and that a checkpoint
// holds as its model.
//
// Invariants: for a seed the order of the batches, the initial weights and so
// every loss are the same to the bit, as long as nothing is placed or the
// answers used are recorded and replayed. The position in the data belongs to
// the trainer and does not depend on the workers; it is part of a checkpoint,
// and a run resumed from one sees exactly the batches that were left. A
// checkpoint appears whole or not at all.
//
// A Trainer is used by one goroutine. Cancelling the context of Run ends the
// run after the step under way; the state is then consistent and can be
// written as a checkpoint.
package train
