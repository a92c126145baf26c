package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Followers returns the factories of followers, by coded.Layer.Kind: of every kind
// that is trained.
func Followers() map[string]coded.FollowerFactory {
	return map[string]coded.FollowerFactory{
		KindLinear: followers(NewLinearFollower),
		KindConv2d: followers(NewConv2dFollower),
		KindBatch:  followers(NewBatchFollower),

		KindGradient: followers(NewPairFollower),
		KindShipped:  followers(NewPairFollower),
	}
}

func followers[F coded.Follower](build func(coded.Layer, *rand.Rand) (F, error)) coded.FollowerFactory {
	return func(l coded.Layer, rng *rand.Rand) (coded.Follower, error) {
		f, err := build(l, rng)
		if err != nil { // not a nil F in a Follower
			return nil, err
		}
		return f, nil
	}
}

// follower is what the followers of resident layers have in common. With signs z,
// one for each row of a coded copy (see followed), it keeps for each block j of the
// weights and each part C of a shard's rows, those of a chunk,
//
//	t_jC = sum over r in C of z_r W_j[r]
//
// and a slot's sums are sum_j G_ij t_jC, for every slot: so that it costs k vectors
// a chunk, whatever n is. They are trained in float64 by the same operands and
// updates as the shards, which are in float32; what each loses to rounding by and by
// is part of the limit: after 10,000 updates errors above 2e-4 of a shard's norm are
// found for certain, and the limit grows until Reset.
//
// The momenta are followed, since the weights need them, and not tested: gradients
// that cancel leave no bound on what rounding may do to them. A wrong one shows in
// the weights after the next updates.
type follower struct {
	name     string
	code     *coded.Code
	decoder  *coded.Decoder
	row      func(slot int) []float64 // of a slot's products, over the blocks; nil: no such slot
	tasks    int                      // chunks of a product
	backward bool
	f, r     followed // r is empty without backward
	pending  bool
	step     int // of the last update
	updates  int // since Reset

	scratch sync.Pool // of *checkScratch
}

// begin makes the follower of a layer whose copies are described; r is nil if it
// keeps none.
func (w *follower) begin(l coded.Layer, f, r *followed, rng *rand.Rand) error {
	code, err := coded.New(l.Code)
	if err != nil {
		return fmt.Errorf("shard: layer %s: %w", l.Name, err)
	}
	w.name, w.code, w.row, w.tasks = "shard: layer "+l.Name, code, code.Row, l.Chunks
	w.decoder = coded.NewDecoder(code, coded.DecoderConfig{})
	w.scratch.New = func() any { return &checkScratch{} }
	w.f = *f
	if w.backward = r != nil; w.backward {
		w.r = *r
	}
	for _, c := range w.copies() {
		c.init(rng)
	}
	return nil
}

// checkScratch is memory for one test.
type checkScratch struct {
	sums, line, part buffer
	signs            []float32
	rows             [][]float32
	got, want        []float64
	ws               kernel.Workspace
}

// clearSums makes what is wanted so many zeros.
func (s *checkScratch) clearSums(n int) {
	s.want = slices.Grow(s.want[:0], n)[:n]
	clear(s.want)
}

// copies gives the coded copies that there are; copy i has the tensors 2i, its
// weights, and 2i+1, its momentum, of a state.
func (w *follower) copies() []*followed {
	if !w.backward {
		return []*followed{&w.f}
	}
	return []*followed{&w.f, &w.r}
}

// Reset implements coded.Follower.
func (w *follower) Reset(states []coded.ShardState) error {
	if err := w.take(states); err != nil {
		return fmt.Errorf("%s: follow: %w", w.name, err)
	}
	w.pending, w.step = false, 0
	return nil
}

// take decodes the blocks' sums from those of the slots. States without momenta are of
// a layer whose momenta are zero.
func (w *follower) take(states []coded.ShardState) error {
	have, momenta := make([]int, len(states)), true
	for i, s := range states {
		have[i] = s.Slot
		if i == 0 {
			momenta = len(s.State) != len(w.copies())
		}
		if err := w.checkShapes(s.State, momenta); err != nil {
			return fmt.Errorf("slot %d: %w", s.Slot, err)
		}
	}
	weights, err := w.decoder.Weights(have)
	if err != nil {
		return err
	}
	per := tensorsOf(momenta)
	for at, f := range w.copies() {
		f.take(f.w, weights.D, func(i int) coded.Tensor { return states[i].State[per*at] })
		if clear(f.v); momenta {
			f.take(f.v, weights.D, func(i int) coded.Tensor { return states[i].State[per*at+1] })
		}
		f.norm = math.Sqrt(squares(f.w))
	}
	w.updates = 0
	return nil
}

// tensorsOf is how many tensors of a state there are for each copy.
func tensorsOf(momenta bool) int {
	if momenta {
		return 2
	}
	return 1
}

func (w *follower) checkShapes(state []coded.Tensor, momenta bool) error {
	copies, per := w.copies(), tensorsOf(momenta)
	if len(state) != per*len(copies) {
		return fmt.Errorf("state of %d tensors, want %d", len(state), per*len(copies))
	}
	for i, t := range state {
		if f := copies[i/per]; !shaped(t, f.shape) {
			return fmt.Errorf("tensor %d of the state has shape %v and %d values, want %v", i, t.Shape, len(t.Data), f.shape)
		}
	}
	return nil
}

// Apply implements coded.Follower.
func (w *follower) Apply(u coded.Update) error {
	if err := validUpdate(u); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if u.Step <= w.step {
		return nil
	}
	w.step = u.Step
	if !w.pending {
		return nil
	}
	for _, f := range w.copies() {
		f.apply(u)
	}
	w.pending = false
	w.updates++
	return nil
}

// off is what rounding may have set the shards and the sums apart by, in units of
// 2^-24 of the norm: each update rounds every weight once. Roundings are
// independent as a rule; not those of updates too small to change a weight, whose
// sum the second term allows for.
func (w *follower) off() float64 {
	t := float64(w.updates)
	return 16 + 8*math.Sqrt(t) + t/8
}

// asked returns the copy and the row that a chunk is computed with.
func (w *follower) asked(p coded.Product, slot, chunk int, operands []coded.Tensor) (*followed, []float64, error) {
	if len(operands) != 1 {
		return nil, nil, fmt.Errorf("%s: %s product of %d operands, want 1", w.name, p, len(operands))
	}
	f := &w.f
	if p == coded.Backward && w.backward {
		f = &w.r
	} else if p != coded.Forward {
		return nil, nil, fmt.Errorf("%s: unknown or missing %s", w.name, p)
	}
	row := w.row(slot)
	if row == nil || chunk < 0 || chunk >= w.tasks {
		return nil, nil, fmt.Errorf("%s: slot %d, chunk %d of the %s product: there is no such thing", w.name, slot, chunk, p)
	}
	return f, row, nil
}

// wrong says of which answer an error is.
func (w *follower) wrong(p coded.Product, slot, chunk int, err error) error {
	return fmt.Errorf("%s, slot %d, chunk %d of the %s product: %w", w.name, slot, chunk, p, err)
}

// CheckState implements coded.Follower.
func (w *follower) CheckState(slot int, state []coded.Tensor) error {
	row := w.row(slot)
	if row == nil {
		return fmt.Errorf("%s: slot %d: there is no such thing", w.name, slot)
	}
	if err := w.checkShapes(state, true); err != nil {
		return fmt.Errorf("%s, slot %d: %w", w.name, slot, err)
	}
	for i, f := range w.copies() {
		if err := f.checkState(row, state[2*i], w.off()); err != nil {
			return fmt.Errorf("%s, slot %d: tensor %d of the state: %w", w.name, slot, 2*i, err)
		}
	}
	return nil
}

func squares(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v * v
	}
	return sum
}
