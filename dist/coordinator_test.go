package dist

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
)

var trig64 = coded.Spec{Name: "trigonometric", N: 6, K: 4}

// newFC1 is a (6,4) coded layer of 12 by 24 with products in 3 chunks.
func newFC1() *toyModel { return newToyModel(toyLayer("fc1", trig64, 3, 12, 24), 1) }

func TestTraining(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 20)
	if s := cl.c.Stats(); s.Rounds != 40 || s.Updates != 20 || s.BytesIn == 0 || s.BytesOut == 0 {
		t.Errorf("stats are %+v, want 40 rounds and 20 updates", s)
	}
	if err := cl.fetched(m); err != nil {
		t.Error(err)
	}
}

// subsets lists the subsets of size k of 0..n-1.
func subsets(n, k int) (sets [][]int) {
	for bits := range 1 << n {
		var set []int
		for i := range n {
			if bits>>i&1 == 1 {
				set = append(set, i)
			}
		}
		if len(set) == k {
			sets = append(sets, set)
		}
	}
	return sets
}

func TestEverySurvivorSet(t *testing.T) {
	noLeaks(t)
	var set []int
	var last RoundStats
	cl := newCluster(t, CoordinatorConfig{
		Slots:   6,
		Select:  func(RoundInfo) [][]int { return [][]int{set} },
		OnRound: func(s RoundStats) { last = s },
	})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	for i, s := range subsets(6, 4) {
		set = s
		if _, err := cl.trainStep(m, i+1); err != nil {
			t.Fatalf("set %v: %v", set, err)
		}
		if !slices.Equal(last.Answered, set) {
			t.Errorf("answered %v, selected were %v", last.Answered, set)
		}
	}
	if s := cl.c.Stats(); s.Wasted != 0 {
		t.Errorf("%g of %g work was wasted although only the selected were asked", s.Wasted, s.Work)
	}
}

func TestOtherCodes(t *testing.T) {
	for _, spec := range []coded.Spec{{Name: "uncoded", N: 3, K: 3}, {Name: "replication", N: 6, K: 3}} {
		t.Run(spec.Name, func(t *testing.T) {
			noLeaks(t)
			cl := newCluster(t, CoordinatorConfig{Slots: spec.N})
			cl.start(0, spec.N)
			m := newToyModel(toyLayer("fc1", spec, 2, 12, 12), 1)
			cl.place(m)
			cl.train(m, 1, 5)
		})
	}
}

func TestKillsUntilTooFew(t *testing.T) {
	noLeaks(t)
	lows := make(chan Low, 10)
	cl := newCluster(t, CoordinatorConfig{Slots: 6, OnLow: func(l Low) { lows <- l }})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 3)
	cl.kill("worker-2")
	cl.train(m, 4, 6)
	if cl.c.Low() {
		t.Error("low with five of six workers, four needed")
	}
	cl.kill("worker-4")
	if low := <-lows; low.Layer != "fc1" || low.Fresh != 4 || !cl.c.Low() {
		t.Errorf("notice is %+v, want 4 fresh slots of fc1", low)
	}
	cl.train(m, 7, 9)
	cl.kill("worker-5")
	_, err := cl.trainStep(m, 10)
	var few *coded.TooFewError
	if !errors.As(err, &few) || !errors.Is(err, coded.ErrTooFewResults) {
		t.Fatalf("error is %v, want a TooFewError", err)
	}
	if few.Layer != "fc1" || few.Step != 10 || few.Product != coded.Forward || few.Have != 3 || few.Need != 4 {
		t.Errorf("error is %+v", few)
	}
	want := []string{"worker-2 (failed after step 3: ", "worker-4 (failed after step 6: ", "worker-5 (failed after step 9: "}
	if len(few.Missing) != 3 {
		t.Fatalf("missing are %q", few.Missing)
	}
	for i, w := range want {
		if !strings.HasPrefix(few.Missing[i], w) {
			t.Errorf("missing %d is %q, want %q...", i, few.Missing[i], w)
		}
	}
	if _, err := cl.c.Fetch(cl.ctx(), "fc1"); !errors.Is(err, coded.ErrTooFewResults) || !strings.Contains(err.Error(), "worker-2") {
		t.Errorf("fetch gives %v, want too few results and names", err)
	}
}

func TestManyRoundsAtATime(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	layers := []*toyModel{newFC1(), newToyModel(toyLayer("fc2", coded.Spec{Name: "trigonometric", N: 5, K: 2}, 2, 8, 8), 2)}
	for _, m := range layers {
		cl.place(m)
	}
	for range 5 {
		var pending []coded.Pending
		var operands []coded.Tensor
		for _, m := range layers {
			for range 3 {
				x := m.operand(coded.Forward)
				r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: m.layer.Name, Product: coded.Forward, Operand: x})
				if err != nil {
					t.Fatal(err)
				}
				pending, operands = append(pending, r), append(operands, x)
			}
		}
		for i := len(pending) - 1; i >= 0; i-- { // in another order than they were started
			m := layers[i/3]
			answers, err := pending[i].Wait(cl.ctx())
			if err != nil {
				t.Fatal(err)
			}
			y, err := m.decode(coded.Forward, answers, 3)
			if err != nil {
				t.Fatal(err)
			}
			if d := distance(y, m.want(coded.Forward, operands[i])); d > toyTolerance {
				t.Errorf("round %d differs by %g", i, d)
			}
			pending[i].Release()
			pending[i].Release()
		}
	}
}

func TestDiscardAndAccumulate(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	const lr = 0.05
	truth := slices.Clone(m.w)
	for range 3 { // three micro-batches; the first layer's dX is not wanted
		x, _, err := cl.product(m, coded.Forward, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		dy := m.operand(coded.Backward)
		r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Backward, Step: 1, Operand: dy, Keep: true, Discard: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(cl.ctx()); err == nil {
			t.Error("a discarded round can be waited for")
		}
		r.Release()
		m.w, truth = truth, m.w
		m.step(x, dy, lr)
		m.w, truth = truth, m.w
	}
	m.w = truth
	for range 2 { // the second is the same step again
		if err := cl.c.Update(cl.ctx(), coded.Update{Step: 1, LR: lr, Scale: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := cl.product(m, coded.Forward, 2, false); err != nil {
		t.Fatal(err)
	}
}

func TestGradientOfAFailedStepIsDropped(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 2)
	for _, p := range []coded.Product{coded.Forward, coded.Backward, coded.Forward} {
		if _, _, err := cl.product(m, p, 3, true); err != nil {
			t.Fatal(err)
		}
	}
	cl.train(m, 4, 6) // step 3 got no update
}

func TestUpdateRefusesUnpairedOperands(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	if _, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Backward, Step: 1, Operand: m.operand(coded.Backward), Keep: true}); err == nil {
		t.Error("a gradient without its operand was taken")
	}
	if _, _, err := cl.product(m, coded.Forward, 1, true); err != nil {
		t.Fatal(err)
	}
	err := cl.c.Update(cl.ctx(), coded.Update{Step: 1, LR: 1})
	if err == nil || !strings.Contains(err.Error(), "1 operands of forward and 0 of backward") {
		t.Errorf("update gives %v, want an error that counts the operands", err)
	}
}

func TestPlaceAnew(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 5)
	other := newToyModel(m.layer, 7)
	cl.place(other)
	cl.train(other, 1, 5) // steps begin again, as after going back to a checkpoint
}

func TestPlaceWaitsForEnoughWorkers(t *testing.T) {
	noLeaks(t)
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 3)
	m := newFC1()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough waited"))
	err := cl.c.Place(ctx, m.layer, m.state)
	if !errors.Is(err, coded.ErrTooFewResults) || !strings.Contains(err.Error(), "slot 3 (no worker has joined)") {
		t.Fatalf("place gives %v, want too few results that name the slots", err)
	}
	done := make(chan error, 1)
	placeCtx := cl.ctx()
	go func() { done <- cl.c.Place(placeCtx, m.layer, m.state) }()
	cl.add("worker-4")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	cl.train(m, 1, 2)
	cl.add("worker-6") // gets its shard by repair
	cl.await("worker-6", StateRepaired)
	cl.settle("fc1")
	cl.kill("worker-1")
	cl.train(m, 3, 4)
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	cl := newCluster(t, CoordinatorConfig{Slots: 2})
	ctx := cl.ctx()
	if _, err := cl.c.Start(ctx, coded.Round{Layer: "fc9", Product: coded.Forward}); err == nil || !strings.Contains(err.Error(), "fc9") {
		t.Errorf("start of an unknown layer gives %v", err)
	}
	if _, err := cl.c.Start(ctx, coded.Round{Layer: "fc9", Product: 7}); err == nil || !strings.Contains(err.Error(), "product(7)") {
		t.Errorf("start of an unknown product gives %v", err)
	}
	if _, err := cl.c.Fetch(ctx, "fc9"); err == nil || !strings.Contains(err.Error(), "fc9") {
		t.Errorf("fetch of an unknown layer gives %v", err)
	}
	if err := cl.c.Place(ctx, toyLayer("fc1", trig64, 1, 8, 8), nil); err == nil || !strings.Contains(err.Error(), "6 slots") {
		t.Errorf("a code with more slots than the cluster gives %v", err)
	}
	if err := cl.c.Place(ctx, coded.Layer{Name: "fc1"}, nil); err == nil || !strings.Contains(err.Error(), "0 chunks") {
		t.Errorf("a layer without chunks gives %v", err)
	}
	if _, err := NewCoordinator(CoordinatorConfig{Queue: -1}); err == nil || !strings.Contains(err.Error(), "slots is 0") || !strings.Contains(err.Error(), "queue is -1") {
		t.Errorf("a bad configuration gives %v, want both problems", err)
	}
	if _, err := NewWorker(WorkerConfig{Pace: -1}); err == nil || !strings.Contains(err.Error(), "name") || !strings.Contains(err.Error(), "pace") {
		t.Errorf("a bad configuration gives %v, want every problem", err)
	}
}
