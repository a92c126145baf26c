package shard

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Factor names one of the two that a product has, see Shipped.
type Factor uint8

const (
	FactorA Factor = iota // X, or dY
	FactorB               // W, or X of the gradient
)

// FactorCoder encodes one factor of a product of a layer with a shipped placement, round
// after round. One goroutine uses it. After the first round it allocates nothing of the
// size of a tensor.
type FactorCoder struct {
	slots, blocks int         // coded blocks of a slot
	coefficients  [][]float64 // of every coded block, slot after slot, over the blocks of the factor as it lies in memory
	rows, cols    int         // blocks
	list          []coded.Tensor
}

// NewFactorCoder returns the coder of a factor for a code that ValidateShipped accepts.
func NewFactorCoder(c Config, code *coded.Code, p coded.Product, factor Factor) *FactorCoder {
	cut := newFactorCut(c, code)
	batch, in, out := cut.Blocks(p)
	first := code.Task(0)
	f := &FactorCoder{slots: code.N(), blocks: len(first.A)}
	swapped := false // the factor lies in memory as its transpose
	switch {
	case factor == FactorA && p == coded.Forward:
		f.rows, f.cols = batch, in
	case factor == FactorA:
		f.rows, f.cols = batch, out
		swapped = p == coded.Gradient
	case p == coded.Gradient:
		f.rows, f.cols = batch, in
	default:
		f.rows, f.cols = out, in
		swapped = p == coded.Forward
	}
	for t := range code.N() {
		rows := code.Task(t).A
		if factor == FactorB {
			rows, f.blocks = code.Task(t).B, len(first.B)
		}
		for _, row := range rows {
			if swapped {
				row = transposed(row, f.rows, f.cols)
			}
			f.coefficients = append(f.coefficients, row)
		}
	}
	return f
}

// transposed returns the transpose, which has so many rows and columns.
func transposed(x []float64, rows, cols int) []float64 {
	y := make([]float64, len(x))
	for i := range rows {
		for j := range cols {
			y[i*cols+j] = x[j*rows+i]
		}
	}
	return y
}

// Shape returns the shape of the coded blocks of all slots for a factor of a shape:
// [n, blocks of a slot, rows of a block, columns of a block, ..].
func (f *FactorCoder) Shape(factor []int) []int {
	g := f.grid(factor)
	return append([]int{f.slots, f.blocks, g.Rows.Size, g.Cols.Size}, factor[2:]...)
}

func (f *FactorCoder) grid(factor []int) coded.Grid {
	return coded.Grid{Rows: coded.Blocks(factor[0], f.rows), Cols: coded.Blocks(factor[1], f.cols)}
}

// Encode writes the coded blocks of all slots to dst.
func (f *FactorCoder) Encode(pool *kernel.Pool, dst []float32, x coded.Tensor) error {
	if len(x.Shape) < 2 || elements(x.Shape) != len(x.Data) || len(x.Data) == 0 {
		return fmt.Errorf("factor of shape %v with %d values", x.Shape, len(x.Data))
	}
	shape := f.Shape(x.Shape)
	if len(dst) != elements(shape) {
		return fmt.Errorf("%d values for coded blocks of shape %v", len(dst), shape)
	}
	f.list = Slots(f.list[:0], coded.Tensor{Shape: append([]int{f.slots * f.blocks}, shape[2:]...), Data: dst})
	return coded.Combiner{Pool: pool}.EncodeGrid(f.list, f.coefficients, x, f.grid(x.Shape))
}

// ShippedDecoder decodes the answers to one product of a layer with a shipped placement,
// round after round. One goroutine uses it.
type ShippedDecoder struct {
	chunks  int
	cut     factorCut
	product coded.Product
	decoder *coded.Decoder

	have    []int
	answers []coded.Tensor
	results []coded.Tensor
	whole   buffer
}

// NewShippedDecoder returns the decoder of a product of a layer whose configuration is
// c and whose code, one that ValidateShipped accepts, is the decoder's.
func NewShippedDecoder(l coded.Layer, c Config, d *coded.Decoder, p coded.Product) *ShippedDecoder {
	return &ShippedDecoder{chunks: l.Chunks, cut: newFactorCut(c, d.Code()), product: p, decoder: d}
}

// WeightShape is the shape of the layer's weight, and so of the result of the gradient.
func (d *ShippedDecoder) WeightShape() []int {
	w, _ := d.cut.config.copies(1)
	return w
}

// Decode writes the result of a product with A of a shape (X, or dY, as it is) to dst, in the
// layout of Y, X or W; see ProductDecoder.Decode.
func (d *ShippedDecoder) Decode(pool *kernel.Pool, dst coded.Tensor, a []int, chunks [][]coded.Answer) error {
	if len(chunks) != d.chunks {
		return fmt.Errorf("answers to %d chunks, want %d", len(chunks), d.chunks)
	}
	g, block, err := d.grid(a)
	if err != nil {
		return err
	}
	want := append([]int{g.Rows.Total, g.Cols.Total}, block.plane...)
	if len(dst.Shape) != len(want) || !slices.Equal(dst.Shape[:2], want[:2]) || len(dst.Data) != elements(dst.Shape) {
		return fmt.Errorf("result of shape %v and %d values, want [%d %d ..]", dst.Shape, len(dst.Data), g.Rows.Total, g.Cols.Total)
	}
	out := dst
	if !slices.Equal(dst.Shape, want) {
		out = d.whole.resize(want...)
	}
	for i, answers := range chunks {
		if err := d.chunk(pool, out, g, block, i, answers); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	if !slices.Equal(dst.Shape, want) {
		return crop(dst, out)
	}
	return nil
}

// grid tells how the result is cut into blocks, and how a block into chunks: a result of
// the gradient has outputs for samples and inputs for features, and is cut by them.
func (d *ShippedDecoder) grid(a []int) (coded.Grid, cut, error) {
	batch, ins, outs := d.cut.Blocks(d.product)
	in, out := d.cut.features()
	if len(a) < 2 || a[0] < 1 {
		return coded.Grid{}, cut{}, fmt.Errorf("factor of shape %v", a)
	}
	if d.product == coded.Gradient {
		g := coded.Grid{Rows: coded.Blocks(out, outs), Cols: coded.Blocks(in, ins)}
		return g, cut{batch: g.Rows.Size, groups: 1, blocks: coded.Blocks(g.Cols.Size, 1), plane: d.WeightShape()[2:], byBatch: true}, nil
	}
	from, splits, to := in, ins, coded.Blocks(out, outs)
	if d.product == coded.Backward {
		from, splits, to = out, outs, coded.Blocks(in, ins)
	}
	if a[1] != from {
		return coded.Grid{}, cut{}, fmt.Errorf("factor of shape %v, want [batch %d ..]", a, from)
	}
	g := coded.Grid{Rows: coded.Blocks(a[0], batch), Cols: to}
	block, err := d.cut.block(d.product).cut(d.product, append([]int{g.Rows.Size, coded.Blocks(from, splits).Size}, a[2:]...), 1, d.chunks)
	return g, block, err
}

// chunk decodes the part of every block of the result that a chunk has computed.
func (d *ShippedDecoder) chunk(pool *kernel.Pool, dst coded.Tensor, g coded.Grid, block cut, chunk int, answers []coded.Answer) error {
	lo, hi := block.bounds(d.chunks, chunk)
	rows, cols := block.size(lo, hi)
	row, col := lo, 0
	if !block.byBatch {
		row, col = 0, lo
	}
	var err error
	want := append([]int{d.decoder.Code().Results(0), rows, cols}, block.plane...)
	if d.have, d.answers, err = gather(d.have[:0], d.answers[:0], answers, want); err != nil {
		return err
	}
	d.results = d.results[:0]
	for _, a := range d.answers {
		d.results = Slots(d.results, a)
	}
	w, err := d.decoder.Weights(d.have)
	if err != nil {
		return err
	}
	return coded.Combiner{Pool: pool}.DecodeGrid(dst, w.D, d.results, g, row, col)
}
