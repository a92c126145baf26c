package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// cut tells how the result of a product is cut into blocks, which the code
// combines, and into chunks, which the workers compute. The result is
// [batch, groups*features] and, of a convolution, [.., height, width]; the
// features of every group are cut into blocks alike.
type cut struct {
	batch, groups int
	blocks        coded.Partition // of the features of a group
	plane         []int           // height and width; nil for a Linear
	// byBatch tells that a chunk is some samples with all features of a block;
	// else it is some features of every block, of all samples.
	byBatch bool
}

// bounds returns the part that a chunk computes: samples or features.
func (c cut) bounds(chunks, chunk int) (lo, hi int) {
	if c.byBatch {
		return ChunkRange(c.batch, chunks, chunk)
	}
	return ChunkRange(c.blocks.Size, chunks, chunk)
}

// samples returns the number of samples and of features of a block in a chunk.
func (c cut) size(lo, hi int) (samples, features int) {
	if c.byBatch {
		return hi - lo, c.blocks.Size
	}
	return c.batch, hi - lo
}

// ProductDecoder decodes the answers of one product of a placed layer, round
// after round. One goroutine uses it. After the first round with a shape it
// allocates nothing of the size of a tensor.
type ProductDecoder struct {
	chunks  int
	config  Config
	product coded.Product
	byBatch bool // whatever the kind: see coded.Layer
	decoder *coded.Decoder

	have    []int
	results []coded.Tensor
	want    []int // shape of an answer
	lines   []int // shape of an answer as lines of features
	whole   buffer

	estimate bool    // from too few answers as well
	residual float64 // summed over the chunks
}

// NewProductDecoder returns the decoder of a product of a layer whose
// configuration is c and whose code is the decoder's.
func NewProductDecoder(l coded.Layer, c Config, d *coded.Decoder, p coded.Product) *ProductDecoder {
	return &ProductDecoder{chunks: l.Chunks, config: c, product: p, byBatch: l.ByBatch, decoder: d}
}

// Decode writes the result of the product of an operand of a shape to dst: from
// the answers by chunk, each in the order of slots, as coded.Pending gives them.
// Of a backward product of a convolution, dst may be smaller than the answers at
// the lower and the right edge: all inputs of such a size have the same output.
func (d *ProductDecoder) Decode(dst coded.Tensor, operand []int, chunks [][]coded.Answer) error {
	d.estimate = false
	return d.decode(dst, operand, chunks)
}

// Estimate is Decode, but makes the best of answers that are too few, in the sense
// of least squares. It returns the normalised squared error to expect, the mean
// over the chunks: see coded.Weights.
func (d *ProductDecoder) Estimate(dst coded.Tensor, operand []int, chunks [][]coded.Answer) (residual float64, err error) {
	d.estimate, d.residual = true, 0
	err = d.decode(dst, operand, chunks)
	return d.residual / float64(max(1, len(chunks))), err
}

func (d *ProductDecoder) decode(dst coded.Tensor, operand []int, chunks [][]coded.Answer) error {
	if len(chunks) != d.chunks {
		return fmt.Errorf("answers to %d chunks, want %d", len(chunks), d.chunks)
	}
	c, err := d.config.cut(d.product, operand, d.decoder.Code().K(), d.chunks)
	if err != nil {
		return err
	}
	c.byBatch = c.byBatch || d.byBatch
	features := c.groups * c.blocks.Total
	if len(dst.Shape) != 2+len(c.plane) || dst.Shape[0] != c.batch || dst.Shape[1] != features || elements(dst.Shape) != len(dst.Data) {
		return fmt.Errorf("result of shape %v and %d values, want [%d %d ..]", dst.Shape, len(dst.Data), c.batch, features)
	}
	out := dst
	if !slices.Equal(dst.Shape[2:], c.plane) {
		out = d.whole.resize(append([]int{c.batch, features}, c.plane...)...)
	}
	for i, answers := range chunks {
		if err := d.chunk(out.Data, c, i, answers); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	if !slices.Equal(dst.Shape[2:], c.plane) {
		return crop(dst, out)
	}
	return nil
}

// chunk decodes the part of the result that a chunk has computed.
func (d *ProductDecoder) chunk(dst []float32, c cut, chunk int, answers []coded.Answer) error {
	lo, hi := c.bounds(d.chunks, chunk)
	samples, features := c.size(lo, hi)
	d.want = append(append(d.want[:0], samples, c.groups*features), c.plane...)
	// The groups of every sample lie one after another: lines of features.
	d.lines = append(append(d.lines[:0], samples*c.groups, features), c.plane...)
	var err error
	if d.have, d.results, err = gather(d.have[:0], d.results[:0], answers, d.want); err != nil {
		return err
	}
	for i := range d.results {
		d.results[i].Shape = d.lines
	}
	w, err := d.decoder.Weights(d.have)
	if err != nil && !(d.estimate && w != nil && errors.Is(err, coded.ErrTooFewResults)) {
		return err
	}
	d.residual += w.Residual
	sample := c.groups * c.blocks.Total * elements(c.plane)
	at := lo
	if c.byBatch {
		dst, at = dst[lo*sample:hi*sample], 0
	}
	shape := append([]int{samples * c.groups, c.blocks.Total}, c.plane...)
	return coded.DecodeColumns(coded.Tensor{Shape: shape, Data: dst[:samples*sample]}, w.D, d.results, c.blocks, at)
}

// shaped tells whether t is a tensor of a shape.
func shaped(t coded.Tensor, shape []int) bool {
	return slices.Equal(t.Shape, shape) && len(t.Data) == elements(shape)
}

// crop copies the upper left corner of every plane.
func crop(dst, src coded.Tensor) error {
	h, w := dst.Shape[2], dst.Shape[3]
	sh, sw := src.Shape[2], src.Shape[3]
	if h > sh || w > sw {
		return fmt.Errorf("result of shape %v, want planes of at most %dx%d", dst.Shape, sh, sw)
	}
	for line := range dst.Shape[0] * dst.Shape[1] * h {
		from := (line/h*sh + line%h) * sw
		copy(dst.Data[line*w:(line+1)*w], src.Data[from:from+w])
	}
	return nil
}
