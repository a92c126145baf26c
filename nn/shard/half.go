package shard

import (
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// half is one coded copy of a layer's weights with its momentum and the
// gradient that waits for the next update, all of one shape.
type half struct {
	w, v    coded.Tensor
	g       []float32 // nil until something is written to it
	late    late
	coded   buffer // an operand's coded block
	product buffer // result of the last product
}

// late is a part of a gradient that has not been computed: the rows of block^T x from
// row at on. The zero value is of a gradient that is all in half.g.
type late struct {
	block, x coded.Tensor // [batch, rows], [batch, cols]
	at, rows int
	add      bool // to what half.g holds
}

// apart keeps the momenta half a page from where the weights lie in theirs: a processor
// that compares the lower address bits alone, as most do, would hold a load of the one
// back for the store to the other before.
const apart = 512

func newHalf(shape ...int) half {
	v := make([]float32, apart+elements(shape))
	return half{w: coded.NewTensor(shape...), v: coded.Tensor{Shape: slices.Clone(shape), Data: v[apart:]}}
}

// gradient returns the memory of the gradient.
func (h *half) gradient() []float32 {
	if h.g == nil {
		h.g = make([]float32, len(h.w.Data))
	}
	return h.g
}

// compute adds up to so many late rows to the gradient.
func (h *half) compute(pool *kernel.Pool, rows int) {
	l := &h.late
	if rows = min(rows, l.rows-l.at); rows == 0 {
		return
	}
	var beta float32
	if l.add {
		beta = 1
	}
	batch, cols := l.x.Shape[0], l.x.Shape[1]
	kernel.Gemm(pool, true, false, rows, cols, batch, 1, l.block.Data[l.at:], l.rows, l.x.Data, cols, beta, h.gradient()[l.at*cols:], cols)
	if l.at += rows; l.at == l.rows {
		*l = late{}
	}
}

// apply makes one step of the optimiser with the gradient. Rows of it that are late
// do not go through memory, unless there is something to add them to.
func (h *half) apply(pool *kernel.Pool, u coded.Update) {
	step := kernel.SGDStep{
		LR: float32(u.LR), Momentum: float32(u.Momentum), Decay: float32(u.Decay), Scale: float32(u.Scale), Nesterov: u.Nesterov,
	}
	if h.late.add {
		h.compute(pool, h.late.rows)
	}
	l := h.late
	if l.rows == 0 {
		kernel.SGD(h.w.Data, h.v.Data, h.g, step)
		return
	}
	batch, cols := l.x.Shape[0], l.x.Shape[1]
	cut := l.at * cols
	if cut > 0 {
		kernel.SGD(h.w.Data[:cut], h.v.Data[:cut], h.g[:cut], step)
	}
	kernel.GemmSGD(pool, true, false, l.rows-l.at, cols, batch, l.block.Data[l.at:], l.rows, l.x.Data, cols, h.w.Data[cut:], h.v.Data[cut:], step)
	h.late = late{}
}

// buffer is memory for a tensor whose size varies with the batch.
type buffer struct {
	data  []float32
	shape []int
}

// resize returns a tensor with undefined elements in the memory of b, which
// grows if it has to.
func (b *buffer) resize(shape ...int) coded.Tensor {
	n := elements(shape)
	if cap(b.data) < n {
		b.data = make([]float32, n)
	}
	b.shape = append(b.shape[:0], shape...)
	return coded.Tensor{Shape: b.shape, Data: b.data[:n]}
}

// elements is the number of values of a shape.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
