// Package sim runs coded computing in virtual time: a cluster of thousands of
// workers, some of them slow, in a fraction of a second and with the same result
// for the same seed.
//
//	m, err := sim.ParseModel("shifted-exp=1,1", 8)
//	s, err := sim.Run(ctx, sim.Config{
//		Job:      sim.KOfN(8, 6),
//		Strategy: sim.Adaptive{K: 6, Chunks: 24},
//		Model:    m,
//		Seed:     1,
//		Rounds:   1000,
//	})
//	fmt.Println(s.Mean, s.Ratio, s.Wasted)
//
// # Time and work
//
// A round is one product. Its work is measured in shards, what a full member of
// the cluster holds; a worker that nothing slows down does a shard in one unit of
// time, a second if traces are used. Every strategy is measured against
//
//	ideal = least t with sum over w of min(held, work of w until t) >= work
//
// the time that workers of the speeds that they really had would need if work was
// divided perfectly and nothing was lost (Ideal), since nobody can do more than
// what it holds.
//
// # Stragglers
//
// A Model gives each worker's Pace for a round, piecewise constant in time, as a
// function of the seed, the round and the worker and nothing else: the same luck
// meets every strategy, so that comparisons are paired, and rounds can be run in
// any order. A draw is one quantile of a Distribution. The models are
//
//	slow     T = l X      X a distribution: shifted exponential (K. Lee et al., IEEE
//	                      Trans. IT 2018), Pareto, Weibull, log-normal, constant
//	delay    T = X + l    the additive form, which papers mix with the first
//	shared   X common to a group of workers in a round
//	some     a number of workers, drawn anew each round
//	burst    slow in some rounds, in runs: a two-state chain (Gilbert, Elliott)
//	preempt  taken away and back later; what it was at work on is lost
//	fail     crashes for good; kill: at a given round
//	trace    what was recorded, see ReadTrace
//
// and any of them Together.
//
// # Strategies
//
// There is one mechanism: a Plan has chunks of work, and a Schedule which says
// what a worker does next and when the results suffice. Local, uncoded, replicated,
// speculative, stealing, MDS, partial, hierarchical, rateless, ignoring and adaptive are choices
// of it, and Coded runs any code of package coded. The schedules are those that the
// coordinator of package dist drives on sockets. Results are counted where that
// decides (MDS codes), and given to a coded.Tracker elsewhere.
//
// A Link costs latency, the time of operands and results, and the coordinator's time
// for every message; a queue of more than one task hides latency. Workers give up what has been called off as soon as they
// hear of it, as those of package dist do.
//
// # Requests that queue
//
// Serve lets rounds come by a Poisson process and wait for workers that are at work
// on earlier ones, as in coded inference (K. Lee, N. Shah, L. Huang, K. Ramchandran,
// The MDS queue, IEEE Trans. IT 2017): what counts is the time from the arrival to
// the answer, and its tail.
//
// # Invariants
//
//   - No strategy beats the ideal time of what its workers hold.
//   - The results are a function of the Config, to the bit, and do not depend on
//     Threads.
//   - A trace that Record wrote gives the rounds of the model that it was recorded
//     from, to the bit.
//
// Not modelled: rounds of Run do not overlap, each begins with all workers free;
// those of Serve do, on a network that costs nothing; encoding and decoding take no
// time; the coordinator's own link is never full.
//
// # Goroutines
//
// Models, strategies and plans are values that are only read, and may be shared. A
// Schedule belongs to one goroutine, a TraceWriter to one at a time.
package sim
