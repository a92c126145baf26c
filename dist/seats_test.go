package dist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// seated makes a worker with several seats that is as fast as a device of so many
// GFLOP/s.
func seated(seats int, pace float64) func(*WorkerConfig) {
	return func(cfg *WorkerConfig) { cfg.Seats, cfg.Pace = seats, pace }
}

// costlyShard tells what its gradients cost: as much as both products.
type costlyShard struct{ *toyShard }

func (s costlyShard) UpdateFlops(x []int) float64 { return 4 * float64(x[0]*len(s.f)) }

// costly gives a worker shards whose updates take time.
func costly(cfg *WorkerConfig) {
	cfg.Handlers = map[string]coded.Factory{toyKind: func(l coded.Layer, slot int) (coded.Shard, error) {
		s, err := newToyShard(l, slot)
		if err != nil {
			return nil, err
		}
		return costlyShard{s.(*toyShard)}, nil
	}}
}

// ofSixteen is a layer over 16 slots, any 10 of which suffice.
func ofSixteen() *toyModel {
	m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 16, K: 10}, 2, 20, 20), 3)
	m.tolerance = 1e-3 // ten neighbours have a condition number of 700
	return m
}

// holders returns the slots of each worker, in order.
func (cl *cluster) holders() map[string][]int {
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	slots := map[string][]int{}
	for slot, l := range cl.c.slots {
		if l != nil {
			slots[l.host] = append(slots[l.host], slot)
		}
	}
	return slots
}

// trainUntil trains from a step until something is true, and returns the next step.
func (cl *cluster) trainUntil(m *toyModel, step int, what string, ok func() bool) int {
	cl.t.Helper()
	for limit := step + 1000; !ok(); step++ {
		if step == limit {
			cl.t.Fatalf("after 1000 steps not yet %s: %v", what, cl.holders())
		}
		cl.train(m, step, step)
		synctest.Wait()
	}
	return step
}

// Every worker has its first slot before any has a second, and that is opposite.
func TestSlotsAreSpreadOverWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 16})
		for _, i := range []int{3, 1, 8, 2, 5, 4, 7, 6} {
			cl.add(fmt.Sprintf("worker-%d", i), seated(3, 0))
		}
		if err := cl.c.AwaitWorkers(cl.ctx(), 8); err != nil {
			t.Fatal(err)
		}
		m := ofSixteen()
		cl.place(m)
		cl.train(m, 1, 3)
		for i := range 8 {
			name := fmt.Sprintf("worker-%d", i+1)
			if got := cl.holders()[name]; !slices.Equal(got, []int{i, i + 8}) {
				t.Errorf("%s has slots %v, want %d and %d", name, got, i, i+8)
			}
		}
		if names := cl.c.Workers(); len(names) != 24 || names[8] != "worker-1/2" {
			t.Errorf("workers are %q", names)
		}
	})
}

// Who has been slow for long has fewer slots; every product is right meanwhile, and the
// layer is never low. The slots of a worker that dies go to the others,
// and it gets some when it comes back.
func TestSlotsFollowSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var low []string
		cl := newCluster(t, CoordinatorConfig{Slots: 16, OnLow: func(l Low) { low = append(low, fmt.Sprint(l)) }})
		const pace = 1e-5 // 24 ms for a slot's product
		cl.start(0, 6, seated(3, pace), costly)
		cl.start(6, 8, seated(3, pace/5), costly)
		m := ofSixteen()
		cl.place(m)
		balanced := func() bool {
			h := cl.holders()
			return len(h["worker-7"]) <= 1 && len(h["worker-8"]) <= 1
		}
		still := func() bool {
			cl.c.mu.Lock()
			defer cl.c.mu.Unlock()
			_, loads, _ := cl.c.loads()
			_, more := cl.c.job().next(loads)
			return !more && cl.c.move == nil
		}
		step := cl.trainUntil(m, 1, "balanced", balanced)
		e := cl.awaitMove()
		if !strings.Contains(e.Reason, "of worker-7") && !strings.Contains(e.Reason, "of worker-8") {
			t.Errorf("the first move is %v, want a slot of a slow worker", e)
		}
		if s := cl.c.Stats(); s.Moves < 2 || s.Rebuilds != 0 || s.LeftOut != 0 {
			t.Errorf("%d moves, %d rebuilds and %d slots left out, want some moves only", s.Moves, s.Rebuilds, s.LeftOut)
		}
		step = cl.trainUntil(m, step, "still", still)
		step = cl.steady(m, step)

		cl.kill("worker-2")
		step = cl.trainUntil(m, step, "whole", func() bool { return cl.whole() && balanced() })
		if slots := cl.holders()["worker-2"]; slots != nil {
			t.Errorf("worker-2 is dead and has slots %v", slots)
		}
		cl.add("worker-2", seated(3, pace), costly)
		step = cl.trainUntil(m, step, "shared", func() bool { return len(cl.holders()["worker-2"]) > 0 && cl.whole() })
		cl.train(m, step, step+2)
		if err := cl.fetched(m); err != nil {
			t.Error(err)
		}
		if len(low) > 0 {
			t.Errorf("the layer was low: %q", low)
		}
	})
}

// awaitMove waits for an event of a slot that has moved.
func (cl *cluster) awaitMove() Event {
	cl.t.Helper()
	ctx := cl.ctx()
	for {
		select {
		case e := <-cl.events:
			if e.State == StateMoved {
				return e
			}
		case <-ctx.Done():
			cl.t.Fatal("no slot has moved")
		}
	}
}

// whole tells whether every slot has a worker that holds its shard.
func (cl *cluster) whole() bool {
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	return len(cl.c.held("fc1")) == len(cl.c.slots)
}

// steady trains for a while in which no slot should move, and returns the next step.
func (cl *cluster) steady(m *toyModel, step int) int {
	cl.t.Helper()
	before := cl.c.Stats().Moves
	last := step + balanceEvery + 4
	cl.trainUntil(m, step, "through", func() bool { step++; return step > last })
	if n := cl.c.Stats().Moves - before; n > 0 {
		cl.t.Errorf("%d more moves in %d steps: %v", n, balanceEvery, cl.holders())
	}
	return last
}

// A move is given up when its shards cannot be copied, and when the new seat is lost; the
// slot stays with whom it has worked.
func TestMoveThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, RepairDeadline: 5 * time.Second})
		cl.start(0, 3, seated(3, 1e-4), func(cfg *WorkerConfig) {
			cfg.Dial = func(context.Context, string) (*Conn, error) { return nil, errors.New("no way to peers") }
		})
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 6, K: 3}, 2, 12, 12), 3)
		cl.place(m)
		moving := func() bool {
			cl.c.mu.Lock()
			defer cl.c.mu.Unlock()
			return cl.c.move != nil
		}
		begin := func() {
			synctest.Wait()
			cl.c.mu.Lock()
			defer cl.c.mu.Unlock()
			names, loads, _ := cl.c.loads()
			cl.c.startMove(names, loads, change{from: 0, to: 1})
		}
		cl.train(m, 1, 2)
		begin()
		if !moving() {
			t.Fatal("no move has begun")
		}
		step := cl.trainUntil(m, 3, "given up", func() bool { return !moving() })
		if n := cl.c.Stats().Moves; n != 0 {
			t.Fatalf("%d moves without a way between the workers", n)
		}
		time.Sleep(2 * repairPause) // the new seat is left alone for a while
		begin()
		cl.kill("worker-2")
		if moving() {
			t.Error("the move goes on without its new seat")
		}
		cl.train(m, step, step+1)
	})
}

// Where few losses are to be borne, slots that slow workers cannot keep up with are left
// out; they are made again when others are lost.
func TestSlotsAreLeftOut(t *testing.T) {
	for name, c := range map[string]struct{ seats, n, k, live int }{
		"one seat":    {1, 8, 5, 6},
		"three seats": {3, 16, 10, 12},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, CoordinatorConfig{Slots: c.n, Losses: 1})
				const pace = 1e-5
				cl.start(0, 6, seated(c.seats, pace), costly)
				cl.start(6, 8, seated(c.seats, pace/10), costly)
				m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: c.n, K: c.k}, 2, 20, 20), 3)
				m.tolerance = 1e-2 // two gaps in the circle
				cl.place(m)
				live := func() (slots int) {
					for _, held := range cl.holders() {
						slots += len(held)
					}
					return slots
				}
				step := cl.trainUntil(m, 1, "left out", func() bool { return live() == c.live })
				if h := cl.holders(); h["worker-7"] != nil || h["worker-8"] != nil {
					t.Errorf("slots are %v, want none of the slow workers", h)
				}
				if e := cl.await("worker-7", StateRelieved); !strings.Contains(e.Reason, "a step takes less time without") {
					t.Errorf("relieved since %q", e.Reason)
				}
				if s := cl.c.Stats(); s.LeftOut != c.n-c.live {
					t.Errorf("%d slots left out, want %d", s.LeftOut, c.n-c.live)
				}
				step = cl.steady(m, step)
				if n := cl.workers["worker-7"].w.Stats().Shards; n != 0 {
					t.Errorf("worker-7 still holds %d shards", n)
				}
				cl.kill("worker-2")
				step = cl.trainUntil(m, step, "made again", func() bool {
					cl.c.mu.Lock()
					defer cl.c.mu.Unlock()
					held := cl.c.held("fc1")
					return len(held)-cl.c.most(held) >= c.k
				})
				cl.kill("worker-3")
				cl.train(m, step, step+2)
			})
		})
	}
}

// A slot that was left out can be given to a worker again, which is repaired.
func TestSlotIsFilledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Losses: 1})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 3)
		synctest.Wait() // every shard is fresh
		cl.c.mu.Lock()
		for slot, want := range []bool{true, false} { // four are needed, and one for a loss
			if done := cl.c.leaveOut(cl.c.slots[slot]); done != want {
				t.Errorf("slot %d is left out: %t, want %t", slot, done, want)
			}
		}
		cl.c.mu.Unlock()
		cl.train(m, 4, 5)
		cl.c.mu.Lock()
		if !cl.c.fill("worker-1") || cl.c.fill("worker-1") {
			t.Error("one slot is to be filled, and no other")
		}
		cl.c.heal()
		cl.c.mu.Unlock()
		step := cl.trainUntil(m, 6, "whole", cl.whole)
		cl.kill("worker-3")
		cl.kill("worker-4")
		cl.train(m, step, step+2)
	})
}

// A worker says how many seats it has, within a bound.
func TestSeatsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 2})
		for _, seats := range []int{-1, maxSeats + 1} {
			here, there := net.Pipe()
			done := make(chan error, 1)
			go func() {
				_, err := cl.c.AddWorker(cl.ctx(), NewConn(here))
				done <- err
			}()
			peer := NewConn(there)
			var m Message
			if err := peer.Recv(&m); err != nil {
				t.Fatal(err)
			}
			hello := Header{Kind: KindHello, Role: RoleWorker, Run: m.Run, From: "liar", Seats: seats}
			if err := peer.Send(cl.ctx(), &Message{Header: hello}); err != nil {
				t.Fatal(err)
			}
			if err, want := <-done, fmt.Sprintf("hello of a worker with %d seats, want at most 64", seats); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			peer.Close()
		}
	})
}

// Attach takes a worker in with all its seats, and again.
func TestAttachTakesEverySeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 4})
		w := cl.launch("worker-1", seated(3, 0))
		cl.workers["worker-1"] = w
		roster := newTestRoster()
		ctx, cancel := context.WithCancel(t.Context())
		attached := make(chan error, 1)
		go func() { attached <- cl.c.Attach(ctx, roster, cl.net.dial) }()
		roster.set(Member{ID: "worker-1-a", Name: "worker-1", Addr: "worker-1", Role: RoleWorker})
		each := func(state string) { cl.t.Helper(); cl.awaitEach(state, "worker-1", "worker-1/2", "worker-1/3") }
		each(StateJoined)
		if err := cl.c.AwaitSeats(cl.ctx(), 3); err != nil {
			t.Fatal(err)
		}
		w.node.sever()
		each(StateFailed)
		each(StateJoined)
		cancel()
		<-attached
	})
}

// One seat at a time computes, all with the one pace of the worker, which draws its
// slowness once for a product.
func TestSeatsShareTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 3})
		drawn := map[uint64]int{}
		cl.add("worker-1", seated(3, 1e-6), func(cfg *WorkerConfig) {
			cfg.Slow = func(i ProductInfo) float64 { drawn[i.Round]++; return 2 }
		})
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 3, K: 3}, 2, 6, 6), 1)
		cl.place(m)
		begin := time.Now()
		cl.train(m, 1, 1)
		// Two products of 3 slots, each 2*3*6*2 flops, in nanoseconds.
		want := 2 * 3 * 72 * 2 / 1e-6 * float64(time.Nanosecond)
		if took := float64(time.Since(begin)); took < 0.99*want || took > 1.05*want+float64(2*lag) {
			t.Errorf("a step took %v, want about %v", time.Duration(took), time.Duration(want))
		}
		synctest.Wait()
		for round, n := range drawn {
			if n != 1 {
				t.Errorf("round %d: slowness drawn %d times", round, n)
			}
		}
		if s := cl.workers["worker-1"].w.Stats(); len(drawn) != 2 || s.Tasks != 12 || s.Shards != 3 {
			t.Errorf("%d products drawn, %d tasks with %d shards, want 2, 12, 3", len(drawn), s.Tasks, s.Shards)
		}
	})
}

// Shards of every seat outlive a broken connection, and a worker with several seats
// serves one run all the same.
func TestSeatsKeepTheirShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 4})
		cl.start(0, 2, seated(2, 0))
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "trigonometric", N: 4, K: 2}, 2, 6, 6), 1)
		cl.place(m)
		cl.train(m, 1, 3)
		cl.cut("worker-1")
		synctest.Wait()
		if n := cl.workers["worker-1"].w.Stats().Kept; n != 2 {
			t.Errorf("worker-1 keeps %d shards, want 2", n)
		}
		cl.connect(cl.workers["worker-1"])
		cl.train(m, 4, 4)
		cl.kill("worker-2")
		cl.train(m, 5, 6)
		if n := cl.c.Stats().Repairs; n != 0 {
			t.Errorf("%d repairs of shards that were kept", n)
		}
		other := newCluster(t, CoordinatorConfig{Slots: 1})
		conn, err := cl.net.dial(cl.ctx(), "worker-1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.c.AddWorker(cl.ctx(), conn); !errors.Is(err, ErrRefused) {
			t.Errorf("another run gets %v, want a refusal", err)
		}
	})
}
