package dist

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// A recorded run, in which workers die and are repaired, gives the same bits
// when it is replayed on workers that live.
func TestReplayGivesTheSameBits(t *testing.T) {
	noLeaks(t)
	const steps = 24
	var record bytes.Buffer
	want, shards := func() ([][]float32, []coded.ShardState) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Record: NewRecorder(&record)})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		ys := cl.train(m, 1, 5)
		cl.kill("worker-2")
		ys = append(ys, cl.train(m, 6, 8)...)
		if _, err := cl.c.Fetch(cl.ctx(), "fc1"); err != nil { // a checkpoint for the loss, which the replay does not write
			t.Fatal(err)
		}
		cl.add("worker-2")
		cl.await("worker-2", StateRepaired)
		cl.settle("fc1")
		cl.kill("worker-5") // so that worker-2 is used
		cl.kill("worker-6")
		ys = append(ys, cl.train(m, 9, steps)...)
		states, err := cl.c.Fetch(cl.ctx(), "fc1")
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.c.Close(); err != nil {
			t.Fatal(err)
		}
		return ys, states
	}()
	replay, err := ReadReplay(bytes.NewReader(record.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Replay: replay})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	got := cl.train(m, 1, steps)
	for i := range want {
		if !equalBits(want[i], got[i]) {
			t.Fatalf("product %d is not the same to the bit", i)
		}
	}
	states, err := cl.c.Fetch(cl.ctx(), "fc1")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range shards {
		if states[i].Slot != s.Slot {
			t.Fatalf("fetched slot %d, recorded %d", states[i].Slot, s.Slot)
		}
		for j := range s.State {
			if !equalBits(s.State[j].Data, states[i].State[j].Data) {
				t.Errorf("tensor %d of slot %d is not the same to the bit", j, s.Slot)
			}
		}
	}
	// What comes after the record, and what is not as recorded, is an error.
	if _, err := cl.trainStep(m, steps+1); err == nil || !strings.Contains(err.Error(), "the record ends") {
		t.Errorf("a step after the record gives %v", err)
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func TestRandomSurvivors(t *testing.T) {
	noLeaks(t)
	run := func(seed uint64) (ys [][]float32, sets [][]int) {
		cl := newCluster(t, CoordinatorConfig{
			Slots: 6, Select: RandomSurvivors(seed),
			OnRound: func(s RoundStats) { sets = append(sets, s.Answered) },
		})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		for step := range 5 { // evaluation only: all slots stay fresh
			_, y, err := cl.product(m, coded.Forward, step, false)
			if err != nil {
				t.Fatal(err)
			}
			ys = append(ys, y)
		}
		return ys, sets
	}
	ys1, sets1 := run(1)
	ys2, sets2 := run(1)
	_, sets3 := run(2)
	for i := range ys1 {
		if !slices.Equal(sets1[i], sets2[i]) || !equalBits(ys1[i], ys2[i]) {
			t.Errorf("round %d used %v and %v with the same seed", i, sets1[i], sets2[i])
		}
		if len(sets1[i]) != 4 {
			t.Errorf("round %d used %v, want 4 of 6", i, sets1[i])
		}
	}
	if slices.EqualFunc(sets1, sets3, slices.Equal) {
		t.Errorf("two seeds gave the same sets %v", sets1)
	}
}

func TestSelectedSlotDies(t *testing.T) {
	noLeaks(t)
	block, entered := make(chan struct{}), make(chan struct{}, 100)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Select: func(r RoundInfo) [][]int { return [][]int{r.Fresh[:4]} }})
	cl.start(0, 1, hooked(func(coded.Product, int) error { entered <- struct{}{}; <-block; return nil }, nil))
	cl.start(1, 6)
	m := newFC1()
	cl.place(m)
	x := m.operand(coded.Forward)
	r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward, Operand: x})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	receive(t, entered)
	close(block)
	cl.kill("worker-1")
	answers, err := r.Wait(cl.ctx())
	if err != nil {
		t.Fatal(err)
	}
	for _, chunk := range answers {
		for _, a := range chunk {
			if a.Slot == 5 {
				t.Errorf("slot 5 answered, which was never selected")
			}
		}
	}
	y, err := m.decode(coded.Forward, answers, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := distance(y, m.want(coded.Forward, x)); d > toyTolerance {
		t.Errorf("product differs by %g", d)
	}
}
