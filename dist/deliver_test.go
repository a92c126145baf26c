package dist

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// placing begins to place a model's layer; its delivery is the test's.
func (cl *cluster) placing(m *toyModel) (*placement, *delivery) {
	cl.t.Helper()
	p, err := cl.c.prepare(m.layer, m.state)
	if err != nil {
		cl.t.Fatal(err)
	}
	cl.c.mu.Lock()
	defer cl.c.mu.Unlock()
	cl.c.install(p)
	return p, cl.c.newDelivery(p)
}

// lent returns the states of a model in memory that the next call uses again.
func (m *toyModel) lent() func(slot int) ([]coded.Tensor, error) {
	var memory []coded.Tensor
	return func(slot int) ([]coded.Tensor, error) {
		state, err := m.state(slot)
		if err != nil {
			return nil, err
		}
		if memory == nil {
			for _, x := range state {
				memory = append(memory, coded.NewTensor(x.Shape...))
			}
		}
		for i, x := range state {
			copy(memory[i].Data, x.Data)
		}
		return memory, nil
	}
}

// States that are large go to the workers one by one, all in the memory of one; small
// ones together.
func TestDeliveryHoldsOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		first, err := m.state(0)
		if err != nil {
			t.Fatal(err)
		}
		for most, buffers := range map[int]int{1: len(first), deliveryBytes: 6 * len(first)} {
			_, d := cl.placing(m)
			d.most = most
			if err := d.run(cl.ctx(), m.lent()); err != nil {
				t.Fatal(err)
			}
			if d.buffers.made > buffers || most == 1 && d.buffers.made != buffers {
				t.Errorf("at most %d bytes under way: %d buffers, want %d", most, d.buffers.made, buffers)
			}
			cl.settle("fc1")
			if err := cl.fetched(m); err != nil {
				t.Error(err)
			}
		}
	})
}

// A worker that does not take its state holds the others up for no longer than a grace,
// and is not repaired from them meanwhile; nor is one whose turn has not come.
func TestDeliveryPassesOverFrozenWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		_, d := cl.placing(m)
		d.most = 1
		cl.freeze("worker-2")
		begin := time.Now()
		if err := d.run(cl.ctx(), m.lent()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < placeGrace || took > placeGrace+time.Second {
			t.Errorf("took %v, want the grace for one worker, %v", took, placeGrace)
		}
		cl.thaw("worker-2")
		cl.settle("fc1")
		if n := cl.c.Stats().Repairs; n != 0 {
			t.Errorf("%d repairs", n)
		}
		if err := cl.fetched(m); err != nil {
			t.Error(err)
		}
		cl.train(m, 1, 3)
	})
}

// A worker that joins when the states have been encoded, before the first update, is given
// that of its slot.
func TestDeliveryKeepsStatesOfMissingWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 5)
		m := newFC1()
		_, d := cl.placing(m)
		d.most = 1
		if err := d.run(cl.ctx(), m.lent()); err != nil {
			t.Fatal(err)
		}
		cl.start(5, 6)
		cl.settle("fc1")
		if n := cl.c.Stats().Repairs; n != 0 {
			t.Errorf("%d repairs", n)
		}
		cl.train(m, 1, 3)
	})
}

func TestDeliveryOfBadState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		none := errors.New("none left")
		err := cl.c.Place(cl.ctx(), m.layer, func(slot int) ([]coded.Tensor, error) {
			if slot == 3 {
				return nil, none
			}
			return m.state(slot)
		})
		if !errors.Is(err, none) || !strings.Contains(err.Error(), "fc1") || !strings.Contains(err.Error(), "state of slot 3") {
			t.Errorf("%v, want layer, slot and %v", err, none)
		}
		cl.place(m) // anew
		cl.train(m, 1, 2)
	})
}

// Of a state, Fetch brings the tensors that were asked for, and the error for one that
// there is not says so.
func TestFetchTensors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 6})
		cl.start(0, 6)
		m := newFC1()
		cl.place(m)
		cl.train(m, 1, 2)
		all, err := cl.c.FetchAll(cl.ctx(), "fc1")
		if err != nil {
			t.Fatal(err)
		}
		before := cl.c.Stats().BytesIn
		some, err := cl.c.FetchAll(cl.ctx(), "fc1", 1)
		if err != nil {
			t.Fatal(err)
		}
		whole, least := int64(0), int64(0)
		for i, s := range some {
			want := all[i]
			if len(s.State) != 1 || s.Slot != want.Slot || !equalBits(s.State[0].Data, want.State[1].Data) {
				t.Errorf("slot %d: %d tensors, want tensor 1 of slot %d alone", s.Slot, len(s.State), want.Slot)
			}
			whole += int64(bytesOf(want.State))
			least += int64(bytesOf(s.State))
		}
		if n := cl.c.Stats().BytesIn - before; n < least || n >= whole {
			t.Errorf("%d bytes came in, want those of the tensor, %d, and not of all, %d", n, least, whole)
		}
		if _, err := cl.c.Fetch(cl.ctx(), "fc1", 17); !errors.Is(err, coded.ErrTooFewResults) {
			t.Errorf("tensor 17: %v, want an error of kind %v", err, coded.ErrTooFewResults)
		}
		cl.train(m, 3, 4) // nobody was lost over it
	})
}
