package kernel

import "testing"

// steadyAllocs returns how many allocations a call of step makes once memory
// has settled: how many goroutines of a pool take part in a call, and so get
// memory of their own, is chance, so that a steady state may need a few rounds.
func steadyAllocs(calls int, step func()) float64 {
	const rounds = 10
	allocs := 1.0
	for round := 0; allocs > 0 && round < rounds; round++ {
		allocs = testing.AllocsPerRun(calls, step)
	}
	return allocs
}
