package shard

import (
	"fmt"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// LinearFollower is the coded.Follower of a fully connected layer. Its sums are
// trained by
//
//	dt_jC = (dY_j[:, C] z_C)^T X
type LinearFollower struct {
	follower
	config LinearConfig
}

var _ coded.Follower = (*LinearFollower)(nil)

// NewLinearFollower draws the signs.
func NewLinearFollower(l coded.Layer, rng *rand.Rand) (*LinearFollower, error) {
	s, err := NewLinear(l, 0, nil) // for its checks
	if err != nil {
		return nil, err
	}
	parts := l.Chunks
	if l.ByBatch {
		parts = 1
	}
	f, r := s.config.follow(len(s.row), parts)
	w := &LinearFollower{config: s.config}
	return w, w.begin(l, f, r, rng)
}

// follow describes the copies.
func (c LinearConfig) follow(blocks, parts int) (f, r *followed) {
	describe := func(shape []int) *followed {
		if shape == nil {
			return nil
		}
		return &followed{shape: shape, groups: 1, lines: 1, rows: shape[0], each: shape[1], blocks: blocks, parts: parts}
	}
	fs, rs := c.copies(blocks)
	return describe(fs), describe(rs)
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
	w.f.accumulate(dy, x, !w.pending)
	if w.backward {
		w.r.accumulate(x, dy, !w.pending)
	}
	w.pending = true
	return nil
}

// accumulate adds the gradient of the sums: the blocks of columns of y, summed up
// with the signs part by part, times x.
func (f *followed) accumulate(y, x coded.Tensor, first bool) {
	batch, n := x.Shape[0], f.blocks*f.parts
	folded := f.folded.resize(batch, n)
	for b := range batch {
		row := y.Data[b*y.Shape[1] : (b+1)*y.Shape[1]]
		for block := range f.blocks {
			for part := range f.parts {
				lo, hi := ChunkRange(f.rows, f.parts, part)
				begin := min(block*f.rows+lo, len(row))
				cut := row[begin:min(block*f.rows+hi, len(row))]
				folded.Data[b*n+block*f.parts+part] = kernel.Dot(cut, f.signs[lo:lo+len(cut)])
			}
		}
	}
	var beta float32
	if !first {
		beta = 1
	}
	kernel.Gemm(nil, true, false, n, f.each, batch, 1, folded.Data, n, x.Data, f.each, beta, f.g, f.each)
}

// Check implements coded.Follower.
func (w *LinearFollower) Check(p coded.Product, slot, chunk int, operands []coded.Tensor, result coded.Tensor) (residual float64, err error) {
	f, row, err := w.asked(p, slot, chunk, operands)
	if err != nil {
		return 0, err
	}
	part := chunk
	if f.parts < w.tasks {
		part = 0
	}
	scratch := w.scratch.Get().(*checkScratch)
	defer w.scratch.Put(scratch)
	sums := scratch.sums.resize(f.each)
	f.slot(sums.Data, row, part, part+1)
	lo, hi := ChunkRange(f.rows, f.parts, part)
	residual, err = coded.FollowedVerifier(f.signs[lo:hi], sums.Data, f.rounding(row, f.each, w.off())).Residual(result, operands[0])
	if err != nil {
		return residual, w.wrong(p, slot, chunk, err)
	}
	return residual, nil
}
