package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// LocalConfig is the configuration of NewLocal; the zero value will do.
type LocalConfig struct {
	Factories map[string]coded.Factory // nil: Factories()
	Survivors Survivors                // nil: RandomSurvivors(0)
}

// Local is a coded.Executor in this process. It holds the shards of all slots
// and computes exactly the answers of the slots that its Survivors choose, all
// on the caller's goroutine. It is deterministic if the Survivors are.
type Local struct {
	config LocalConfig
	layers map[string]*localLayer
	order  []string // names of the layers, sorted
	step   int      // of the last update
	free   []*answers
	spare  []*operand
}

type localLayer struct {
	coded.Layer
	code    *coded.Code
	tracker *coded.Tracker
	shards  []coded.Shard
	kept    [3][]*operand // by product: operands for the next update
}

// operand is a copy of a round's operand, used by the round and by an update.
type operand struct {
	coded.Tensor
	step  int
	users int
}

// answers is the memory of a round's answers.
type answers struct {
	list   [][]coded.Answer
	data   []float32
	shapes []int
}

var _ coded.Executor = (*Local)(nil)

// NewLocal returns an executor without layers.
func NewLocal(c LocalConfig) *Local {
	if c.Factories == nil {
		c.Factories = Factories()
	}
	if c.Survivors == nil {
		c.Survivors = RandomSurvivors(0)
	}
	return &Local{config: c, layers: make(map[string]*localLayer)}
}

// Place implements coded.Executor.
func (e *Local) Place(ctx context.Context, l coded.Layer, state func(slot int) ([]coded.Tensor, error)) error {
	fail := func(err error) error { return fmt.Errorf("shard: place layer %s: %w", l.Name, err) }
	code, err := coded.New(l.Code)
	if err != nil {
		return fail(err)
	}
	build, ok := e.config.Factories[l.Kind]
	if !ok {
		return fail(fmt.Errorf("no factory for kind %q", l.Kind))
	}
	p := &localLayer{Layer: l, code: code, tracker: coded.NewTracker(code)}
	for slot := range code.N() {
		if err := context.Cause(ctx); err != nil {
			return fail(err)
		}
		s, err := build(l, slot)
		if err != nil {
			return fail(err)
		}
		tensors, err := state(slot)
		if err != nil {
			return fail(err)
		}
		if err := s.SetState(tensors); err != nil {
			return fail(err)
		}
		p.shards = append(p.shards, s)
	}
	if _, again := e.layers[l.Name]; !again {
		e.order = append(e.order, l.Name)
		slices.Sort(e.order)
	}
	e.layers[l.Name] = p
	return nil
}

// Shard returns the shard of a layer at a slot, nil if there is none.
func (e *Local) Shard(layer string, slot int) coded.Shard {
	l := e.layers[layer]
	if l == nil || slot < 0 || slot >= len(l.shards) {
		return nil
	}
	return l.shards[slot]
}

// Start implements coded.Executor. The products are computed by Wait.
func (e *Local) Start(ctx context.Context, r coded.Round) (coded.Pending, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("shard: layer %s: start: %w", r.Layer, err)
	}
	l := e.layers[r.Layer]
	if l == nil {
		return nil, fmt.Errorf("shard: layer %s has not been placed", r.Layer)
	}
	if err := r.Check(l.code.N()); err != nil {
		return nil, fmt.Errorf("shard: layer %s: %w", r.Layer, err)
	}
	p := &round{local: e, layer: l, round: r, open: true}
	if r.Slots != nil {
		p.slots = make([][]*operand, len(r.Slots))
		for slot, list := range r.Slots {
			for _, t := range list {
				p.slots[slot] = append(p.slots[slot], e.copyOperand(t))
			}
		}
		return p, nil
	}
	p.operand = e.copyOperand(r.Operand)
	p.operand.step = r.Step
	if r.Keep {
		p.operand.users++
		l.kept[r.Product] = append(l.kept[r.Product], p.operand)
	}
	return p, nil
}

func (e *Local) copyOperand(t coded.Tensor) *operand {
	x := &operand{}
	if n := len(e.spare); n > 0 {
		x, e.spare = e.spare[n-1], e.spare[:n-1]
	}
	x.Shape = append(x.Shape[:0], t.Shape...)
	x.Data = append(x.Data[:0], t.Data...)
	x.users = 1
	return x
}

func (e *Local) drop(x *operand) {
	x.users--
	if x.users == 0 {
		e.spare = append(e.spare, x)
	}
}

// Update implements coded.Executor. The forward operands kept by the step's
// rounds are paired with the backward ones in their order. What earlier steps
// kept is dropped: they failed, or they would have been updated. An update that
// was made already is passed over.
func (e *Local) Update(ctx context.Context, u coded.Update) error {
	if err := validUpdate(u); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	if u.Step <= e.step {
		return nil
	}
	for _, name := range e.order {
		l := e.layers[name]
		for p, list := range l.kept {
			l.kept[p] = slices.DeleteFunc(list, func(x *operand) bool {
				old := x.step != u.Step
				if old {
					e.drop(x)
				}
				return old
			})
		}
		if len(l.kept[coded.Forward]) != len(l.kept[coded.Backward]) {
			return fmt.Errorf("shard: layer %s: step %d: %d forward and %d backward operands kept for the update",
				name, u.Step, len(l.kept[coded.Forward]), len(l.kept[coded.Backward]))
		}
	}
	for _, name := range e.order {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("shard: layer %s: step %d: update: %w", name, u.Step, err)
		}
		if err := e.update(e.layers[name], u); err != nil {
			return err
		}
	}
	e.step = u.Step
	return nil
}

func (e *Local) update(l *localLayer, u coded.Update) error {
	xs, dys := l.kept[coded.Forward], l.kept[coded.Backward]
	for _, s := range l.shards {
		accumulate := s.Accumulate
		if d, ok := s.(coded.DeferringShard); ok {
			accumulate = d.Defer // the operands stay until Apply
		}
		for i, x := range xs {
			if err := accumulate(x.Tensor, dys[i].Tensor); err != nil {
				return err
			}
		}
		if err := s.Apply(u); err != nil {
			return err
		}
	}
	for i, x := range xs {
		e.drop(x)
		e.drop(dys[i])
	}
	l.kept[coded.Forward], l.kept[coded.Backward] = xs[:0], dys[:0]
	return nil
}

// Fetch implements coded.Executor: the states of the slots that the Survivors
// choose, copied.
func (e *Local) Fetch(ctx context.Context, layer string, tensors ...int) ([]coded.ShardState, error) {
	return e.fetch(ctx, layer, tensors, func(l *localLayer) ([]int, error) { return e.choose(l, coded.Round{Layer: layer, Step: e.step}, 0) })
}

// FetchAll implements coded.Executor: the states of all slots, copied.
func (e *Local) FetchAll(ctx context.Context, layer string, tensors ...int) ([]coded.ShardState, error) {
	return e.fetch(ctx, layer, tensors, func(l *localLayer) (all []int, _ error) {
		for slot := range l.shards {
			all = append(all, slot)
		}
		return all, nil
	})
}

func (e *Local) fetch(ctx context.Context, layer string, tensors []int, choose func(*localLayer) ([]int, error)) ([]coded.ShardState, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("shard: layer %s: fetch: %w", layer, err)
	}
	l := e.layers[layer]
	if l == nil {
		return nil, fmt.Errorf("shard: layer %s has not been placed", layer)
	}
	slots, err := choose(l)
	if err != nil {
		return nil, err
	}
	states := make([]coded.ShardState, len(slots))
	for i, slot := range slots {
		states[i].Slot = slot
		state, err := coded.SelectTensors(l.shards[slot].State(), tensors)
		if err != nil {
			return nil, fmt.Errorf("shard: layer %s, slot %d: fetch: %w", layer, slot, err)
		}
		for _, t := range state {
			states[i].State = append(states[i].State, coded.Tensor{Shape: slices.Clone(t.Shape), Data: slices.Clone(t.Data)})
		}
	}
	return states, nil
}

// choose asks the Survivors for the slots of a chunk and checks that they do.
func (e *Local) choose(l *localLayer, r coded.Round, chunk int) ([]int, error) {
	slots := e.config.Survivors(l.code, r, chunk)
	t := l.tracker
	t.Reset()
	for i, s := range slots {
		if s < 0 || s >= len(l.shards) || i > 0 && s <= slots[i-1] {
			return nil, fmt.Errorf("shard: layer %s: survivors %v, want slots below %d in increasing order", l.Name, slots, len(l.shards))
		}
		t.Add(s)
	}
	if t.Ready() {
		return slots, nil
	}
	tooFew := &coded.TooFewError{Layer: l.Name, Product: r.Product, Step: r.Step, Have: len(slots), Need: l.code.Threshold()}
	for s := range l.shards {
		if !t.Has(s) {
			tooFew.Missing = append(tooFew.Missing, fmt.Sprintf("slot %d (not a survivor)", s))
		}
	}
	return nil, tooFew
}

// round is a pending round.
type round struct {
	local   *Local
	layer   *localLayer
	round   coded.Round
	open    bool         // until Release
	operand *operand     // the same for all slots; or
	slots   [][]*operand // by slot
	answers *answers
}

// operands returns those of a slot.
func (r *round) operands(slot int) []coded.Tensor {
	if r.slots == nil {
		return []coded.Tensor{r.operand.Tensor}
	}
	var list []coded.Tensor
	for _, x := range r.slots[slot] {
		list = append(list, x.Tensor)
	}
	return list
}

// Wait implements coded.Pending.
func (r *round) Wait(ctx context.Context) ([][]coded.Answer, error) {
	name := fmt.Sprintf("shard: layer %s: %s product", r.layer.Name, r.round.Product)
	switch {
	case !r.open:
		return nil, errors.New(name + ": waited for after its release")
	case r.round.Discard:
		return nil, errors.New(name + ": waited for although its result is discarded")
	case r.answers != nil:
		return r.answers.list, nil
	}
	a := &answers{}
	if n := len(r.local.free); n > 0 {
		a, r.local.free = r.local.free[n-1], r.local.free[:n-1]
	}
	if err := r.compute(ctx, a); err != nil {
		r.local.free = append(r.local.free, a)
		return nil, err
	}
	r.answers = a
	return a.list, nil
}

// compute fills a with the answers of the chosen slots.
func (r *round) compute(ctx context.Context, a *answers) error {
	l := r.layer
	a.data = a.data[:0]
	a.list = slices.Grow(a.list[:0], l.Chunks)[:l.Chunks]
	a.shapes = a.shapes[:0]
	for chunk := range l.Chunks {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("shard: layer %s: %s product: %w", l.Name, r.round.Product, err)
		}
		slots, err := r.local.choose(l, r.round, chunk)
		if err != nil {
			return err
		}
		a.list[chunk] = a.list[chunk][:0]
		for _, slot := range slots {
			operands := r.operands(slot)
			operands[0] = l.Operand(operands[0], chunk)
			t, err := coded.Multiply(nil, l.shards[slot], r.round.Product, operands, chunk)
			if err != nil {
				return err
			}
			// Earlier results keep the memory that they were given when a.data grows.
			at := len(a.data)
			a.data = append(a.data, t.Data...)
			a.list[chunk] = append(a.list[chunk], coded.Answer{
				Slot: slot, Result: coded.Tensor{Shape: a.shape(t.Shape), Data: a.data[at:]},
			})
		}
	}
	return nil
}

// shape copies a shape into memory that lasts: like a.data, what was given out
// stays when the memory grows.
func (a *answers) shape(s []int) []int {
	at := len(a.shapes)
	a.shapes = append(a.shapes, s...)
	return a.shapes[at:len(a.shapes):len(a.shapes)]
}

// Release implements coded.Pending.
func (r *round) Release() {
	if !r.open {
		return
	}
	r.open = false
	if r.operand != nil {
		r.local.drop(r.operand)
	}
	for _, list := range r.slots {
		for _, x := range list {
			r.local.drop(x)
		}
	}
	if r.answers != nil {
		r.local.free = append(r.local.free, r.answers)
		r.answers = nil
	}
}
