package shard

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
)

// BatchFollower is the coded.Follower of a layer whose batch is coded. All slots
// have the same weights, which come whole for every update: there is one vector (or
// filter) of sums for each chunk, made anew from them, so that no rounding adds up.
type BatchFollower struct {
	products coded.Follower // that of a resident layer of a single block
	*follower
	scales  []float64 // of the slots' states
	next    buffer    // weights
	back    buffer    // their transpose, of a Linear
	flip    func(dst, w []float32)
	pending bool
}

var _ coded.Follower = (*BatchFollower)(nil)

// NewBatchFollower draws the signs.
func NewBatchFollower(l coded.Layer, rng *rand.Rand) (*BatchFollower, error) {
	b, err := NewBatch(l, 0, nil) // for its checks
	if err != nil {
		return nil, err
	}
	w := &BatchFollower{}
	var f, r *followed
	switch s := b.Shard.(type) {
	case *Linear:
		products := &LinearFollower{config: s.config}
		w.products, w.follower = products, &products.follower
		f, r = s.config.follow(1, l.Chunks)
		w.flip = func(dst, x []float32) { transpose(nil, dst, x, s.config.Out, s.config.In) }
	case *Conv2d:
		products := &Conv2dFollower{config: s.config}
		w.products, w.follower = products, &products.follower
		f, r = s.config.follow(1, l.Chunks)
	}
	if err := w.begin(l, f, r, rng); err != nil {
		return nil, err
	}
	if w.scales, err = Scales(w.code); err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	w.row = func(slot int) []float64 {
		if slot < 0 || slot >= len(w.scales) {
			return nil
		}
		return one
	}
	return w, nil
}

// one is the row of a slot that has the weights themselves.
var one = []float64{1}

// Reset implements coded.Follower: every state has all weights.
func (w *BatchFollower) Reset(states []coded.ShardState) error {
	if len(states) == 0 {
		return fmt.Errorf("%s: follow: %w", w.name, coded.ErrTooFewResults)
	}
	s := states[0]
	if err := w.checkSlot(s.Slot, s.State); err != nil {
		return err
	}
	w.set(scaled(s.State[0], 1/w.scales[s.Slot]).Data)
	w.pending = false
	return nil
}

func (w *BatchFollower) checkSlot(slot int, state []coded.Tensor) error {
	if w.row(slot) == nil {
		return fmt.Errorf("%s: slot %d: there is no such thing", w.name, slot)
	}
	if len(state) != 1 || !shaped(state[0], w.f.shape) {
		return fmt.Errorf("%s, slot %d: state of %d tensors, want one of shape %v", w.name, slot, len(state), w.f.shape)
	}
	return nil
}

// set makes the sums of new weights.
func (w *BatchFollower) set(weights []float32) {
	w.f.set(weights)
	if !w.backward {
		return
	}
	if w.flip != nil {
		back := w.back.resize(len(weights)).Data
		w.flip(back, weights)
		weights = back
	}
	w.r.set(weights)
}

// set makes the sums of a single block.
func (f *followed) set(weights []float32) {
	clear(f.w)
	f.addSums(f.w, coded.Tensor{Shape: f.shape, Data: weights})
	f.norm = math.Sqrt(squares(f.w))
}

// Accumulate implements coded.Follower: x has the new weights.
func (w *BatchFollower) Accumulate(x, _ coded.Tensor) error {
	if want := elements(w.f.shape); len(x.Data) != want {
		return fmt.Errorf("%s: %d new weights, want %d of shape %v", w.name, len(x.Data), want, w.f.shape)
	}
	copy(w.next.resize(len(x.Data)).Data, x.Data)
	w.pending = true
	return nil
}

// Apply implements coded.Follower: the new weights, if there are any, take effect.
func (w *BatchFollower) Apply(u coded.Update) error {
	if err := validUpdate(u); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if w.pending {
		w.set(w.next.data)
		w.pending = false
	}
	return nil
}

// Check implements coded.Follower.
func (w *BatchFollower) Check(p coded.Product, slot, chunk int, operands []coded.Tensor, result coded.Tensor) (residual float64, err error) {
	return w.products.Check(p, slot, chunk, operands, result)
}

// CheckState implements coded.Follower.
func (w *BatchFollower) CheckState(slot int, state []coded.Tensor) error {
	if err := w.checkSlot(slot, state); err != nil {
		return err
	}
	if err := w.f.checkState(w.scales[slot:slot+1], state[0], w.off()); err != nil {
		return fmt.Errorf("%s, slot %d: the state: %w", w.name, slot, err)
	}
	return nil
}
