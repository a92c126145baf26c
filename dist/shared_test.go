package dist

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// wide is a layer whose operands are large beside everything else: 64 rows of 240.
func wide(spec coded.Spec) *toyModel {
	m := newToyModel(toyLayer("fc1", spec, 2, 240, 240), 3)
	m.batch = 64
	return m
}

const wideOperand = 4 * 64 * 240 // bytes

// sentDuring returns how many bytes the coordinator sends meanwhile.
func (cl *cluster) sentDuring(f func()) int64 {
	synctest.Wait()
	before := cl.c.Stats().BytesOut
	f()
	synctest.Wait()
	return cl.c.Stats().BytesOut - before
}

// waiting returns the bytes of operands that wait at a worker.
func (tw *testWorker) waiting() int64 { return tw.w.Stats().QueueBytes }

// An operand is sent once to a worker, however many of its seats have a slot, and is
// released when the last of them is done with it.
func TestOperandIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 2, seated(3, 0))
		m := wide(coded.Spec{Name: "uncoded", N: 6, K: 6})
		cl.place(m)
		for _, c := range []struct {
			what     string
			operands int64
			f        func()
		}{
			{"a step", 4, func() { cl.train(m, 1, 1) }},
			{"a product without gradients", 2, func() {
				if _, _, err := cl.product(m, coded.Forward, 2, false); err != nil {
					t.Fatal(err)
				}
			}},
		} {
			least, most := c.operands*wideOperand, c.operands*wideOperand+wideOperand/2
			if n := cl.sentDuring(c.f); n < least || n > most {
				t.Errorf("%s takes %d bytes to two workers, want %d to %d", c.what, n, least, most)
			}
		}
		for name, tw := range cl.workers {
			if n := tw.waiting(); n != 0 {
				t.Errorf("%s still has %d bytes of operands", name, n)
			}
		}
	})
}

// What a seat is told again after a repair, the others of its worker are not: each
// gradient is counted once, though the operands go over the same line.
func TestSeatIsRepairedBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: followToys(nil)})
		var wrong int // slot that answers wrongly
		lies := func(cfg *WorkerConfig) {
			cfg.Tamper = func(i ProductInfo, _ int, y coded.Tensor) bool {
				if i.Slot == wrong {
					y.Data[0] += 100
				}
				return true
			}
		}
		cl.start(0, 1, seated(3, 0), lies)
		cl.start(1, 4)
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 6, K: 4}, 2, 12, 12), 3)
		wrong = 0
		cl.place(m)
		seats := cl.holders()["worker-1"]
		if len(seats) != 3 || seats[0] != 0 {
			t.Fatalf("worker-1 has slots %v, want three with 0", seats)
		}
		step := cl.lied(m, 1, "worker-1")
		if n := cl.workers["worker-1"].w.Stats().Shards; n != 2 {
			t.Errorf("worker-1 holds %d shards when one of three is not trusted", n)
		}
		others := 0
		cl.train(m, step, step)
		cl.c.mu.Lock()
		for _, slot := range seats[1:] {
			if cl.c.slots[slot].host == "worker-1" && cl.c.slots[slot].shards["fc1"].fresh(cl.c.version) {
				others++
			}
		}
		cl.c.mu.Unlock()
		if others != 2 {
			t.Errorf("%d of the two other seats still serve", others)
		}
		wrong = -1
		cl.await("worker-1", StateRepaired)
		step = cl.trainUntil(m, step+1, "repaired", func() bool { return cl.whole() })
		cl.kill("worker-3")
		cl.kill("worker-4") // so that no round can do without the seats of worker-1
		cl.train(m, step, step+3)
		if err := cl.fetched(m); err != nil {
			t.Error(err)
		}
	})
}

// When the line of a worker breaks while a product is under way, all its seats are lost
// at once, the others finish, and it comes back with the shards of every seat.
func TestLineBreaksMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		const pace = 1e-2
		cl.start(0, 1, seated(2, pace))
		cl.start(1, 5, seated(1, pace))
		m := wide(coded.Spec{Name: "trigonometric", N: 6, K: 4})
		cl.place(m)
		cl.train(m, 1, 2)
		time.Sleep(time.Minute) // the updates have been made, and their operands are gone
		x := m.operand(coded.Forward)
		r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward, Step: 3, Operand: x})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		synctest.Wait() // the operand has come, and the first chunks are being computed
		if n := cl.workers["worker-1"].waiting(); n != wideOperand {
			t.Errorf("%d bytes of operands at worker-1, want one of %d for both seats", n, wideOperand)
		}
		cl.cut("worker-1")
		for _, slots := range cl.holders() {
			if len(slots) != 1 {
				t.Errorf("slots are %v, want one each", cl.holders())
			}
		}
		if _, err := r.Wait(cl.ctx()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := cl.workers["worker-1"].waiting(); n != 0 {
			t.Errorf("worker-1 keeps %d bytes of operands without a coordinator", n)
		}
		cl.connect(cl.workers["worker-1"])
		cl.train(m, 3, 4)
		if n := cl.c.Stats().Repairs; !cl.whole() || n != 0 {
			t.Errorf("slots are %v after %d repairs, want all without any", cl.holders(), n)
		}
	})
}

// What a worker comes back with and is of no use any more it is told to forget.
func TestUselessShardsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 4})
		cl.start(0, 2, seated(2, 0))
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 4, K: 2}, 2, 6, 6), 1)
		cl.place(m)
		cl.train(m, 1, 2)
		cl.cut("worker-1")
		cl.add("worker-3") // takes a slot of worker-1
		step := cl.trainUntil(m, 3, "repaired", func() bool { return len(cl.holders()["worker-3"]) == 1 })
		cl.connect(cl.workers["worker-1"])
		cl.trainUntil(m, step, "whole", cl.whole)
		synctest.Wait()
		if n := cl.workers["worker-1"].w.Stats().Shards; n != 1 {
			t.Errorf("worker-1 holds %d shards for its slots %v", n, cl.holders()["worker-1"])
		}
	})
}

// Where slots have operands of their own, each seat is sent its own.
func TestSeatsHaveTheirOwnOperands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 4})
		cl.start(0, 2, seated(2, 0))
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 4, K: 4}, 2, 8, 8), 1)
		cl.place(m)
		round := coded.Round{Layer: "fc1", Product: coded.Forward, Step: 1}
		for range 4 {
			round.Slots = append(round.Slots, []coded.Tensor{m.operand(coded.Forward)})
		}
		r, err := cl.c.Start(cl.ctx(), round)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		answers, err := r.Wait(cl.ctx())
		if err != nil {
			t.Fatal(err)
		}
		for chunk, list := range answers {
			for _, a := range list {
				shard, err := newToyShard(m.layer, a.Slot)
				if err != nil {
					t.Fatal(err)
				}
				state, err := m.state(a.Slot)
				if err != nil {
					t.Fatal(err)
				}
				if err := shard.SetState(state); err != nil {
					t.Fatal(err)
				}
				want, err := shard.Multiply(coded.Forward, round.Slots[a.Slot][0], chunk)
				if err != nil || !slices.Equal(want.Data, a.Result.Data) {
					t.Errorf("chunk %d of slot %d is %v, %v; want %v", chunk, a.Slot, a.Result.Data, err, want.Data)
				}
			}
		}
	})
}

// emptyShard is that of a code of two factors: it holds nothing.
type emptyShard struct{ slot int }

func (emptyShard) Flops(coded.Product, []int) float64  { return 1000 }
func (emptyShard) Accumulate(x, dy coded.Tensor) error { return nil }
func (emptyShard) Apply(coded.Update) error            { return nil }
func (emptyShard) State() []coded.Tensor               { return nil }
func (emptyShard) SetState([]coded.Tensor) error       { return nil }
func (s emptyShard) Multiply(coded.Product, coded.Tensor, int) (coded.Tensor, error) {
	return coded.Tensor{Shape: []int{1}, Data: []float32{float32(s.slot)}}, nil
}

// Empty shards, of codes of two factors, move as others do, though there is nothing to
// copy.
func TestEmptyShardsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 9})
		empty := func(cfg *WorkerConfig) {
			cfg.Handlers = map[string]coded.Factory{"empty": func(_ coded.Layer, slot int) (coded.Shard, error) { return emptyShard{slot}, nil }}
		}
		cl.start(0, 4, seated(3, 0), empty)
		layer := coded.Layer{Name: "fc1", Kind: "empty", Code: coded.Spec{Name: "polynomial", N: 9, M: 3, Q: 2}, Chunks: 1}
		if err := cl.c.Place(cl.ctx(), layer, func(int) ([]coded.Tensor, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		round := func(step int) [][]coded.Answer {
			r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward, Step: step, Operand: coded.NewTensor(1)})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Release()
			answers, err := r.Wait(cl.ctx())
			if err != nil {
				t.Fatal(err)
			}
			return answers
		}
		round(1)
		cl.c.mu.Lock()
		names, loads, _ := cl.c.loads()
		to := slices.IndexFunc(loads, func(w load) bool { return w.held < w.seats })
		from := (to + 1) % len(loads)
		cl.c.startMove(names, loads, change{from, to})
		cl.c.mu.Unlock()
		step := 2
		for ; cl.c.Stats().Moves == 0; step++ {
			round(step)
			if err := cl.c.Update(cl.ctx(), coded.Update{Step: step}); err != nil || step > 100 {
				t.Fatalf("step %d: %v; slots are %v", step, err, cl.holders())
			}
			synctest.Wait()
		}
		if h := cl.holders(); len(h[names[from]]) != loads[from].held-1 || len(h[names[to]]) != loads[to].held+1 {
			t.Errorf("slots are %v after a move from %s to %s", h, names[from], names[to])
		}
		cl.kill(names[from])
		round(step)
		if n := cl.c.Stats().Repairs; n != 0 {
			t.Errorf("%d repairs of shards that hold nothing", n)
		}
	})
}
