package shard

import (
	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// half is one coded copy of a layer's weights with its momentum and the
// gradient that waits for the next update, each rows x cols. Row r belongs to
// feature r of every block; the product of an operand with cols columns is
// operand * w^T, so a chunk of columns of the product is a range of whole rows.
type half struct {
	side
	w, v, g coded.Tensor
	coded   matrix // an operand's coded block, batch x rows
	product matrix // result of multiply
}

func newHalf(s side) half {
	return half{side: s, w: coded.NewTensor(s.rows, s.cols), v: coded.NewTensor(s.rows, s.cols), g: coded.NewTensor(s.rows, s.cols)}
}

// multiply computes columns lo to hi of x * w^T. The result is borrowed.
func (h *half) multiply(pool *kernel.Pool, x coded.Tensor, lo, hi int) coded.Tensor {
	batch, n := x.Shape[0], hi-lo
	y := h.product.resize(batch, n)
	kernel.Gemm(pool, false, true, batch, n, h.cols, 1, x.Data, h.cols, h.w.Data[lo*h.cols:], h.cols, 0, y.Data, n)
	return y
}

// accumulate adds (sum_j row[j] y_j)^T * x to the gradient, where y_j are the
// blocks of columns of y. The gradient is overwritten if it is the first.
func (h *half) accumulate(pool *kernel.Pool, row []float64, y, x coded.Tensor, first bool) error {
	batch := x.Shape[0]
	block := h.coded.resize(batch, h.rows)
	if err := coded.EncodeColumns(block, row, y, coded.Blocks(y.Shape[1], len(row))); err != nil {
		return err
	}
	var beta float32
	if !first {
		beta = 1
	}
	kernel.Gemm(pool, true, false, h.rows, h.cols, batch, 1, block.Data, h.rows, x.Data, h.cols, beta, h.g.Data, h.cols)
	return nil
}

// apply makes one step of the optimiser with the gradient.
func (h *half) apply(u coded.Update) {
	kernel.SGD(h.w.Data, h.v.Data, h.g.Data, kernel.SGDStep{
		LR: float32(u.LR), Momentum: float32(u.Momentum), Decay: float32(u.Decay), Scale: float32(u.Scale), Nesterov: u.Nesterov,
	})
}

// matrix is memory for a matrix whose size varies with the batch.
type matrix struct {
	data  []float32
	shape [2]int
}

// resize returns a matrix with undefined elements in the memory of m, which
// grows if it has to.
func (m *matrix) resize(rows, cols int) coded.Tensor {
	if n := rows * cols; cap(m.data) < n {
		m.data = make([]float32, n)
	}
	m.shape = [2]int{rows, cols}
	return coded.Tensor{Shape: m.shape[:], Data: m.data[:rows*cols]}
}
