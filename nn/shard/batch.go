package shard

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// KindBatch is the coded.Layer.Kind of a layer of which the batch is coded and not
// the weights.
const KindBatch = "batch"

// BatchConfig describes such a layer to the workers; one of its fields is set.
type BatchConfig struct {
	Linear *LinearConfig `msgpack:"linear,omitempty"`
	Conv2d *Conv2dConfig `msgpack:"conv2d,omitempty"`
}

// NewBatchConfig wraps the configuration of a layer.
func NewBatchConfig(c Config) (BatchConfig, error) {
	switch c := c.(type) {
	case LinearConfig:
		return BatchConfig{Linear: &c}, nil
	case Conv2dConfig:
		return BatchConfig{Conv2d: &c}, nil
	}
	return BatchConfig{}, fmt.Errorf("shard: a %T has no batch placement", c)
}

// Marshal writes the configuration as coded.Layer.Config.
func (c BatchConfig) Marshal() ([]byte, error) { return msgpack.Marshal(c) }

// Layer returns the configuration of the layer.
func (c BatchConfig) Layer() (Config, error) {
	switch {
	case c.Linear != nil && c.Conv2d == nil:
		return *c.Linear, nil
	case c.Conv2d != nil && c.Linear == nil:
		return *c.Conv2d, nil
	}
	return nil, errors.New("shard: batch configuration: want one layer")
}

// Batch is the shard of a layer with coded batch blocks: every slot has the whole
// weights, and multiplies a block sum_j G_ij X_j of its own. The products of any
// sufficient set decode, since they are linear in the block. It implements
// coded.Shard.
//
// Its state is g_i times the weights, with g_i a combination of the coefficients of
// the slot (see Scales): so that a lost one is a combination of others, as of any
// shard. New weights come by Accumulate in place of X, and replace the old ones at
// the next Apply.
type Batch struct {
	coded.Shard // computes the products
	name        string
	scale       float64
	weight      coded.Tensor // in the layout of the layer's parameter
	next        buffer
	pending     bool
	set         func(w []float32) // brings new weights to the products
}

var _ coded.RowsShard = (*Batch)(nil)

// NewBatch builds the shard with weights of zeros. The pool may be nil: then it
// computes on the goroutine of its caller.
func NewBatch(l coded.Layer, slot int, pool *kernel.Pool) (*Batch, error) {
	b, err := newBatch(l, slot, pool)
	if err != nil {
		return nil, fmt.Errorf("shard: layer %s, slot %d: %w", l.Name, slot, err)
	}
	return b, nil
}

func newBatch(l coded.Layer, slot int, pool *kernel.Pool) (*Batch, error) {
	if l.Kind != KindBatch {
		return nil, fmt.Errorf("kind %q, want %q", l.Kind, KindBatch)
	}
	wrapped, err := parse[BatchConfig](KindBatch, l.Config)
	if err != nil {
		return nil, err
	}
	c, err := wrapped.Layer()
	if err != nil {
		return nil, err
	}
	code, err := coded.New(l.Code)
	if err != nil {
		return nil, err
	}
	scales, err := Scales(code)
	if err != nil {
		return nil, err
	}
	if slot < 0 || slot >= len(scales) {
		return nil, fmt.Errorf("code %v has no such row in a generator", code)
	}
	if err := c.Validate(1, l.Chunks); err != nil {
		return nil, err
	}
	b := &Batch{name: fmt.Sprintf("shard: layer %s, slot %d", l.Name, slot), scale: scales[slot]}
	b.build(c, l.Chunks, pool)
	return b, nil
}

// build makes the shard that computes the products: a resident one of a single
// block.
func (b *Batch) build(c Config, chunks int, pool *kernel.Pool) {
	f, r := c.copies(1)
	whole := resident{name: b.name, row: []float64{1}, chunks: chunks, pool: pool, backward: r != nil}
	whole.f.w = coded.NewTensor(f...)
	b.weight = whole.f.w
	switch c := c.(type) {
	case LinearConfig:
		if r != nil {
			whole.r.w = coded.NewTensor(r...)
		}
		b.Shard = &Linear{resident: whole, config: c}
		b.set = func(w []float32) {
			copy(whole.f.w.Data, w)
			if r != nil {
				transpose(pool, whole.r.w.Data, w, c.Out, c.In)
			}
		}
	case Conv2dConfig:
		whole.r.w = coded.Tensor{Shape: r, Data: whole.f.w.Data} // of one block, both copies are the weights
		conv := &Conv2d{resident: whole, config: c}
		b.Shard = conv
		b.set = func(w []float32) {
			copy(whole.f.w.Data, w)
			conv.changes++
		}
	}
}

// MultiplyRows implements coded.RowsShard, for convolutions.
func (b *Batch) MultiplyRows(p coded.Product, x coded.Tensor) (coded.Tensor, error) {
	s, ok := b.Shard.(coded.RowsShard)
	if !ok {
		return coded.Tensor{}, fmt.Errorf("%s: %s product by rows: want a convolution", b.name, p)
	}
	return s.MultiplyRows(p, x)
}

// Accumulate implements coded.Shard: x has the new weights.
func (b *Batch) Accumulate(x, _ coded.Tensor) error {
	if len(x.Data) != len(b.weight.Data) {
		return fmt.Errorf("%s: %d new weights, want %d of shape %v", b.name, len(x.Data), len(b.weight.Data), b.weight.Shape)
	}
	copy(b.next.resize(len(x.Data)).Data, x.Data)
	b.pending = true
	return nil
}

// Apply implements coded.Shard: the new weights, if there are any, take effect.
func (b *Batch) Apply(u coded.Update) error {
	if err := validUpdate(u); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	if b.pending {
		b.set(b.next.data)
		b.pending = false
	}
	return nil
}

// State implements coded.Shard.
func (b *Batch) State() []coded.Tensor {
	return []coded.Tensor{scaled(b.weight, b.scale)}
}

// SetState implements coded.Shard.
func (b *Batch) SetState(state []coded.Tensor) error {
	if len(state) != 1 || len(state[0].Data) != len(b.weight.Data) {
		return fmt.Errorf("%s: state of %d tensors, want one of shape %v", b.name, len(state), b.weight.Shape)
	}
	b.set(scaled(state[0], 1/b.scale).Data)
	b.pending = false
	return nil
}

// Flops is the number of floating-point operations of a whole product of an
// operand of a shape.
func (b *Batch) Flops(p coded.Product, operand []int) float64 {
	if f, ok := b.Shard.(interface {
		Flops(coded.Product, []int) float64
	}); ok {
		return f.Flops(p, operand)
	}
	return 0
}

func scaled(t coded.Tensor, by float64) coded.Tensor {
	s := coded.NewTensor(t.Shape...)
	for i, v := range t.Data {
		s.Data[i] = float32(by * float64(v))
	}
	return s
}

// Scales returns a factor for every slot of a one-sided code such that the factors
// are a codeword, G t, and none of them is small: among some random t the one
// whose smallest factor is largest.
func Scales(code *coded.Code) ([]float64, error) {
	rng := rand.New(rand.NewPCG(1, uint64(code.K())))
	var best []float64
	most := 0.0
	for range 64 {
		t := make([]float64, code.K())
		for j := range t {
			t[j] = rng.NormFloat64()
		}
		scales := make([]float64, code.N())
		least, largest := math.Inf(1), 0.0
		for slot := range scales {
			row := code.Row(slot)
			if row == nil {
				return nil, fmt.Errorf("shard: slot %d of code %v: it has no row in a generator", slot, code)
			}
			for j, g := range row {
				scales[slot] += g * t[j]
			}
			least, largest = min(least, math.Abs(scales[slot])), max(largest, math.Abs(scales[slot]))
		}
		if least/largest > most {
			best, most = scales, least/largest
		}
	}
	if best == nil {
		return nil, fmt.Errorf("shard: code %v has a slot without a coefficient", code)
	}
	return best, nil
}

// EncodeBatch returns the state of the shard at a slot for a weight in the layout
// of the layer's parameter.
func EncodeBatch(c Config, weight []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	scales, err := Scales(code)
	if err != nil {
		return nil, err
	}
	f, _ := c.copies(1)
	if len(weight) != elements(f) {
		return nil, fmt.Errorf("shard: %v: %d weights, want %d", c, len(weight), elements(f))
	}
	return []coded.Tensor{scaled(coded.Tensor{Shape: f, Data: weight}, scales[slot])}, nil
}
