package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestWatch(t *testing.T) {
	w := newWatch()
	w.stepBegins()
	first := w.stepEnds()

	const size, more = 1 << 20, 1000 // far more than other tests may leave to end
	w.stepBegins()
	kept := make([]byte, size)
	stop, ended := make(chan struct{}), make(chan struct{})
	for range more {
		go func() { <-stop; ended <- struct{}{} }()
	}
	second := w.stepEnds()
	close(stop)
	for range more {
		<-ended
	}
	runtime.KeepAlive(kept)
	if second.Allocated < size || second.Heap < size {
		t.Errorf("a step that allocates and keeps %d bytes: %+v", size, second)
	}
	if second.Goroutines < first.Goroutines+more/2 {
		t.Errorf("%d goroutines with %d more, %d before", second.Goroutines, more, first.Goroutines)
	}
	if got := testing.AllocsPerRun(10, func() { w.stepBegins(); w.stepEnds() }); got != 0 {
		t.Errorf("watching makes %v allocations a step", got)
	}
}

// The fields are those of the event itself.
func TestStepEventHasUsage(t *testing.T) {
	text, err := json.Marshal(stepEvent{Event: "step", usage: usage{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `"heap_bytes":1,"goroutines":2,"alloc_bytes_per_step":3}`; !strings.HasSuffix(string(text), want) {
		t.Errorf("%s, want it to end with %s", text, want)
	}
}
