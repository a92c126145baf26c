package shard

import (
	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// half is one coded copy of a layer's weights with its momentum and the
// gradient that waits for the next update, all of one shape.
type half struct {
	w, v, g coded.Tensor
	coded   buffer // an operand's coded block
	product buffer // result of the last product
}

func newHalf(shape ...int) half {
	return half{w: coded.NewTensor(shape...), v: coded.NewTensor(shape...), g: coded.NewTensor(shape...)}
}

// apply makes one step of the optimiser with the gradient.
func (h *half) apply(u coded.Update) {
	kernel.SGD(h.w.Data, h.v.Data, h.g.Data, kernel.SGDStep{
		LR: float32(u.LR), Momentum: float32(u.Momentum), Decay: float32(u.Decay), Scale: float32(u.Scale), Nesterov: u.Nesterov,
	})
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
