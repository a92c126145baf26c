package dist

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
)

// heldShard is a shard on a worker, with the operations that it must do in
// their order. version is what it has applied, tail what it will have applied
// when the queue is empty. The shard itself belongs to the computing goroutine;
// the rest is guarded by session.mu.
type heldShard struct {
	layer   coded.Layer
	slot    int
	placed  uint64 // the placement
	source  uint64 // the placement or repair that its state came by
	factory coded.Factory

	shard   coded.Shard // nil until its first state has come
	version int
	tail    int
	ops     []*operation
	dropped bool       // the queue has been given up
	states  int        // operations in the queue that replace the state
	xs      []pendingX // of forward products that wait for their gradients, oldest first
	pending int        // step of the gradient that the shard has gathered; 0: none

	flops float64       // of the gradients since the last report of the version
	took  time.Duration // so long for them
}

// pendingX is the operand of a forward product of a training step.
type pendingX struct {
	operand *counted
	step    int
}

type opKind uint8

const (
	opPlace opKind = iota
	opReceive
	opAccumulate
	opUpdate
	opDonate
	opFetch
	opKeep
)

type operation struct {
	kind   opKind
	at     uint64 // arrival, orders the operations of all shards
	state  []coded.Tensor
	inbox  *inbox
	x, dy  *counted
	step   int
	update coded.Update
	header Header
	begun  time.Time  // of a gradient: when the shard got the operands
	left   float64    // of a gradient: floating-point operations
	before *operation // of an update: the gradient that is computed with it
}

// release gives the operands back.
func (op *operation) release() {
	op.x.release()
	op.dy.release()
	if op.before != nil {
		op.before.release()
	}
}

func (h *heldShard) add(op *operation) {
	h.ops = append(h.ops, op)
	if op.kind == opPlace || op.kind == opReceive {
		h.states++
	}
}

// dropOps forgets what is queued, of a shard that is given up.
func (h *heldShard) dropOps() {
	for _, op := range h.ops {
		op.release()
	}
	h.ops, h.states, h.dropped = nil, 0, true
	h.dropXs()
}

func (h *heldShard) dropXs() {
	for _, x := range h.xs {
		x.operand.release()
	}
	h.xs = nil
}

// keep notes the operand of a forward product. Those of other steps are of
// steps that have failed.
func (h *heldShard) keep(x *counted, step int) {
	if len(h.xs) > 0 && h.xs[0].step != step {
		h.dropXs()
	}
	h.xs = append(h.xs, pendingX{x, step})
}

// pair takes the oldest operand of a step for its gradient, nil if there is none.
func (h *heldShard) pair(step int) *counted {
	if len(h.xs) == 0 || h.xs[0].step != step {
		return nil
	}
	x := h.xs[0].operand
	h.xs = h.xs[1:]
	return x
}

// ready tells whether the first operation of the queue can be done.
func (h *heldShard) ready() bool {
	return len(h.ops) > 0 && (h.ops[0].kind != opReceive || h.ops[0].inbox.full())
}

// serves tells whether products of a version can be computed now.
func (h *heldShard) serves(version int) bool {
	return h.shard != nil && h.version == version && h.states == 0
}

func (h *heldShard) describe() Held {
	return Held{Layer: h.layer.Name, Slot: h.slot, State: h.tail, Placed: h.placed, Source: h.source}
}

// newShard makes the entry for the shard that a Place or Receive announces.
func (s *session) newShard(m *Message) (*heldShard, error) {
	l := m.Place
	if l == nil || l.Name != m.Layer || l.Chunks < 1 || m.Slot < 0 || m.State < 0 {
		return nil, fmt.Errorf("layer %q: slot %d at update %d without a proper description of the layer", m.Layer, m.Slot, m.State)
	}
	factory := s.w.cfg.Handlers[l.Kind]
	if factory == nil {
		return nil, fmt.Errorf("layer %s: no handler for kind %q", m.Layer, l.Kind)
	}
	if _, known := s.shards[shardKey{m.Layer, m.Slot}]; !known && len(s.shards) >= maxHeld {
		return nil, fmt.Errorf("layer %s: more than %d shards", m.Layer, maxHeld)
	}
	return &heldShard{layer: *l, slot: m.Slot, placed: m.Placed, source: m.Round, factory: factory, version: -1, tail: m.State}, nil
}

func (h *heldShard) key() shardKey { return shardKey{h.layer.Name, h.slot} }

// replaceShard puts h in the place of an earlier shard of its layer and slot.
func (s *session) replaceShard(h *heldShard) {
	if old := s.shards[h.key()]; old != nil {
		old.dropOps()
	}
	s.shards[h.key()] = h
}

// restore queues the return of a parked shard, before the session begins.
func (s *session) restore(p parked) {
	h := &heldShard{
		layer: p.layer, slot: p.held.Slot, placed: p.held.Placed, source: p.held.Source,
		factory: s.w.cfg.Handlers[p.layer.Kind], version: -1, tail: p.held.State,
	}
	h.add(&operation{kind: opPlace, state: p.tensor})
	s.shards[h.key()] = h
}

// park gives the states of the shards when nothing runs any more. What was
// queued is lost: the coordinator will send it again.
func (s *session) park() map[shardKey]parked {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[shardKey]parked{}
	for key, h := range s.shards {
		if h.shard == nil || h.broken() {
			continue
		}
		held := h.describe()
		held.State = h.version
		var state []coded.Tensor
		if err := s.w.guard(func() error { state = h.shard.State(); return nil }); err != nil {
			continue
		}
		kept[key] = parked{layer: h.layer, held: held, tensor: slices.Clone(state)}
	}
	return kept
}

// broken tells whether the shard's state is not that of its version.
func (h *heldShard) broken() bool { return h.version < 0 }

// guard calls handlers: it turns their panic into an error, and logs its stack.
func (w *Worker) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.cfg.Log.Error("handler panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
