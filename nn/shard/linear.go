package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Linear is the resident shard of a fully connected layer at one slot of the
// code. It implements coded.Shard. F is [block of outputs, in] and R [block of
// inputs, out]: row r belongs to feature r of every block, so that a chunk of
// columns of a product is made with a range of whole rows.
type Linear struct {
	resident
	config  LinearConfig
	byBatch bool // a chunk is of some rows of the operand, with all of the shard
}

var (
	_ coded.StoppableShard = (*Linear)(nil)
	_ coded.DeferringShard = (*Linear)(nil)
)

// NewLinear builds the shard with weights and momenta of zeros. The pool may
// be nil: then it computes on the goroutine of its caller.
func NewLinear(l coded.Layer, slot int, pool *kernel.Pool) (*Linear, error) {
	config, err := ParseLinearConfig(l.Config)
	if l.Kind != KindLinear {
		err = fmt.Errorf("kind %q, want %q", l.Kind, KindLinear)
	}
	s := &Linear{config: config, byBatch: l.ByBatch}
	if err == nil {
		s.resident, err = newResident(l, slot, config, pool)
	}
	if err != nil {
		return nil, fmt.Errorf("shard: layer %s, slot %d: %w", l.Name, slot, err)
	}
	return s, nil
}

// Multiply implements coded.Shard. Forward takes X [batch, in] and gives the
// chunk's columns of X * sum_j G_ij W_j, Backward takes dY [batch, out] and
// gives the chunk's columns of dY * (sum_j G_ij W^j)^T. Of a layer that is cut by
// batch, x is the chunk's rows and the result has all columns.
func (s *Linear) Multiply(p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	return s.MultiplyUntil(nil, p, x, chunk)
}

// MultiplyUntil implements coded.StoppableShard.
func (s *Linear) MultiplyUntil(stop <-chan struct{}, p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	h, err := s.half(p)
	if err != nil {
		return coded.Tensor{}, err
	}
	rows, cols := h.w.Shape[0], h.w.Shape[1]
	if err := s.check("operand", x, cols); err != nil {
		return coded.Tensor{}, err
	}
	if err := s.checkChunk(p, chunk); err != nil {
		return coded.Tensor{}, err
	}
	lo, hi := ChunkRange(rows, s.chunks, chunk)
	if s.byBatch {
		lo, hi = 0, rows
	}
	y := h.product.resize(x.Shape[0], hi-lo)
	return y, multiplyUntil(stop, s.pool, y, x, h.w.Data[lo*cols:hi*cols])
}

// multiplyUntil computes y = x w^T, w with a row for each column of y, or gives it
// up with a *coded.StoppedError.
func multiplyUntil(stop <-chan struct{}, pool *kernel.Pool, y, x coded.Tensor, w []float32) error {
	batch, n, cols := y.Shape[0], y.Shape[1], x.Shape[1]
	strip := stripOf(batch, n, cols)
	for at := 0; at < n; at += strip {
		select {
		case <-stop:
			return &coded.StoppedError{Done: float64(at) / float64(n)}
		default:
		}
		kernel.Gemm(pool, false, true, batch, min(strip, n-at), cols, 1, x.Data, cols, w[at*cols:], cols, 0, y.Data[at:], n)
	}
	return nil
}

// A product is computed in strips of columns, between which it can be stopped: of
// about stripFlops operations, which is a fraction of a millisecond, but wide
// enough for what the kernel does anew for each (it packs x) not to count.
const (
	stripFlops   = 32 << 20
	stripColumns = 128
)

// stripOf returns the columns of a strip of a product of a [batch, cols] operand
// that has n columns.
func stripOf(batch, n, cols int) int {
	per := 2 * float64(batch) * float64(cols)
	strips := min(int(float64(n)*per/stripFlops), n/stripColumns)
	return (n + max(1, strips) - 1) / max(1, strips)
}

// check tells whether x is a matrix with the given columns.
func (s *Linear) check(what string, x coded.Tensor, cols int) error {
	if len(x.Shape) != 2 || x.Shape[0] < 1 || x.Shape[1] != cols || len(x.Data)/cols != x.Shape[0] || len(x.Data)%cols != 0 {
		return fmt.Errorf("%s: %s has shape %v and %d values, want [batch %d]", s.name, what, x.Shape, len(x.Data), cols)
	}
	return nil
}

// Accumulate implements coded.Shard:
//
//	dF_i += (sum_j G_ij dY_j)^T X;  dR_i += (sum_j G_ij X_j)^T dY
func (s *Linear) Accumulate(x, dy coded.Tensor) error {
	err := s.Defer(x, dy)
	s.settle()
	return err
}

// Defer implements coded.DeferringShard.
func (s *Linear) Defer(x, dy coded.Tensor) error {
	if err := s.check("X", x, s.config.In); err != nil {
		return err
	}
	if err := s.check("dY", dy, s.config.Out); err != nil {
		return err
	}
	if x.Shape[0] != dy.Shape[0] {
		return fmt.Errorf("%s: X of %d rows with dY of %d rows", s.name, x.Shape[0], dy.Shape[0])
	}
	s.settle()
	if err := s.deferHalf(&s.f, dy, x); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if s.backward {
		if err := s.deferHalf(&s.r, x, dy); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	s.pending = true
	return nil
}

// deferHalf puts (sum_j row[j] y_j)^T x off, where y_j are the blocks of columns of y.
func (s *Linear) deferHalf(h *half, y, x coded.Tensor) error {
	rows := h.w.Shape[0]
	block := h.coded.resize(x.Shape[0], rows)
	if err := coded.EncodeColumns(block, s.row, y, coded.Blocks(y.Shape[1], len(s.row))); err != nil {
		return err
	}
	h.late = late{block: block, x: x, rows: rows, add: s.pending}
	return nil
}

// settle computes all that was put off.
func (s *Linear) settle() {
	s.f.compute(s.pool, s.f.late.rows)
	s.r.compute(s.pool, s.r.late.rows)
}

// Proceed implements coded.DeferringShard: it computes some rows of dF or of dR.
func (s *Linear) Proceed() (flops float64) {
	h := &s.f
	if h.late.rows == 0 {
		h = &s.r
	}
	l := h.late
	if l.rows == 0 {
		return 0
	}
	perRow := 2 * float64(len(l.x.Data))
	rows := min(max(1, int(stripFlops/perRow/lateRows))*lateRows, l.rows-l.at)
	h.compute(s.pool, rows)
	return perRow * float64(rows)
}

// lateRows is a number of rows of which the kernels make no narrow rest.
const lateRows = 24

// Flops is the number of floating-point operations of a whole product of an
// operand of a shape; a chunk takes its share of them.
func (s *Linear) Flops(p coded.Product, operand []int) float64 {
	h, err := s.half(p)
	if err != nil || len(operand) == 0 {
		return 0
	}
	return 2 * float64(operand[0]) * float64(len(h.w.Data))
}

// UpdateFlops is the same for Accumulate, the costly part of an update, with X
// of a shape.
func (s *Linear) UpdateFlops(x []int) float64 {
	return s.Flops(coded.Forward, x) + s.Flops(coded.Backward, x)
}
