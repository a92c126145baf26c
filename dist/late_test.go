package dist

import (
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// lateToyShard is a toyShard that puts gradients off and computes them row by row.
type lateToyShard struct {
	*toyShard
	x, dy coded.Tensor // of what is left
}

var _ coded.DeferringShard = (*lateToyShard)(nil)

// newSomeToyShard puts gradients off at every second slot.
func newSomeToyShard(l coded.Layer, slot int) (coded.Shard, error) {
	s, err := newToyShard(l, slot)
	if err != nil || slot%2 > 0 {
		return s, err
	}
	return &lateToyShard{toyShard: s.(*toyShard)}, nil
}

func (s *lateToyShard) UpdateFlops(x []int) float64 { return float64(x[0]) }

func (s *lateToyShard) Defer(x, dy coded.Tensor) error {
	for s.Proceed() > 0 {
	}
	s.x, s.dy = x, dy
	return nil
}

func (s *lateToyShard) Proceed() float64 {
	if len(s.x.Shape) == 0 || s.x.Shape[0] == 0 {
		return 0
	}
	cut := func(x *coded.Tensor) (row coded.Tensor) {
		cols := x.Shape[1]
		row = coded.Tensor{Shape: []int{1, cols}, Data: x.Data[:cols]}
		*x = coded.Tensor{Shape: []int{x.Shape[0] - 1, cols}, Data: x.Data[cols:]}
		return row
	}
	if err := s.Accumulate(cut(&s.x), cut(&s.dy)); err != nil {
		panic(err)
	}
	return 1
}

func (s *lateToyShard) Apply(u coded.Update) error {
	for s.Proceed() > 0 {
	}
	return s.toyShard.Apply(u)
}

func (s *lateToyShard) SetState(state []coded.Tensor) error {
	s.x, s.dy = coded.Tensor{}, coded.Tensor{}
	return s.toyShard.SetState(state)
}

// An update takes the gradient before it along if that is of its step, and nothing else.
func TestJoined(t *testing.T) {
	gradient := func(step int) *operation { return &operation{kind: opAccumulate, step: step} }
	update := func(step int) *operation { return &operation{kind: opUpdate, update: coded.Update{Step: step}} }
	fetch := &operation{kind: opFetch}
	for name, c := range map[string]struct {
		ops    []*operation
		joined bool
	}{
		"gradient and update":         {[]*operation{gradient(3), update(3), gradient(4)}, true},
		"no update yet":               {[]*operation{gradient(3)}, false},
		"two gradients":               {[]*operation{gradient(3), gradient(3), update(3)}, false},
		"the gradient of a step lost": {[]*operation{gradient(2), update(3)}, false},
		"an update alone":             {[]*operation{update(3), update(4)}, false},
		"something in between":        {[]*operation{gradient(3), fetch, update(3)}, false},
	} {
		h := &heldShard{ops: slices.Clone(c.ops)}
		op, taken := h.joined(), 1
		if c.joined {
			taken = 2
		}
		if op != c.ops[taken-1] || c.joined != (op.before == c.ops[0]) || len(h.ops) != len(c.ops)-taken {
			t.Errorf("%s: took %v (before it %v) and left %d of %d", name, op.kind, op.before, len(h.ops), len(c.ops))
		}
	}
}

// A gradient is computed part by part between more urgent work: products of other
// layers come first, and the update does the rest. Its operands are kept until then, and
// no longer, and all of it counts in the worker's speed.
func TestGradientPartByPart(t *testing.T) {
	const rows = 4
	s, h, shard := lateSession(t)
	gradient, freed := lateGradient(s, rows)
	h.add(gradient)
	step := func() *operation {
		t.Helper()
		s.mu.Lock()
		op := h.joined()
		s.mu.Unlock()
		if err := s.operate(t.Context(), h, op); err != nil {
			t.Fatal(err)
		}
		return op
	}
	for left := rows - 1; left >= 2; left-- {
		step()
		if got := shard.x.Shape[0]; got != left || len(h.ops) != 1 || h.ops[0] != gradient {
			t.Fatalf("%d rows left and %d operations, want %d and the gradient", got, len(h.ops), left)
		}
	}
	if *freed != 0 {
		t.Fatalf("%d bytes of operands released before the end", *freed)
	}
	h.add(&operation{kind: opUpdate, update: coded.Update{Step: 1, LR: 1, Scale: 1}})
	if op := step(); op.before != gradient || len(h.ops) != 0 || h.version != 1 {
		t.Errorf("%v with %v, %d operations left, version %d; want the update with the gradient", op.kind, op.before, len(h.ops), h.version)
	}
	if want := 4 * rows * (4 + 4); *freed != want {
		t.Errorf("%d bytes of operands released, want %d", *freed, want)
	}
	m := (<-s.out).m
	if m.Kind != KindApplied || m.Flops != rows {
		t.Errorf("message of kind %d reports %v flops, want %d of an update", m.Kind, m.Flops, rows)
	}
}

// What is returned to the queue of a shard that is given up meanwhile is not kept.
func TestGradientOfALostShard(t *testing.T) {
	s, h, shard := lateSession(t)
	gradient, freed := lateGradient(s, 4)
	h.add(gradient)
	s.mu.Lock()
	op := h.joined()
	h.dropOps()
	s.mu.Unlock()
	if err := s.operate(t.Context(), h, op); err != nil {
		t.Fatal(err)
	}
	if want := 4 * 4 * (4 + 4); len(h.ops) != 0 || *freed != want || shard.x.Shape[0] != 3 {
		t.Errorf("%d operations, %d bytes released, %d rows left; want none, %d and 3", len(h.ops), *freed, shard.x.Shape[0], want)
	}
}

// lateSession is a session that nobody serves, with a shard that puts gradients off.
func lateSession(t *testing.T) (*session, *heldShard, *lateToyShard) {
	t.Helper()
	w, err := NewWorker(WorkerConfig{Name: "w", Handlers: map[string]coded.Factory{toyKind: newSomeToyShard}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(w, nil, "run")
	s.unsent.Store(1) // as if a message was on its way: others wait in s.out
	l := toyLayer("fc", coded.Spec{Name: "trigonometric", N: 3, K: 2}, 1, 4, 4)
	shard, err := newSomeToyShard(l, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, &heldShard{layer: l, shard: shard, factory: newSomeToyShard}, shard.(*lateToyShard)
}

// lateGradient is the gradient of step 1 of so many rows, and the bytes of it that are
// released.
func lateGradient(s *session, rows int) (*operation, *int) {
	freed := new(int)
	operand := func() *counted {
		c := s.w.buffers.adopt(coded.NewTensor(rows, 4))
		c.freed = func(bytes int) { *freed += bytes }
		return c
	}
	return &operation{kind: opAccumulate, x: operand(), dy: operand(), step: 1}, freed
}
