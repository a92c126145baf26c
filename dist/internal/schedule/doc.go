// Package schedule decides who computes which chunk of a round, and when the
// results suffice. It is pure: no goroutine, clock or randomness. The coordinator
// drives it on sockets and the simulator in virtual time, so that both make the
// same decisions for the same events, whatever the strategy.
//
//	s := schedule.NewPulled(func() schedule.Covered { return schedule.NewCount(chunks, k) }, n, chunks, nil)
//	for !s.Done() {
//		chunk, after, ok := s.Next(worker, idle, now) // a worker has room
//		s.Start(worker, chunk, now)                   // it has been given the chunk
//		useful, ready := s.Finish(worker, chunk, now) // its result has come
//	}
//
// Two questions make a strategy: in which order is work handed out (Pulled,
// Speculative, InOrder, Chosen), and which results suffice (Readiness: Count for an MDS code on
// every chunk, Tracked for any code, Total for codes over all chunks together).
//
// A Limit on the condition number of what a chunk is decoded from makes Covered
// chunks wait for one more result where the first that decode would amplify
// rounding: chunks that such a set is at work on are given to one more worker.
//
// # Pull
//
// A worker that has room gets, among the chunks that it may do and has not done,
// the one with the least cover, which is the number of workers that have finished
// it or are at work on it. The search is cyclic, from an offset of the worker's
// own, so that workers of equal speed spread over the chunks without talking. A
// chunk whose cover would be enough to decode comes after all others, and only to
// a worker that would be idle. When no more results are missing than there are workers,
// a chunk comes later that would leave nobody for another one: so workers of equal
// speed do as much each.
//
// # Doubling up
//
// Let d be the time that a worker took for a chunk, on average in this round, 0
// if it has finished none yet. The i-th chunk in the queue of a
// worker that began the first one at b is expected at
//
//	b + (1+i) d,  or when e = now - b has come to d or more:  b + 2e + i e
//
// that is after its usual time, or, if that has passed already, after as much
// time again as it has taken so far. An idle worker doubles up on the chunk that
// will be ready last, if it is expected to finish it sooner with some margin.
// So nobody repeats what will be there in time, and nobody waits for a worker
// that has stopped: the older rule, to repeat whatever is not done, wastes a chunk
// a worker in every round, and to wait for some fixed time loses that time.
//
// Workers that share processors take now more, now less for the same, and often
// whoever seems late is done in a moment. So Habits keep, over the rounds of a
// layer, by how much a worker's times differ from their mean in a round: a spread
// s, as a time, of half of d at most. A worker is late d + 2 s after it began; until
// then e counts as d, and later as above. Each of the two, who is late and who is
// idle, must be beyond its spread as well for a chunk to be doubled up on. And d of
// a worker that has not finished any in this round is that of earlier ones. Where
// times do not vary s is 0, and nothing changes.
//
// # Speculation
//
// The baseline that doubles up by a rule of thumb gives every worker one chunk, and
// backs up those that are late (J. Dean, S. Ghemawat, MapReduce, OSDI 2004, section
// 3.6). Who is late is what Spark asks: once a Quantile of the chunks is ready, a chunk
// is late that was given out longer ago than a Multiple m of the median time of the
// results,
//
//	now - begun >= m median(times of the results)
//
// where begun is of the newest copy, so that a chunk has one backup at a time: others
// join in only when that is late as well. Without a multiple the first worker that is
// done would begin the shares of all others, since no two end at the same moment.
// Progress is not reported, as for the longest approximate time to end (M. Zaharia et
// al., LATE, OSDI 2008): among the late chunks that of the fewest copies comes first,
// and those were all begun together.
package schedule
