package dist

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

// disagreeing counts the records of results that do not agree, and how often one of
// them names a worker.
func (b *logBook) disagreeing(worker string) (records, named int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, "results do not agree") {
			records++
			named += strings.Count(line, `"`+worker+`"`)
		}
	}
	return records, named
}

// raw runs a round whose result nobody looks at.
func (cl *cluster) raw(m *toyModel, step int) {
	cl.t.Helper()
	r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: m.layer.Name, Product: coded.Forward, Step: step, Operand: m.operand(coded.Forward)})
	if err != nil {
		cl.t.Fatal(err)
	}
	defer r.Release()
	if _, err := r.Wait(cl.ctx()); err != nil {
		cl.t.Fatal(err)
	}
}

// Where more results are decoded than needed, it is told how well they agree; a liar is
// logged, with those that it may be, once.
func TestResidualOfSpares(t *testing.T) {
	noLeaks(t)
	var last RoundStats
	var book logBook
	sets := [][]int{{0, 1, 2, 3, 4}}
	cl := newCluster(t, CoordinatorConfig{
		Slots: 6, Log: book.logger(), OnRound: func(s RoundStats) { last = s }, Select: func(RoundInfo) [][]int { return sets },
	})
	var lying atomic.Bool
	cl.start(0, 2)
	cl.start(2, 3, liar(&lying))
	cl.start(3, 6)
	m := newFC1()
	cl.place(m)
	cl.raw(m, 1)
	if last.Compared != min(m.layer.Chunks, maxCompared) || !(last.Residual > 0 && last.Residual < 1e-5) {
		t.Errorf("residual %g of %d comparisons of honest results", last.Residual, last.Compared)
	}
	lying.Store(true)
	for step := range 3 {
		if cl.raw(m, 2+step); !(last.Residual > largeResidual) {
			t.Errorf("residual %g with a liar", last.Residual)
		}
	}
	lying.Store(false)
	sets = [][]int{{0, 1, 3, 4}}
	if cl.raw(m, 5); last.Compared != 0 || last.Residual != 0 {
		t.Errorf("residual %g of %d comparisons without results to spare", last.Residual, last.Compared)
	}
	cl.close()
	if records, named := book.disagreeing("worker-3"); records != 1 || named != 1 {
		t.Errorf("%d records, the liar is named %d times; want once", records, named)
	}
}

// With verification every answer has its residual.
func TestResidualOfVerification(t *testing.T) {
	noLeaks(t)
	var last RoundStats
	cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: followToys(nil), OnRound: func(s RoundStats) { last = s }})
	cl.start(0, 6)
	m := newFC1()
	cl.place(m)
	cl.raw(m, 1)
	if least := m.code.K() * m.layer.Chunks; last.Compared < least || last.Residual < toyResidual || last.Residual > 1e-5 {
		t.Errorf("residual %g of %d comparisons, want %g of %d at least", last.Residual, last.Compared, toyResidual, least)
	}
}

// A result that comes when its chunk has enough is compared with those that are used.
func TestResidualOfLateResults(t *testing.T) {
	for name, off := range map[string]float32{"right": 0, "wrong": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newConditioned(t, 0, 2, InOrder, 1e3, 1e3)
				r, x := cl.begin()
				defer r.Release()
				time.Sleep(600 * time.Millisecond) // chunk 0 is ready, and slot 4 called off
				for _, chunk := range []int{0, 0, 7} {
					cl.late(r.id, 4, chunk, x, off)
				}
				if _, err := r.Wait(cl.ctx()); err != nil {
					t.Fatal(err)
				}
				if large := cl.last.Residual > largeResidual; cl.last.Compared != 1 || large != (off != 0) || len(cl.last.Answered) != 4 {
					t.Errorf("residual %g of %d comparisons, decoded from slots %v", cl.last.Residual, cl.last.Compared, cl.last.Answered)
				}
				r.Release()
				cl.close()
				if records, _ := cl.book.disagreeing("worker-5"); (records == 1) != (off != 0) {
					t.Errorf("%d records", records)
				}
			})
		})
	}
}

// late hands the coordinator the result of a slot's chunk, off by something.
func (c *conditioned) late(round uint64, slot, chunk int, x coded.Tensor, off float32) {
	c.t.Helper()
	s, err := newToyShard(c.m.layer, slot)
	if err != nil {
		c.t.Fatal(err)
	}
	state, err := c.m.state(slot)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.SetState(state); err != nil {
		c.t.Fatal(err)
	}
	y, err := s.Multiply(coded.Forward, x, chunk%c.m.layer.Chunks)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range y.Data {
		y.Data[i] += off
	}
	c.c.mu.Lock()
	defer c.c.mu.Unlock()
	m := &Message{Header: Header{Kind: KindResult, Round: round, Chunk: chunk, Slot: slot, Flops: 1e3, Nanos: 1e9}, Tensors: []coded.Tensor{y}}
	if err := c.c.onResult(c.c.slots[slot], m); err != nil {
		c.t.Fatal(err)
	}
}
