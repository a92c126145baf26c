package shard

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
)

// Bounds of what a worker accepts, so that a message cannot make it reserve
// memory without end.
const (
	maxFeatures = 1 << 24 // in or out
	maxElements = 1 << 30 // of one tensor
	maxBlocks   = 1 << 12 // k of the code
)

// Config describes a resident layer of some kind: a LinearConfig or a
// Conv2dConfig.
type Config interface {
	fmt.Stringer
	// Kind is the layer's coded.Layer.Kind.
	Kind() string
	// Marshal writes the configuration as coded.Layer.Config.
	Marshal() ([]byte, error)
	// Validate tells, all at once, what speaks against cutting the layer into k
	// blocks of features and its shards into so many chunks.
	Validate(k, chunks int) error
	// MaxChunks is the largest number of chunks into which the products of a
	// shard can be cut: the features of its smaller block.
	MaxChunks(k int) int
	// Encode returns the state of the shard at a slot for a layer with the given
	// weight and momentum, in the layout of the layer's parameter; a nil momentum
	// is zero.
	Encode(weight, momentum []float32, code *coded.Code, slot int) ([]coded.Tensor, error)
	// Decode returns the weight and the momentum from the states of a sufficient
	// set of slots after the same update, in the order of slots. It fails with an
	// error of kind coded.ErrTooFewResults for a smaller set and of kind
	// coded.ErrIllConditioned for one that amplifies rounding too much.
	Decode(states []coded.ShardState, d *coded.Decoder) (weight, momentum []float32, err error)

	// size is the number of values of the layer's parameter.
	size() int
	// encoders are those of the copies F and R.
	encoders() []encoder
	// decodeF decodes a tensor of the layer from those copies of the kind of F.
	decodeF(dst []float32, weights [][]float64, f []coded.Tensor) error
	// copies returns the shapes of the coded copies of a shard; that of R is nil
	// if the layer keeps none.
	copies(k int) (f, r []int)
	// cut tells how the result of a product of an operand of a shape is cut.
	cut(p coded.Product, operand []int, k, chunks int) (cut, error)
}

// parse reads what Marshal wrote. It refuses fields that it does not know and
// bytes after the end; Validate checks the values.
func parse[C any](kind string, b []byte) (C, error) {
	r := bytes.NewReader(b)
	d := msgpack.NewDecoder(r)
	d.DisallowUnknownFields(true)
	var c, none C
	if err := d.Decode(&c); err != nil {
		return none, fmt.Errorf("shard: %s configuration: %w", kind, err)
	}
	if r.Len() > 0 {
		return none, fmt.Errorf("shard: %s configuration: %d bytes after the end", kind, r.Len())
	}
	return c, nil
}

// problems gathers what is wrong.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// features checks a number of features (or channels) of one side of a layer. It is
// cut into k blocks if cut is set.
func (p *problems) features(name, what string, size, k int, cut bool) {
	if size < 1 || size > maxFeatures {
		p.add("%s has %d %s, want 1 to %d", name, size, what, maxFeatures)
	} else if cut && size < k {
		p.add("%s has %d %s, fewer than the %d blocks of the code: the layer has to stay local", name, size, what, k)
	}
}

// shards checks the size of the copies and the number of chunks.
func (p *problems) shards(c Config, k, chunks int) {
	f, r := c.copies(k)
	for _, shape := range [][]int{f, r} {
		if shape != nil && !bounded(shape, maxElements) {
			p.add("a shard of %v values, want at most %d", shape, maxElements)
			return
		}
	}
	if most := c.MaxChunks(k); chunks < 1 || chunks > most {
		p.add("%d chunks, want 1 to %d (the features of a block)", chunks, most)
	}
}

// bounded tells whether a shape of positive dimensions has at most so many elements.
func bounded(shape []int, most int) bool {
	n := 1
	for _, d := range shape {
		if d > most || n > most/d {
			return false
		}
		n *= d
	}
	return true
}

// ChunkRange returns the part lo to hi, 0 <= lo < hi <= size, of a length (the
// columns of every block of a result, or the samples of a batch) that a chunk of a
// product computes. The last blocks may be shorter than size: what lies beyond
// their end is padding.
func ChunkRange(size, chunks, chunk int) (lo, hi int) {
	return chunk * size / chunks, (chunk + 1) * size / chunks
}
