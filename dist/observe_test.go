package dist

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// outcomesOf gathers what OnTask hears.
type outcomesOf struct {
	mu  sync.Mutex
	all []TaskStats
}

func (o *outcomesOf) add(s TaskStats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, s)
}

func (o *outcomesOf) count() map[Outcome]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := map[Outcome]int{}
	for _, s := range o.all {
		n[s.Outcome]++
	}
	return n
}

// Every task that is handed out ends once; what was used is what the rounds were decoded from.
func TestTasksEndOnce(t *testing.T) {
	var heard outcomesOf
	used := 0
	spec := coded.Spec{Name: "trigonometric", N: 4, K: 3}
	cl := newCluster(t, CoordinatorConfig{Slots: 4, OnTask: heard.add, OnRound: func(s RoundStats) {
		for _, set := range s.Sets {
			used += len(set)
		}
	}})
	cl.start(0, 4)
	m := newToyModel(toyLayer("fc", spec, 2, 12, 6), 5)
	if err := cl.c.Ready(); err == nil || !strings.Contains(err.Error(), "no layer has been placed; 4 workers have joined") {
		t.Errorf("before placing: error %v", err)
	}
	cl.place(m)
	if err := cl.c.Ready(); err != nil {
		t.Errorf("after placing: %v", err)
	}
	cl.train(m, 1, 5)
	if got := heard.count()[TaskUsed]; got != used || used == 0 {
		t.Errorf("%d tasks were used, the rounds were decoded from %d", got, used)
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	checkTasks(t, cl, heard.all)
}

// checkTasks compares what OnTask heard with the totals of the links.
func checkTasks(t *testing.T, cl *cluster, heard []TaskStats) {
	t.Helper()
	type id struct {
		worker string
		round  uint64
		chunk  int
	}
	seen := map[id]bool{}
	used, cancelled := map[string]int{}, map[string]int{}
	for _, s := range heard {
		if task := (id{s.Worker, s.Round, s.Chunk}); seen[task] {
			t.Errorf("task %v ended twice", task)
		} else {
			seen[task] = true
		}
		if s.Layer != "fc" || s.Step < 1 || s.Slot < 0 || s.Took < 0 || s.Began.IsZero() {
			t.Errorf("task %+v", s)
		}
		switch s.Outcome {
		case TaskUsed:
			used[s.Worker]++
		case TaskCancelled:
			cancelled[s.Worker]++
		}
	}
	links := cl.c.LinkStats()
	if len(links) != len(cl.workers) {
		t.Fatalf("%d links, want %d", len(links), len(cl.workers))
	}
	for slot, l := range links {
		if l.Slot != slot || l.Used != used[l.Worker] || l.Cancelled != cancelled[l.Worker] {
			t.Errorf("%+v: want slot %d, %d used and %d cancelled", l, slot, used[l.Worker], cancelled[l.Worker])
		}
		if l.Answered < l.Used || l.Wasted > l.Work || l.BytesIn <= 0 || l.BytesOut <= 0 {
			t.Errorf("%+v", l)
		}
	}
}

// What a worker has in hand when it goes is lost, and it is missing afterwards.
func TestTasksOfTheLost(t *testing.T) {
	var heard outcomesOf
	cl := newCluster(t, CoordinatorConfig{Slots: 2, OnTask: heard.add})
	begun := make(chan struct{}, 1)
	cl.start(0, 1)
	cl.start(1, 2, func(c *WorkerConfig) {
		c.Slow = func(ProductInfo) float64 { signal(begun); return 1e9 }
	})
	m := newToyModel(toyLayer("fc", coded.Spec{Name: "trigonometric", N: 2, K: 2}, 2, 4, 4), 1)
	cl.place(m)
	pending, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc", Product: coded.Forward, Step: 1, Operand: coded.NewTensor(1, 4)})
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Release()
	select {
	case <-begun:
	case <-cl.ctx().Done():
		t.Fatal("worker-2 has begun nothing")
	}
	cl.kill("worker-2")
	if _, err := pending.Wait(cl.ctx()); err == nil {
		t.Fatal("a round of two of two with one worker ended well")
	}
	if got := heard.count(); got[TaskLost] == 0 {
		t.Errorf("outcomes %v, want some lost", got)
	}
	if err := cl.c.Ready(); err == nil || !strings.Contains(err.Error(), "layer fc: 1 of 2 workers needed hold it; missing: worker-2 (failed") {
		t.Errorf("without worker-2: error %v", err)
	}
}

func TestWorkerStats(t *testing.T) {
	cl := newCluster(t, CoordinatorConfig{Slots: 1, Run: "r"})
	cl.start(0, 1)
	m := newToyModel(toyLayer("fc", coded.Spec{Name: "trigonometric", N: 1, K: 1}, 2, 4, 4), 1)
	cl.place(m)
	cl.train(m, 1, 3)
	w := cl.workers["worker-1"].w
	s := w.Stats()
	if !s.Serving || s.Run != "r" || s.Shards != 1 || s.Kept != 0 {
		t.Errorf("while serving: %+v", s)
	}
	if want := int64(3 * 2 * 2); s.Tasks+s.Cancelled != want { // steps, products, chunks
		t.Errorf("%d tasks and %d cancelled, want %d", s.Tasks, s.Cancelled, want)
	}
	if s.Computing <= 0 || s.BytesIn <= 0 || s.BytesOut <= 0 {
		t.Errorf("nothing measured: %+v", s)
	}
	cl.cut("worker-1")
	for ctx := cl.ctx(); w.Stats().Kept == 0 && ctx.Err() == nil; {
		runtime.Gosched()
	}
	if after := w.Stats(); after.Run != "" || after.Kept != 1 || after.BytesIn < s.BytesIn || after.Tasks != s.Tasks {
		t.Errorf("after the connection broke: %+v, before %+v", after, s)
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	for o, want := range map[Outcome]string{TaskUsed: "used", TaskWasted: "wasted", TaskCancelled: "cancelled", TaskLost: "lost", 9: "outcome(9)"} {
		if o.String() != want {
			t.Errorf("%d: %q, want %q", uint8(o), o.String(), want)
		}
	}
}
