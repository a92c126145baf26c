package dist

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// A round that waits for frozen workers ends at its deadline, in an error that
// names them. Time is synctest's.
func TestDeadlineNamesTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, FirstDeadline: 7 * time.Second})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
			cl.freeze(name)
		}
		begin := time.Now()
		_, err := cl.trainStep(m, 3)
		if took := time.Since(begin); took != 7*time.Second {
			t.Errorf("the round took %v, want its deadline of 7 s", took)
		}
		var few *coded.TooFewError
		if !errors.As(err, &few) {
			t.Fatalf("error is %v, want a TooFewError", err)
		}
		for i, name := range []string{"worker-1", "worker-2", "worker-3"} {
			if !strings.HasPrefix(few.Missing[i], name+" (no answer within 7s)") {
				t.Errorf("missing %d is %q, want %s", i, few.Missing[i], name)
			}
			cl.thaw(name)
		}
		cl.train(m, 4, 5)
	})
}

func TestWaitForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Wait: 15 * time.Second})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		cl.kill("worker-1")
		cl.kill("worker-2")
		cl.cut("worker-3")
		done := make(chan error, 1)
		go func() {
			_, err := cl.trainStep(m, 3)
			done <- err
		}()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("the round ended before its time, with error %v", err)
		default:
		}
		// Its shard is still good, so that the round can go on where it stands.
		cl.connect(cl.workers["worker-3"])
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		cl.cut("worker-3")
		begin := time.Now()
		if _, err := cl.trainStep(m, 4); !errors.Is(err, coded.ErrTooFewResults) {
			t.Errorf("error is %v, want too few results", err)
		}
		if took := time.Since(begin); took != 15*time.Second {
			t.Errorf("too few workers were waited for %v, want 15 s", took)
		}
	})
}

func TestWorkerThatPanicsIsRepaired(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 1, hooked(func(p coded.Product, _ int) error {
		if p == coded.Backward {
			panic("a bug in a handler")
		}
		return nil
	}, nil))
	cl.start(1, 6)
	m := newFC1()
	cl.place(m)
	for step := 1; ; step++ {
		cl.train(m, step, step)
		select {
		case <-cl.workers["worker-1"].gone:
		default:
			continue
		}
		break
	}
	if e := cl.await("worker-1", StateFailed); !strings.Contains(e.Reason, "fc1") || !strings.Contains(e.Reason, "a bug in a handler") {
		t.Errorf("reason is %q, want the layer and the panic", e.Reason)
	}
}

func TestWorkerLeaves(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 2)
	cl.workers["worker-6"].end()
	<-cl.workers["worker-6"].done
	cl.await("worker-6", StateLeft)
	cl.train(m, 3, 4)
}

func TestSpareTakesOver(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 7)
	if e := cl.await("worker-7", StateJoined); e.Slot != -1 {
		t.Errorf("worker-7 of six slots got slot %d", e.Slot)
	}
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.kill("worker-4")
	if e := cl.await("worker-7", StateRepaired); e.Slot != 3 {
		t.Errorf("worker-7 was repaired in slot %d, want 3", e.Slot)
	}
	cl.kill("worker-1")
	cl.kill("worker-2")
	cl.train(m, 4, 6)
	if names := cl.c.Workers(); !slices.Equal(names, []string{"", "", "worker-3", "worker-7", "worker-5", "worker-6"}) {
		t.Errorf("workers are %q", names)
	}
}

func TestNamesKeepTheirSlots(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 3})
	for _, name := range []string{"worker-9", "worker-3", "worker-1", "worker-2"} {
		cl.add(name)
	}
	if names := cl.c.Workers(); !slices.Equal(names, []string{"worker-1", "worker-2", "worker-3", "worker-9"}) {
		t.Errorf("workers are %q, want each in the slot of its number", names)
	}
	// The same name again replaces the old connection.
	cl.connect(cl.workers["worker-2"])
	cl.await("worker-2", StateFailed)
	if names := cl.c.Workers(); names[1] != "worker-2" || len(names) != 4 {
		t.Errorf("workers are %q, want worker-2 in its slot again", names)
	}
}

func TestDonorDiesDuringRepair(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	stuck := make(chan struct{}, 10)
	deaf := func(cfg *WorkerConfig) {
		cfg.Dial = func(ctx context.Context, addr string) (*Conn, error) {
			stuck <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	cl.start(0, 1, deaf)
	cl.start(1, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.kill("worker-3")
	cl.add("worker-3")
	<-stuck
	cl.kill("worker-1")
	cl.await("worker-3", StateRepaired)
	cl.kill("worker-6")
	cl.train(m, 4, 5)
}

func TestSecondCoordinatorIsRefused(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 1})
	cl.start(0, 1)
	other, err := NewCoordinator(CoordinatorConfig{Slots: 1, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := cl.net.dial(cl.ctx(), "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.AddWorker(cl.ctx(), conn); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "worker-1 serves another coordinator") {
		t.Errorf("a second coordinator gets %v, want a refusal with its reason", err)
	}
	if err := cl.c.Close(); err != nil {
		t.Fatal(err)
	}
	<-cl.workers["worker-1"].gone
	for {
		if conn, err = cl.net.dial(cl.ctx(), "worker-1"); err != nil {
			t.Fatal(err)
		}
		// The worker may still be busy with the goodbye.
		if _, err = other.AddWorker(cl.ctx(), conn); !errors.Is(err, ErrRefused) {
			break
		}
	}
	if err != nil {
		t.Errorf("after the first coordinator's goodbye the second gets %v", err)
	}
}

func TestClosedCoordinator(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	if err := cl.c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward}); !errors.Is(err, ErrClosed) {
		t.Errorf("start gives %v", err)
	}
	if err := cl.c.Update(cl.ctx(), coded.Update{Step: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("update gives %v", err)
	}
	if _, err := cl.c.Fetch(cl.ctx(), "fc1"); !errors.Is(err, ErrClosed) {
		t.Errorf("fetch gives %v", err)
	}
	if err := cl.c.Place(cl.ctx(), m.layer, m.state); !errors.Is(err, ErrClosed) {
		t.Errorf("place gives %v", err)
	}
}

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
		cl.add("worker-2")
		cl.await("worker-2", StateRepaired)
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
	<-entered
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

func TestPaceAndSlowness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 1, 10, 10), 1)
		var took time.Duration
		cl := newCluster(t, CoordinatorConfig{Slots: 1, OnRound: func(s RoundStats) { took = s.Compute }})
		cl.start(0, 1, func(cfg *WorkerConfig) {
			cfg.Pace = 600e-9 // 600 flops a second, as many as the product has
			cfg.Slow = func(i ProductInfo) float64 {
				if i.Product == coded.Backward {
					return 3
				}
				return 1
			}
		})
		cl.place(m)
		if _, _, err := cl.product(m, coded.Forward, 1, false); err != nil {
			t.Fatal(err)
		}
		if took != time.Second {
			t.Errorf("600 flops at 600 flops a second took %v", took)
		}
		if _, _, err := cl.product(m, coded.Backward, 1, false); err != nil {
			t.Fatal(err)
		}
		if took != 3*time.Second {
			t.Errorf("three times as slow took %v", took)
		}
		if s := cl.c.Stats(); s.Work != 1200 || s.Wasted != 0 {
			t.Errorf("work is %g flops of which %g wasted, want 1200 and 0", s.Work, s.Wasted)
		}
	})
}
