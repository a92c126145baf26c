// Package steady measures what a repeated step allocates once memory has
// settled, for the tests of the promise that a training step allocates no
// tensor.
//
//	if b := steady.Bytes(3, step); b > 64<<10 {
//		t.Errorf("%d bytes allocated a step, want at most 64 KiB", b)
//	}
//
// How many goroutines of a pool take part in a step, and so get memory of their
// own, is chance: on a busy machine one may come by its first piece of work
// after hundreds of steps. Rounds of steps are therefore repeated, and the least
// of them counts. What every step allocates is in every round.
//
// The measured functions must not run beside others that allocate: both figures
// are of the whole process.
package steady

import (
	"runtime"
	"testing"
)

// rounds is how often memory gets the chance to settle.
const rounds = 10

// Bytes is the number of bytes that a call of step allocates, as the mean over
// a round of calls and the least over several rounds. The first round is for
// caches to fill.
func Bytes(calls int, step func()) uint64 {
	least := bytesOf(calls, step)
	for range rounds - 1 {
		least = min(least, bytesOf(calls, step))
	}
	return least
}

func bytesOf(calls int, step func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		step()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / uint64(calls)
}

// Allocs is like Bytes for the number of allocations. It ends with the first
// round that makes none.
func Allocs(calls int, step func()) float64 {
	least := testing.AllocsPerRun(calls, step)
	for round := 1; least > 0 && round < rounds; round++ {
		least = min(least, testing.AllocsPerRun(calls, step))
	}
	return least
}
