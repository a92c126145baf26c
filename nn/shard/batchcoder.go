package shard

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// BatchCoder encodes the operands of one product of a layer with coded batch
// blocks, and decodes its answers, round after round. One goroutine uses it. After
// the first round it allocates nothing of the size of a tensor.
type BatchCoder struct {
	chunks  int
	config  Config
	product coded.Product
	decoder *coded.Decoder
	rows    [][]float64 // the generator

	blocks  []coded.Tensor // by slot
	part    buffer
	whole   buffer
	have    []int
	results []coded.Tensor
}

// NewBatchCoder returns the coder of a product of a layer whose configuration is c
// and whose code, a one-sided one, is the decoder's.
func NewBatchCoder(l coded.Layer, c Config, d *coded.Decoder, p coded.Product) *BatchCoder {
	b := &BatchCoder{chunks: l.Chunks, config: c, product: p, decoder: d}
	for slot := range d.Code().N() {
		b.rows = append(b.rows, d.Code().Row(slot))
	}
	return b
}

// Shape returns the shape of the coded blocks of all slots of an operand of a
// shape: [n, samples of a block, ..].
func (b *BatchCoder) Shape(operand []int) []int {
	p := coded.Blocks(operand[0], b.decoder.Code().K())
	return append([]int{len(b.rows), p.Size}, operand[1:]...)
}

// ByRows tells whether each chunk of the product of an operand of a shape takes some
// rows of the coded blocks, see coded.Round.ByRows.
func (b *BatchCoder) ByRows(operand []int) bool {
	c, err := b.config.cut(b.product, b.Shape(operand)[1:], 1, b.chunks)
	return err == nil && c.byBatch
}

// Encode writes the coded blocks of all slots to dst: slot i has sum_j G_ij X_j of
// the k blocks X_j of the batch.
func (b *BatchCoder) Encode(pool *kernel.Pool, dst []float32, x coded.Tensor) error {
	if len(x.Shape) < 2 || elements(x.Shape) != len(x.Data) || x.Shape[0] < 1 {
		return fmt.Errorf("operand of shape %v with %d values", x.Shape, len(x.Data))
	}
	b.blocks = Slots(b.blocks[:0], coded.Tensor{Shape: b.Shape(x.Shape), Data: dst})
	return coded.Combiner{Pool: pool}.EncodeRows(b.blocks, b.rows, x, coded.Blocks(x.Shape[0], b.decoder.Code().K()))
}

// Slots appends the parts of a tensor [n, ..] that belong to the n slots.
func Slots(list []coded.Tensor, x coded.Tensor) []coded.Tensor {
	size := len(x.Data) / x.Shape[0]
	for slot := range x.Shape[0] {
		list = append(list, coded.Tensor{Shape: x.Shape[1:], Data: x.Data[slot*size : (slot+1)*size]})
	}
	return list
}

// Decode writes the result of the product of an operand of a shape, that of the
// whole batch, to dst; see ProductDecoder.Decode.
func (b *BatchCoder) Decode(pool *kernel.Pool, dst coded.Tensor, operand []int, chunks [][]coded.Answer) error {
	if len(chunks) != b.chunks {
		return fmt.Errorf("answers to %d chunks, want %d", len(chunks), b.chunks)
	}
	if len(operand) < 2 || operand[0] < 1 {
		return fmt.Errorf("operand of shape %v", operand)
	}
	p := coded.Blocks(operand[0], b.decoder.Code().K())
	c, err := b.config.cut(b.product, append([]int{p.Size}, operand[1:]...), 1, b.chunks)
	if err != nil {
		return err
	}
	features := c.groups * c.blocks.Total
	if len(dst.Shape) != 2+len(c.plane) || dst.Shape[0] != p.Total || dst.Shape[1] != features || elements(dst.Shape) != len(dst.Data) {
		return fmt.Errorf("result of shape %v and %d values, want [%d %d ..]", dst.Shape, len(dst.Data), p.Total, features)
	}
	out := dst
	if !slices.Equal(dst.Shape[2:], c.plane) {
		out = b.whole.resize(append([]int{p.Total, features}, c.plane...)...)
	}
	for i, answers := range chunks {
		if err := b.chunk(pool, out, p, c, i, answers); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	if !slices.Equal(dst.Shape[2:], c.plane) {
		return crop(dst, out)
	}
	return nil
}

// chunk decodes the part of the result that a chunk has computed: some samples of
// every block of the batch; or some features of all, which are put in their place
// afterwards.
func (b *BatchCoder) chunk(pool *kernel.Pool, dst coded.Tensor, p coded.Partition, c cut, chunk int, answers []coded.Answer) error {
	lo, hi := c.bounds(b.chunks, chunk)
	samples, features := c.size(lo, hi)
	want := append([]int{samples, c.groups * features}, c.plane...)
	var err error
	if b.have, b.results, err = gather(b.have[:0], b.results[:0], answers, want); err != nil {
		return err
	}
	w, err := b.decoder.Weights(b.have)
	if err != nil {
		return err
	}
	combiner := coded.Combiner{Pool: pool}
	if c.byBatch {
		return combiner.DecodeRows(dst, w.D, b.results, p, lo)
	}
	part := b.part.resize(append([]int{p.Total}, want[1:]...)...)
	if err := combiner.DecodeRows(part, w.D, b.results, p, 0); err != nil {
		return err
	}
	plane := elements(c.plane)
	for line := range p.Total * c.groups {
		copy(dst.Data[(line*c.blocks.Total+lo)*plane:(line*c.blocks.Total+hi)*plane], part.Data[line*features*plane:])
	}
	return nil
}

// gather checks the answers to a chunk, each of a shape, and appends their slots
// and results.
func gather(have []int, results []coded.Tensor, answers []coded.Answer, want []int) ([]int, []coded.Tensor, error) {
	for i, a := range answers {
		if !shaped(a.Result, want) {
			return have, results, fmt.Errorf("answer of slot %d has shape %v and %d values, want %v", a.Slot, a.Result.Shape, len(a.Result.Data), want)
		}
		if i > 0 && a.Slot <= have[i-1] {
			return have, results, fmt.Errorf("answer of slot %d after that of slot %d", a.Slot, have[i-1])
		}
		have, results = append(have, a.Slot), append(results, a.Result)
	}
	return have, results, nil
}
