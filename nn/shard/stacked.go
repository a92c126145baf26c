package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// KindStacked is the coded.Layer.Kind of a fully connected layer in a code whose
// slots have several results each. Its Config is a LinearConfig without Backward.
const KindStacked = "stacked"

// Stacked is the resident shard of a fully connected layer at a slot of a linear
// code whose tasks have several results (rateless, universally decodable,
// hierarchical), so that unfinished work counts: it holds a coded block of outputs
// for each result, and chunk i of the forward product of X is
//
//	R_i = X (sum_j G_ij W_j)
//
// It is for comparing such codes. It gives no backward product and is not trained;
// layers that are have a code with a row for each slot, see Linear.
type Stacked struct {
	name    string
	chunks  int
	pool    *kernel.Pool
	w       coded.Tensor // [chunks x block of outputs, in]
	product buffer
}

var _ coded.StoppableShard = (*Stacked)(nil)

// NewStacked builds the shard with weights of zeros. The pool may be nil: then it
// computes on the goroutine of its caller.
func NewStacked(l coded.Layer, slot int, pool *kernel.Pool) (*Stacked, error) {
	s := &Stacked{name: fmt.Sprintf("shard: layer %s, slot %d", l.Name, slot), chunks: l.Chunks, pool: pool}
	fail := func(err error) (*Stacked, error) { return nil, fmt.Errorf("%s: %w", s.name, err) }
	if l.Kind != KindStacked {
		return fail(fmt.Errorf("kind %q, want %q", l.Kind, KindStacked))
	}
	config, err := ParseLinearConfig(l.Config)
	if err != nil {
		return fail(err)
	}
	code, err := coded.New(l.Code)
	if err != nil {
		return fail(err)
	}
	if err := config.stackable(code, slot); err != nil {
		return fail(err)
	}
	if n := code.Results(slot); n != l.Chunks || l.ByBatch {
		return fail(fmt.Errorf("%d chunks (by batch: %v), want one for each of %d results", l.Chunks, l.ByBatch, n))
	}
	s.w = coded.NewTensor(l.Chunks*coded.Blocks(config.Out, code.K()).Size, config.In)
	return s, nil
}

// stackable tells what speaks against shards with the results of a slot of a code.
func (c LinearConfig) stackable(code *coded.Code, slot int) error {
	if slot < 0 || slot >= code.N() || code.BBlocks() != 1 || code.Kind() != coded.Linear {
		return fmt.Errorf("slot %d of code %v, want one of a linear code", slot, code)
	}
	if c.Backward {
		return fmt.Errorf("%v: a stacked layer has no backward product", c)
	}
	if err := c.Validate(code.K(), 1); err != nil {
		return err
	}
	if results, block := code.Results(slot), coded.Blocks(c.Out, code.K()).Size; !bounded([]int{results, block, c.In}, maxElements) {
		return fmt.Errorf("%v: %d results of %dx%d values, want at most %d", c, results, block, c.In, maxElements)
	}
	return nil
}

// EncodeStacked returns the state of the shard at a slot for a layer with the given
// weight [out, in].
func EncodeStacked(c LinearConfig, weight []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
	if err := c.stackable(code, slot); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	if len(weight) != c.In*c.Out {
		return nil, fmt.Errorf("shard: %v: %d weights, want %d", c, len(weight), c.In*c.Out)
	}
	rows, p := code.Rows(slot), coded.Blocks(c.Out, code.K())
	w := coded.NewTensor(len(rows)*p.Size, c.In)
	blocks := make([]coded.Tensor, len(rows))
	for i := range blocks {
		blocks[i] = coded.Tensor{Shape: []int{p.Size, c.In}, Data: w.Data[i*p.Size*c.In : (i+1)*p.Size*c.In]}
	}
	if err := (coded.Combiner{}).EncodeRows(blocks, rows, c.tensor(weight), p); err != nil {
		return nil, fmt.Errorf("shard: %v: %w", c, err)
	}
	return []coded.Tensor{w}, nil
}

// Multiply implements coded.Shard: forward alone.
func (s *Stacked) Multiply(p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	return s.MultiplyUntil(nil, p, x, chunk)
}

// MultiplyUntil implements coded.StoppableShard.
func (s *Stacked) MultiplyUntil(stop <-chan struct{}, p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	rows, cols := s.w.Shape[0]/s.chunks, s.w.Shape[1]
	switch {
	case p != coded.Forward:
		return coded.Tensor{}, fmt.Errorf("%s: %s product, want the forward one", s.name, p)
	case chunk < 0 || chunk >= s.chunks:
		return coded.Tensor{}, fmt.Errorf("%s: chunk %d, want 0 to %d", s.name, chunk, s.chunks-1)
	case len(x.Shape) != 2 || x.Shape[0] < 1 || !shaped(x, []int{x.Shape[0], cols}):
		return coded.Tensor{}, fmt.Errorf("%s: operand has shape %v and %d values, want [batch %d]", s.name, x.Shape, len(x.Data), cols)
	}
	y := s.product.resize(x.Shape[0], rows)
	return y, multiplyUntil(stop, s.pool, y, x, s.w.Data[chunk*rows*cols:(chunk+1)*rows*cols])
}

// Accumulate implements coded.Shard: there is nothing that could be trained.
func (s *Stacked) Accumulate(_, _ coded.Tensor) error {
	return fmt.Errorf("%s: a stacked layer is not trained", s.name)
}

// Apply implements coded.Shard. Without a gradient the weights stay as they are.
func (s *Stacked) Apply(coded.Update) error { return nil }

// State implements coded.Shard.
func (s *Stacked) State() []coded.Tensor { return []coded.Tensor{s.w} }

// SetState implements coded.Shard.
func (s *Stacked) SetState(state []coded.Tensor) error {
	if len(state) != 1 || !shaped(state[0], s.w.Shape) {
		return fmt.Errorf("%s: state of %d tensors, want one of shape %v", s.name, len(state), s.w.Shape)
	}
	copy(s.w.Data, state[0].Data)
	return nil
}

// Flops is the number of floating-point operations of all results of an operand of
// a shape; a chunk takes its share of them.
func (s *Stacked) Flops(_ coded.Product, operand []int) float64 {
	if len(operand) == 0 {
		return 0
	}
	return 2 * float64(operand[0]) * float64(len(s.w.Data))
}

// StackedDecoder decodes the answers of the forward product of a stacked layer,
// round after round. One goroutine uses it.
type StackedDecoder struct {
	config  LinearConfig
	code    *coded.Code
	single  *coded.Decoder // of the code in which each result is a task
	results []coded.Tensor // by such a task
	have    []int
	list    []coded.Tensor
}

// NewStackedDecoder returns the decoder of a layer of a code. Just enough results of
// a rateless code may have a condition number of thousands and more: config says
// which are refused.
func NewStackedDecoder(c LinearConfig, code *coded.Code, config coded.DecoderConfig) (*StackedDecoder, error) {
	single, err := code.Chunks()
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return &StackedDecoder{
		config: c, code: code, single: coded.NewDecoder(single, config), results: make([]coded.Tensor, single.N()),
	}, nil
}

// Decode writes the product of an operand of a shape to dst, from the answers by
// chunk, as coded.Pending gives them.
func (d *StackedDecoder) Decode(dst coded.Tensor, operand []int, chunks [][]coded.Answer) error {
	c, err := d.config.cut(coded.Forward, operand, d.code.K(), 1)
	if err != nil {
		return err
	}
	if want := []int{c.batch, c.blocks.Total}; !shaped(dst, want) {
		return fmt.Errorf("result of shape %v and %d values, want %v", dst.Shape, len(dst.Data), want)
	}
	clear(d.results)
	for chunk, answers := range chunks {
		for _, a := range answers {
			if a.Slot < 0 || a.Slot >= d.code.N() || chunk >= d.code.Results(a.Slot) {
				return fmt.Errorf("result %d of slot %d of code %v", chunk, a.Slot, d.code)
			}
			if want := []int{c.batch, c.blocks.Size}; !shaped(a.Result, want) {
				return fmt.Errorf("result %d of slot %d has shape %v and %d values, want %v", chunk, a.Slot, a.Result.Shape, len(a.Result.Data), want)
			}
			d.results[d.code.Chunk(a.Slot, chunk)] = a.Result
		}
	}
	d.have, d.list = d.have[:0], d.list[:0]
	for i, t := range d.results {
		if t.Data != nil {
			d.have, d.list = append(d.have, i), append(d.list, t)
		}
	}
	w, err := d.single.Weights(d.have)
	if err != nil {
		return err
	}
	return coded.DecodeColumns(dst, w.D, d.list, c.blocks, 0)
}
