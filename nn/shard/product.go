package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// ProductDecoder decodes the answers of one product of a placed Linear, round
// after round. One goroutine uses it. After the first round it allocates nothing.
type ProductDecoder struct {
	chunks    int
	decoder   *coded.Decoder
	partition coded.Partition // of the result's columns
	have      []int
	results   []coded.Tensor
}

// NewProductDecoder returns the decoder of a product of a layer whose
// configuration is c and whose code is the decoder's.
func NewProductDecoder(l coded.Layer, c LinearConfig, d *coded.Decoder, p coded.Product) *ProductDecoder {
	return &ProductDecoder{chunks: l.Chunks, decoder: d, partition: c.Partition(p, l.Code.K)}
}

// Decode writes the result, [batch, out] of a forward product or [batch, in] of
// a backward one, to dst: from the answers by chunk, each in the order of
// slots, as coded.Pending gives them.
func (d *ProductDecoder) Decode(dst []float32, chunks [][]coded.Answer) error {
	if len(chunks) != d.chunks {
		return fmt.Errorf("answers to %d chunks, want %d", len(chunks), d.chunks)
	}
	out := coded.Tensor{Shape: []int{len(dst) / d.partition.Total, d.partition.Total}, Data: dst}
	for c, answers := range chunks {
		if err := d.chunk(out, c, answers); err != nil {
			return fmt.Errorf("chunk %d: %w", c, err)
		}
	}
	return nil
}

func (d *ProductDecoder) chunk(dst coded.Tensor, c int, answers []coded.Answer) error {
	lo, hi := ChunkRange(d.partition.Size, d.chunks, c)
	d.have, d.results = d.have[:0], d.results[:0]
	for i, a := range answers {
		if s := a.Result.Shape; len(s) != 2 || s[0] != dst.Shape[0] || s[1] != hi-lo || len(a.Result.Data) != s[0]*s[1] {
			return fmt.Errorf("answer of slot %d has shape %v and %d values, want [%d %d]", a.Slot, s, len(a.Result.Data), dst.Shape[0], hi-lo)
		}
		if i > 0 && a.Slot <= d.have[i-1] {
			return fmt.Errorf("answer of slot %d after that of slot %d", a.Slot, d.have[i-1])
		}
		d.have, d.results = append(d.have, a.Slot), append(d.results, a.Result)
	}
	w, err := d.decoder.Weights(d.have)
	if err != nil {
		return err
	}
	return coded.DecodeColumns(dst, w.D, d.results, d.partition, lo)
}
