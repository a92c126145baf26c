package dist

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coda-ml/coda/coded"
)

// rowsShard is a toyShard that is given no more rows than a chunk needs.
type rowsShard struct{ *toyShard }

func (s rowsShard) Multiply(coded.Product, coded.Tensor, int) (coded.Tensor, error) {
	return coded.Tensor{}, errors.New("a whole operand in a round by rows")
}

func (s rowsShard) MultiplyRows(p coded.Product, rows coded.Tensor) (coded.Tensor, error) {
	whole := *s.toyShard
	whole.layer.ByBatch = true
	return whole.Multiply(p, rows, 0)
}

// Workers of a round by rows are sent the rows of their chunks with these and
// nothing else, those of their own slot where slots have operands of their own.
func TestRoundsByRows(t *testing.T) {
	for name, own := range map[string]bool{"operands of the slots": true, "one operand": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRoundByRows(t, own) })
		})
	}
}

func testRoundByRows(t *testing.T, own bool) {
	cl := newCluster(t, CoordinatorConfig{Slots: 4})
	cl.start(0, 2, seated(2, 0), func(cfg *WorkerConfig) {
		cfg.Handlers = map[string]coded.Factory{toyKind: func(l coded.Layer, slot int) (coded.Shard, error) {
			s, err := newToyShard(l, slot)
			if err != nil {
				return nil, err
			}
			return rowsShard{s.(*toyShard)}, nil
		}}
	})
	m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 4, K: 4}, 3, 8, 8), 1)
	m.batch = 5 // chunks of 1, 2 and 2 rows
	cl.place(m)
	round := coded.Round{Layer: "fc1", Product: coded.Forward, Step: 1, ByRows: true, Operand: m.operand(coded.Forward)}
	operands := slices.Repeat([]coded.Tensor{round.Operand}, 4)
	if own {
		for slot := range operands {
			operands[slot] = m.operand(coded.Forward)
			round.Slots = append(round.Slots, []coded.Tensor{operands[slot]})
		}
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
	byBatch := m.layer
	byBatch.ByBatch = true
	for chunk, list := range answers {
		for _, a := range list {
			want := toyProduct(t, m, a.Slot, byBatch.Operand(operands[a.Slot], chunk))
			if !slices.Equal(want.Data, a.Result.Data) || !slices.Equal(want.Shape, a.Result.Shape) {
				t.Errorf("chunk %d of slot %d is %v, want %v", chunk, a.Slot, a.Result, want)
			}
		}
	}
}

// toyProduct is the forward product of all rows by the shard of a slot.
func toyProduct(t *testing.T, m *toyModel, slot int, x coded.Tensor) coded.Tensor {
	t.Helper()
	l := m.layer
	l.ByBatch = true
	s, err := newToyShard(l, slot)
	if err != nil {
		t.Fatal(err)
	}
	state, err := m.state(slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetState(state); err != nil {
		t.Fatal(err)
	}
	y, err := s.Multiply(coded.Forward, x, 0)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// A round by rows is refused if a chunk would have none; shards that take whole operands
// only say so.
func TestRoundsByRowsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, CoordinatorConfig{Slots: 4})
		cl.start(0, 4)
		m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 4, K: 4}, 3, 8, 8), 1)
		m.batch = 3
		cl.place(m)
		round := coded.Round{Layer: "fc1", Product: coded.Forward, Step: 1, ByRows: true}
		for range 4 {
			round.Slots = append(round.Slots, []coded.Tensor{m.operand(coded.Forward)})
		}
		r, err := cl.c.Start(cl.ctx(), round)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if _, err := r.Wait(cl.ctx()); err == nil || !strings.Contains(err.Error(), "rows of its own") {
			t.Errorf("shards without products of rows: error %v", err)
		}
		m.batch = 2
		round.Slots[3] = []coded.Tensor{m.operand(coded.Forward)}
		if _, err := cl.c.Start(cl.ctx(), round); !errors.Is(err, coded.ErrTooFewRows) || !strings.Contains(err.Error(), "2 rows for 3 chunks") {
			t.Errorf("2 rows of 3 chunks: error %v, want %v", err, coded.ErrTooFewRows)
		}
	})
}
