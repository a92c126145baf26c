package main

import "runtime/metrics"

// watch reads what this process uses, between two steps. Reading stops nothing
// and allocates nothing, unlike runtime.ReadMemStats.
type watch struct {
	now    [len(watched)]metrics.Sample
	before uint64 // bytes allocated since the process began, at the step's start
}

// watched are the quantities, in the order of watch.now.
var watched = [...]string{
	"/memory/classes/heap/objects:bytes", // reachable, or not yet collected
	"/sched/goroutines:goroutines",
	"/gc/heap/allocs:bytes",
}

func newWatch() *watch {
	w := &watch{}
	for i, name := range watched {
		w.now[i].Name = name
	}
	return w
}

// stepBegins notes what was allocated before the step.
func (w *watch) stepBegins() {
	metrics.Read(w.now[:])
	w.before = w.now[2].Value.Uint64()
}

// usage is the part of a step event that tells whether anything grows.
type usage struct {
	Heap       uint64 `json:"heap_bytes"`           // reachable, or not yet collected
	Goroutines uint64 `json:"goroutines"`           // of this process
	Allocated  uint64 `json:"alloc_bytes_per_step"` // by the step, and by whatever ran beside it
}

func (w *watch) stepEnds() usage {
	metrics.Read(w.now[:])
	return usage{w.now[0].Value.Uint64(), w.now[1].Value.Uint64(), w.now[2].Value.Uint64() - w.before}
}
