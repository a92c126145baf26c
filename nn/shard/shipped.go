package shard

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// KindShipped is the coded.Layer.Kind of a layer of which both factors of every
// product are coded and sent; the configuration is a BatchConfig.
const KindShipped = "shipped"

// Shipped computes what a slot has to of a layer whose products are coded on both
// sides, by any code for C = A B (see coded.Code.Matrix):
//
//	forward   A = X   [batch, in],   B = W^T [in, out]:   C = Y
//	backward  A = dY  [batch, out],  B = W   [out, in]:   C = dX
//	gradient  A = dY^T [out, batch], B = X   [batch, in]: C = dW
//
// with the convolution, which is a product of matrices of planes, for the product. An
// operand is the slot's coded blocks of a factor, [blocks, ..], each in the layout of
// the whole: blocks of W are [out, in, ..] and those of dY [batch, out, ..] always.
// A result is [results, ..], with what the code says that a task returns. It holds
// nothing. It implements coded.PairShard.
type Shipped struct {
	stateless
	task    coded.Task
	results []coded.Output // each a sum of products of coded blocks
	chunks  int
	pairs   [3]blockPair // by product
	sum     buffer
	a, b    []coded.Tensor
}

var _ coded.PairShard = (*Shipped)(nil)

// blockPair computes a chunk of a product of one coded block of each factor.
type blockPair interface {
	multiply(a, b coded.Tensor, chunk int) (coded.Tensor, error)
	// flops is the number of floating-point operations of the whole product with A of a
	// shape.
	flops(a []int) float64
}

// NewShipped builds the shard. The pool may be nil: then it computes on the goroutine
// of its caller.
func NewShipped(l coded.Layer, slot int, pool *kernel.Pool) (*Shipped, error) {
	s := &Shipped{stateless: stateless{fmt.Sprintf("shard: layer %s, slot %d", l.Name, slot)}, chunks: l.Chunks}
	if err := s.build(l, slot, pool); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return s, nil
}

func (s *Shipped) build(l coded.Layer, slot int, pool *kernel.Pool) error {
	if l.Kind != KindShipped {
		return fmt.Errorf("kind %q, want %q", l.Kind, KindShipped)
	}
	wrapped, err := parse[BatchConfig](KindShipped, l.Config)
	if err != nil {
		return err
	}
	c, err := wrapped.Layer()
	if err != nil {
		return err
	}
	code, err := coded.New(l.Code)
	if err != nil {
		return err
	}
	if slot < 0 || slot >= code.N() {
		return fmt.Errorf("code %v has no such task", code)
	}
	if err := ValidateShipped(c, code, l.Chunks); err != nil {
		return err
	}
	s.task = code.Task(slot)
	s.results = s.task.Products()
	cut := newFactorCut(c, code)
	for p := coded.Forward; p <= coded.Gradient; p++ {
		s.pairs[p-coded.Forward] = newBlockPair(s.name, cut.block(p), p, l.Chunks, pool)
	}
	return nil
}

// MultiplyPair implements coded.PairShard.
func (s *Shipped) MultiplyPair(p coded.Product, a, b coded.Tensor, chunk int) (coded.Tensor, error) {
	if !p.Valid() || chunk < 0 || chunk >= s.chunks {
		return coded.Tensor{}, fmt.Errorf("%s: %s product, chunk %d, want chunk 0 to %d", s.name, p, chunk, s.chunks-1)
	}
	for _, side := range []struct {
		name   string
		x      coded.Tensor
		blocks int
		list   *[]coded.Tensor
	}{{"A", a, len(s.task.A), &s.a}, {"B", b, len(s.task.B), &s.b}} {
		if x := side.x; len(x.Shape) < 3 || x.Shape[0] != side.blocks || len(x.Data) != elements(x.Shape) {
			return coded.Tensor{}, fmt.Errorf("%s: %s product: %s of shape %v and %d values, want [%d ..] coded blocks", s.name, p, side.name, x.Shape, len(x.Data), side.blocks)
		}
		*side.list = Slots((*side.list)[:0], side.x)
	}
	var sum coded.Tensor
	for i, result := range s.results {
		for j, pair := range result {
			y, err := s.pairs[p-coded.Forward].multiply(s.a[pair.A], s.b[pair.B], chunk)
			switch {
			case err != nil:
				return coded.Tensor{}, err
			case len(s.results) == 1 && len(result) == 1:
				return coded.Tensor{Shape: append([]int{1}, y.Shape...), Data: y.Data}, nil
			case i == 0 && j == 0:
				sum = s.sum.resize(append([]int{len(s.results)}, y.Shape...)...)
			}
			dst := sum.Data[i*len(y.Data) : (i+1)*len(y.Data)]
			if j == 0 {
				copy(dst, y.Data)
			} else {
				kernel.Add(dst, dst, y.Data)
			}
		}
	}
	return sum, nil
}

// Flops is the number of floating-point operations of a whole product with the coded
// blocks of A of a shape.
func (s *Shipped) Flops(p coded.Product, a []int) float64 {
	if !p.Valid() || len(a) < 3 {
		return 0
	}
	products := 0
	for _, r := range s.results {
		products += len(r)
	}
	return float64(products) * s.pairs[p-coded.Forward].flops(a[1:])
}

// newBlockPair returns what multiplies blocks of a layer, which is that of one block of
// inputs and one of outputs.
func newBlockPair(name string, c Config, p coded.Product, chunks int, pool *kernel.Pool) blockPair {
	if p == coded.Gradient {
		g := &Gradient{stateless: stateless{name}, chunks: chunks, pool: pool}
		switch c := c.(type) {
		case LinearConfig:
			g.linear = &c
		case Conv2dConfig:
			g.conv = &c
		}
		return gradientPair{g}
	}
	switch c := c.(type) {
	case LinearConfig:
		return &linearPair{name: name, config: c, product: p, chunks: chunks, pool: pool}
	case Conv2dConfig:
		return &convPair{Conv2d: &Conv2d{resident: resident{name: name, row: []float64{1}, chunks: chunks, pool: pool, backward: true}, config: c}, product: p}
	}
	return nil
}

// linearPair multiplies a block of X or dY with one of W; a chunk is some columns.
type linearPair struct {
	name    string
	config  LinearConfig
	product coded.Product
	chunks  int
	pool    *kernel.Pool
	y       buffer
}

func (l *linearPair) multiply(x, w coded.Tensor, chunk int) (coded.Tensor, error) {
	in, out := l.config.In, l.config.Out
	from, to := in, out
	if l.product == coded.Backward {
		from, to = out, in
	}
	if len(x.Shape) != 2 || x.Shape[0] < 1 || x.Shape[1] != from || !shaped(w, []int{out, in}) {
		return coded.Tensor{}, fmt.Errorf("%s: %s product: blocks of shapes %v and %v, want [batch %d] and [%d %d]", l.name, l.product, x.Shape, w.Shape, from, out, in)
	}
	lo, hi := ChunkRange(to, l.chunks, chunk)
	batch, n := x.Shape[0], hi-lo
	y := l.y.resize(batch, n)
	if l.product == coded.Forward {
		kernel.Gemm(l.pool, false, true, batch, n, in, 1, x.Data, in, w.Data[lo*in:], in, 0, y.Data, n)
	} else {
		kernel.Gemm(l.pool, false, false, batch, n, out, 1, x.Data, out, w.Data[lo:], in, 0, y.Data, n)
	}
	return y, nil
}

func (l *linearPair) flops(x []int) float64 {
	return 2 * float64(x[0]) * float64(l.config.In) * float64(l.config.Out)
}

// convPair is the shard of a resident convolution of one block, with other weights for
// every product.
type convPair struct {
	*Conv2d
	product coded.Product
}

func (c *convPair) multiply(x, w coded.Tensor, chunk int) (coded.Tensor, error) {
	shape, _ := c.config.copies(1)
	if !shaped(w, shape) {
		return coded.Tensor{}, fmt.Errorf("%s: %s product: weights of shape %v, want %v", c.name, c.product, w.Shape, shape)
	}
	c.f.w, c.r.w = w, w
	c.changes++
	return c.Multiply(c.product, x, chunk)
}

func (c *convPair) flops(x []int) float64 {
	g, err := c.config.geometryOf(c.product, x)
	if err != nil {
		return 0
	}
	return 2 * float64(g.N*g.OutH()*g.OutW()) * float64(c.config.size())
}

// gradientPair multiplies a block of dY with one of X; a chunk is some outputs.
type gradientPair struct{ *Gradient }

func (g gradientPair) multiply(dy, x coded.Tensor, chunk int) (coded.Tensor, error) {
	return g.MultiplyPair(coded.Gradient, dy, x, chunk)
}

func (g gradientPair) flops(dy []int) float64 { return g.Flops(coded.Gradient, slices.Clone(dy)) }
