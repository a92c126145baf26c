// Train trains neural networks whose layers are coded over unreliable machines.
//
//	train run        train a model; with no arguments: the MNIST convnet, its large
//	                 layers coded over 6 worker processes, any 4 enough
//	train eval       evaluate a checkpoint
//	train summary    show the model
//	train plan       say which placement and code suit its layers on a cluster
//	train worker     serve a cluster
//	train codes      show the codes, and explain one
//	train chaos      break worker processes at random, and check every product
//	train bench      measure
//	train keygen     make a new cluster key
//	train version    print version, commit and Go version
//
// The command is a shell around the library: it turns flags into a
// configuration, starts worker processes, prints, and writes files. A run goes
// through these stages, each in a file of its own:
//
//	runflags.go, yaml.go    flags and YAML keys, from one struct
//	validate.go             checks of them, without side effects
//	setup.go                data, model and optimiser
//	placement.go            which layers are computed where
//	cluster.go, procs.go    gossip, coordinator, worker processes, injected faults
//	folder.go, output.go    the run folder and everything that events go to
//	fit.go                  the training loop's hooks: events, faults, checkpoints
//	interrupt.go            what ends all that before its end
//
// What a worker does wrong when it is told to is in misbehave.go, when it is told
// in inject.go (a run) and chaos_plan.go (train chaos).
//
// Whatever can be wrong with the settings is found before a file is written
// or a process started. A run that has begun is told to the user as a sequence
// of events (events.go), which the console prints and files keep as JSON.
//
// The exit status is 0 when all is done, 1 after a failure, 2 for wrong usage
// and 130 after an interrupt; all but the first come with one line on standard
// error. The first SIGINT, SIGTERM or SIGHUP ends a run after the step under way,
// with a checkpoint, or leaves nothing if there was no step; the second ends the
// process at once. Worker processes that a run has started end by themselves when it
// does, however it ends.
package main
