package dist

import (
	"slices"
	"testing"
)

func TestServing(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, History: 4})
	cl.start(0, 7) // the last one is a spare
	if got := cl.c.Serving(); got != nil {
		t.Errorf("before any layer is placed %q serve", got)
	}
	m := newFC1()
	cl.place(m)
	want := []string{"worker-1", "worker-2", "worker-3", "worker-4", "worker-5", "worker-6"}
	if got := cl.c.Serving(); !slices.Equal(got, want) {
		t.Errorf("%q serve, want %q", got, want)
	}
	cl.kill("worker-3")
	cl.await("worker-7", StateRepaired)
	cl.settle("fc1")
	want[2] = "worker-7"
	if got := cl.c.Serving(); !slices.Equal(got, want) {
		t.Errorf("with a spare in slot 2 %q serve, want %q", got, want)
	}
	cl.freeze("worker-2")
	cl.train(m, 1, 12)
	cl.await("worker-2", StateStale)
	if got := cl.c.Serving(); slices.Contains(got, "worker-2") {
		t.Errorf("%q serve, among them one that has fallen behind", got)
	}
	cl.thaw("worker-2")
}
