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

// Followers returns the factories of followers, by coded.Layer.Kind: there are
// those of fully connected layers.
func Followers() map[string]coded.FollowerFactory {
	return map[string]coded.FollowerFactory{
		KindLinear: func(l coded.Layer, rng *rand.Rand) (coded.Follower, error) {
			f, err := NewLinearFollower(l, rng)
			if err != nil { // not a nil *LinearFollower in a Follower
				return nil, err
			}
			return f, nil
		},
	}
}

// LinearFollower is the coded.Follower of a fully connected layer. With signs z,
// one for each row of a shard, it keeps for each block j of the weights and each
// chunk C of a shard's rows
//
//	t_jC = sum over r in C of z_r W_j[r, :]
//
// and a slot's sums are sum_j G_ij t_jC, for every slot: so that it costs k vectors
// a chunk, whatever n is. They are trained by
//
//	dt_jC = (dY_j[:, C] z_C)^T X
//
// in float64; the shards are in float32, and what each loses to rounding by and by
// is part of the limit: after 10,000 updates errors above 2e-4 of a shard's norm are
// found for certain, and the limit grows until Reset. The momenta are followed, not checked: a
// wrong one shows in the weights.
type LinearFollower struct {
	name    string
	config  LinearConfig
	code    *coded.Code
	decoder *coded.Decoder
	chunks  int      // of the shard: 1 if the layer is cut by batch
	tasks   int      // of a product
	f, r    followed // r is empty without Backward
	pending bool
	step    int // of the last update
	updates int // since Reset
}

var _ coded.Follower = (*LinearFollower)(nil)

// followed are the sums of one coded copy, which is [rows, cols].
type followed struct {
	rows, cols int
	signs      []float32 // by row
	w, v       []float64 // by block, chunk and column
	norm       float64   // of w; expected to be that of the weights
	g          []float32
	coded      buffer // batch x (blocks x chunks)

	scratch sync.Pool // of *[]float32: the sums of a slot's chunk
}

// NewLinearFollower draws the signs.
func NewLinearFollower(l coded.Layer, rng *rand.Rand) (*LinearFollower, error) {
	s, err := NewLinear(l, 0, nil) // for its checks
	if err != nil {
		return nil, err
	}
	code, err := coded.New(l.Code)
	if err != nil {
		return nil, fmt.Errorf("shard: layer %s: %w", l.Name, err)
	}
	parts := l.Chunks
	if l.ByBatch {
		parts = 1
	}
	w := &LinearFollower{
		name: "shard: layer " + l.Name, config: s.config, code: code, chunks: parts, tasks: l.Chunks,
		decoder: coded.NewDecoder(code, coded.DecoderConfig{}),
	}
	w.f.init(s.f.w, code.K()*parts, rng)
	if s.config.Backward {
		w.r.init(s.r.w, code.K()*parts, rng)
	}
	return w, nil
}

// init draws the signs.
func (f *followed) init(shard coded.Tensor, vectors int, rng *rand.Rand) {
	f.rows, f.cols = shard.Shape[0], shard.Shape[1]
	f.signs = make([]float32, f.rows)
	f.scratch.New = func() any { x := make([]float32, f.cols); return &x }
	for i := range f.signs {
		f.signs[i] = float32(2*rng.IntN(2) - 1)
	}
	n := vectors * f.cols
	f.w, f.v, f.g = make([]float64, n), make([]float64, n), make([]float32, n)
}

// copies gives the coded copies that there are; copy i has the tensors 2i, its
// weights, and 2i+1, its momentum, of a state.
func (w *LinearFollower) copies() []*followed {
	if !w.config.Backward {
		return []*followed{&w.f}
	}
	return []*followed{&w.f, &w.r}
}

// Reset implements coded.Follower.
func (w *LinearFollower) Reset(states []coded.ShardState) error {
	if err := w.take(states); err != nil {
		return fmt.Errorf("%s: follow: %w", w.name, err)
	}
	w.pending, w.step = false, 0
	return nil
}

// take decodes the blocks' sums from those of the slots.
func (w *LinearFollower) take(states []coded.ShardState) error {
	have := make([]int, len(states))
	for i, s := range states {
		have[i] = s.Slot
		if err := w.checkShapes(s.State); err != nil {
			return fmt.Errorf("slot %d: %w", s.Slot, err)
		}
	}
	weights, err := w.decoder.Weights(have)
	if err != nil {
		return err
	}
	for at, f := range w.copies() {
		f.take(f.w, weights.D, w.chunks, func(i int) coded.Tensor { return states[i].State[2*at] })
		f.take(f.v, weights.D, w.chunks, func(i int) coded.Tensor { return states[i].State[2*at+1] })
	}
	w.updates = 0
	for _, f := range w.copies() {
		f.norm = math.Sqrt(squares(f.w))
	}
	return nil
}

func (f *followed) take(dst []float64, decode [][]float64, chunks int, state func(i int) coded.Tensor) {
	clear(dst)
	n := chunks * f.cols
	for i := range decode[0] {
		sums := f.sums(state(i), chunks)
		for block, d := range decode {
			for at, s := range sums {
				dst[block*n+at] += d[i] * s
			}
		}
	}
}

// sums adds up the rows of each chunk of a shard's tensor, with the signs.
func (f *followed) sums(x coded.Tensor, chunks int) []float64 {
	sums := make([]float64, chunks*f.cols)
	for chunk := range chunks {
		lo, hi := ChunkRange(f.rows, chunks, chunk)
		sum := sums[chunk*f.cols : (chunk+1)*f.cols]
		for r := lo; r < hi; r++ {
			z := float64(f.signs[r])
			for c, v := range x.Data[r*f.cols : (r+1)*f.cols] {
				sum[c] += z * float64(v)
			}
		}
	}
	return sums
}

func (w *LinearFollower) checkShapes(state []coded.Tensor) error {
	copies := w.copies()
	if len(state) != 2*len(copies) {
		return fmt.Errorf("state of %d tensors, want %d", len(state), 2*len(copies))
	}
	for i, t := range state {
		f := copies[i/2]
		if !slices.Equal(t.Shape, []int{f.rows, f.cols}) || len(t.Data) != f.rows*f.cols {
			return fmt.Errorf("tensor %d of the state has shape %v and %d values, want [%d %d]", i, t.Shape, len(t.Data), f.rows, f.cols)
		}
	}
	return nil
}

// Accumulate implements coded.Follower.
func (w *LinearFollower) Accumulate(x, dy coded.Tensor) error {
	for _, t := range []struct {
		what string
		x    coded.Tensor
		cols int
	}{{"X", x, w.config.In}, {"dY", dy, w.config.Out}} {
		if s := t.x.Shape; len(s) != 2 || s[0] < 1 || s[0] != x.Shape[0] || s[1] != t.cols || len(t.x.Data) != s[0]*s[1] {
			return fmt.Errorf("%s: %s has shape %v and %d values, want [%d %d]", w.name, t.what, s, len(t.x.Data), x.Shape[0], t.cols)
		}
	}
	w.f.accumulate(dy, x, w.code.K(), w.chunks, !w.pending)
	if w.config.Backward {
		w.r.accumulate(x, dy, w.code.K(), w.chunks, !w.pending)
	}
	w.pending = true
	return nil
}

// accumulate adds the gradient of the sums: the blocks of columns of y, summed up
// with the signs chunk by chunk, times x.
func (f *followed) accumulate(y, x coded.Tensor, k, chunks int, first bool) {
	batch, n := x.Shape[0], k*chunks
	folded := f.coded.resize(batch, n)
	parts := coded.Blocks(y.Shape[1], k)
	for b := range batch {
		row := y.Data[b*y.Shape[1] : (b+1)*y.Shape[1]]
		for block := range k {
			for chunk := range chunks {
				lo, hi := ChunkRange(f.rows, chunks, chunk)
				begin := min(block*parts.Size+lo, len(row))
				cut := row[begin:min(block*parts.Size+hi, len(row))]
				folded.Data[b*n+block*chunks+chunk] = kernel.Dot(cut, f.signs[lo:lo+len(cut)])
			}
		}
	}
	var beta float32
	if !first {
		beta = 1
	}
	kernel.Gemm(nil, true, false, n, f.cols, batch, 1, folded.Data, n, x.Data, f.cols, beta, f.g, f.cols)
}

// Apply implements coded.Follower.
func (w *LinearFollower) Apply(u coded.Update) error {
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

// apply makes one step of the optimiser with the numbers that the shards round
// its settings to.
func (f *followed) apply(u coded.Update) {
	lr, momentum := float64(float32(u.LR)), float64(float32(u.Momentum))
	decay, scale := float64(float32(u.Decay)), float64(float32(u.Scale))
	for i, grad := range f.g {
		g := scale*float64(grad) + decay*f.w[i]
		v := momentum*f.v[i] + g
		f.v[i] = v
		if u.Nesterov {
			v = g + momentum*v
		}
		f.w[i] -= lr * v
	}
	f.norm = math.Sqrt(squares(f.w))
}

// off is what rounding may have set the shards and the sums apart by, in units of
// 2^-24 of the norm: each update rounds every weight once. Roundings are
// independent as a rule; not those of updates too small to change a weight, whose
// sum the second term allows for.
func (w *LinearFollower) off() float64 {
	t := float64(w.updates)
	return 16 + 8*math.Sqrt(t) + t/8
}

// Check implements coded.Follower.
func (w *LinearFollower) Check(p coded.Product, slot, chunk int, x, result coded.Tensor) error {
	f := &w.f
	if p == coded.Backward && w.config.Backward {
		f = &w.r
	} else if p != coded.Forward {
		return fmt.Errorf("%s: unknown or missing %s", w.name, p)
	}
	row := w.code.Row(slot)
	if row == nil || chunk < 0 || chunk >= w.tasks {
		return fmt.Errorf("%s: slot %d, chunk %d of the %s product: there is no such thing", w.name, slot, chunk, p)
	}
	part := chunk
	if w.chunks < w.tasks {
		part = 0
	}
	scratch := f.scratch.Get().(*[]float32)
	defer f.scratch.Put(scratch)
	sums := *scratch
	for c := range sums {
		sums[c] = float32(f.sum(row, part*f.cols+c, w.chunks))
	}
	lo, hi := ChunkRange(f.rows, w.chunks, part)
	norm := math.Sqrt(squares(row)) * f.norm // at least what is expected of the shard's
	if err := coded.FollowedVerifier(f.signs[lo:hi], sums, norm, w.off()).Check(result, x); err != nil {
		return fmt.Errorf("%s, slot %d, chunk %d of the %s product: %w", w.name, slot, chunk, p, err)
	}
	return nil
}

// sum is one of the sums of a slot: the combination of those of the blocks.
func (f *followed) sum(row []float64, at, chunks int) float64 {
	var sum float64
	for block, g := range row {
		sum += g * f.w[block*chunks*f.cols+at]
	}
	return sum
}

// CheckState implements coded.Follower.
func (w *LinearFollower) CheckState(slot int, state []coded.Tensor) error {
	row := w.code.Row(slot)
	if row == nil {
		return fmt.Errorf("%s: slot %d: there is no such thing", w.name, slot)
	}
	if err := w.checkShapes(state); err != nil {
		return fmt.Errorf("%s, slot %d: %w", w.name, slot, err)
	}
	for i, f := range w.copies() {
		var apart, size float64
		for at, s := range f.sums(state[2*i], w.chunks) {
			want := f.sum(row, at, w.chunks)
			apart += (s - want) * (s - want)
			size += want * want
		}
		apart = math.Sqrt(apart)
		limit := w.off() / (1 << 24) * math.Sqrt(max(size, kernel.SumSquares(state[2*i].Data)))
		if !(apart <= limit) || math.IsInf(apart, 0) {
			return fmt.Errorf("%s, slot %d: tensor %d of the state: %w", w.name, slot, 2*i, &coded.VerifyError{Difference: apart, Limit: limit})
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
