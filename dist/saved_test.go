package dist

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// succeed puts another coordinator of the same run in the place of one that dies
// without a word, and connects the workers in another order.
func (cl *cluster) succeed(resume uint64, change ...func(*CoordinatorConfig)) {
	cl.t.Helper()
	for _, w := range cl.workers {
		w.w.mu.Lock()
		s := w.w.session
		w.w.mu.Unlock()
		w.node.sever()
		receive(cl.t, w.gone)
		if s != nil {
			receive(cl.t, s.done) // free for another run
		}
	}
	if err := cl.c.Close(); err != nil {
		cl.t.Fatal(err)
	}
	cfg := CoordinatorConfig{Slots: len(cl.c.slots), Run: cl.c.Run(), Resume: resume, Log: quiet}
	for _, f := range change {
		f(&cfg)
	}
	c, err := NewCoordinator(cfg)
	if err != nil {
		cl.t.Fatal(err)
	}
	cl.c = c
	names := cl.names()
	slices.Reverse(names)
	for _, name := range names {
		cl.connect(cl.workers[name])
	}
}

func (cl *cluster) names() (names []string) {
	for name := range cl.workers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fetchAll waits until every worker has done what it was told before.
func (cl *cluster) fetchAll(layer string) {
	cl.t.Helper()
	all := make([]int, 0, len(cl.c.slots))
	for slot, l := range cl.c.slots {
		if l != nil {
			all = append(all, slot)
		}
	}
	if _, err := cl.c.fetchFrom(cl.ctx(), layer, fetch{only: all}); err != nil {
		cl.t.Fatal(err)
	}
}

// A coordinator that goes on from a checkpoint takes the shards that the workers
// have kept for it, and sends only those that nobody has.
func TestCopiesAreTakenOver(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	for _, name := range []string{"ann", "bob", "cy", "di", "eve", "flo"} { // no numbers: any slot will do
		cl.add(name)
	}
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.settle("fc1")
	number := cl.c.Keep()
	checkpoint := slices.Clone(m.w)
	cl.fetchAll("fc1") // after which the copies are made
	cl.train(m, 4, 6)
	before := cl.c.Workers()
	cl.kill(before[2])
	cl.add(before[2]) // a new process, which has no copy
	cl.succeed(number)
	for slot, name := range cl.c.Workers() {
		if slot != 2 && name != before[slot] {
			t.Errorf("slot %d has %s, its copy is with %s", slot, name, before[slot])
		}
	}
	m.w = slices.Clone(checkpoint)
	var sent []int
	err := cl.c.Place(cl.ctx(), m.layer, func(slot int) ([]coded.Tensor, error) {
		sent = append(sent, slot)
		return m.state(slot)
	})
	if err != nil || !slices.Equal(sent, []int{2}) {
		t.Errorf("slots %v were encoded, want 2: %v", sent, err)
	}
	if n := cl.c.Stats().Resumed; n != 5 {
		t.Errorf("%d shards were taken over, want 5", n)
	}
	cl.train(m, 4, 8)
	if err := cl.fetched(m); err != nil {
		t.Error(err)
	}
}

// What was kept of another layer, for another checkpoint or under another run is
// not used.
func TestCopiesThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		number uint64 // added to that of the copies
		change func(*CoordinatorConfig)
		chunks int
	}{
		"checkpoint": {number: 1},
		"layer":      {chunks: -1},
		"run":        {change: func(c *CoordinatorConfig) { c.Run = "another" }},
		"verify":     {change: func(c *CoordinatorConfig) { c.Verify = followToys(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			cl := newCluster(t, CoordinatorConfig{Slots: 6})
			cl.start(0, 6)
			m := newFC1()
			cl.place(m)
			cl.train(m, 1, 2)
			cl.settle("fc1")
			number := cl.c.Keep() + c.number
			cl.fetchAll("fc1")
			change := func(*CoordinatorConfig) {}
			if c.change != nil {
				change = c.change
			}
			cl.succeed(number, change)
			m.layer.Chunks += c.chunks
			cl.place(m)
			cl.train(m, 3, 5)
			if n := cl.c.Stats().Resumed; n != 0 {
				t.Errorf("%d shards were taken over", n)
			}
		})
	}
}

// Going back within a run uses the copies as well.
func TestCopiesWithinARun(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.settle("fc1")
	cl.c.Resume(cl.c.Keep())
	checkpoint := slices.Clone(m.w)
	cl.fetchAll("fc1")
	cl.train(m, 4, 5)
	m.w = checkpoint
	err := cl.c.Place(cl.ctx(), m.layer, func(slot int) ([]coded.Tensor, error) {
		return nil, fmt.Errorf("slot %d is encoded, although its worker has it", slot)
	})
	if err != nil {
		t.Fatal(err)
	}
	cl.train(m, 4, 6)
}
