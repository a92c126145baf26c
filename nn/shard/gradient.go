package shard

import (
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// KindGradient is the coded.Layer.Kind of the gradient of the weights of a layer
// over coded batch blocks; the configuration is a BatchConfig.
const KindGradient = "gradient"

// Gradient computes dW_i for the coded blocks of X and dY of a slot. The gradient
// is the sum over the blocks of the batch, dW = sum_j X_j^T dY_j, so the code is one
// for a sum of products, such as trigonometric-matdot. A chunk is some rows of dW,
// outputs of the layer. It holds nothing. It implements coded.PairShard.
type Gradient struct {
	stateless
	linear *LinearConfig
	conv   *Conv2dConfig
	chunks int
	pool   *kernel.Pool
	ws     kernel.Workspace
	part   buffer // channels of dY of a chunk
	dw     buffer
}

var _ coded.PairShard = (*Gradient)(nil)

// NewGradient builds the shard. The pool may be nil: then it computes on the
// goroutine of its caller.
func NewGradient(l coded.Layer, slot int, pool *kernel.Pool) (*Gradient, error) {
	fail := func(err error) (*Gradient, error) {
		return nil, fmt.Errorf("shard: layer %s, slot %d: %w", l.Name, slot, err)
	}
	if l.Kind != KindGradient {
		return fail(fmt.Errorf("kind %q, want %q", l.Kind, KindGradient))
	}
	c, err := parse[BatchConfig](KindGradient, l.Config)
	if err != nil {
		return fail(err)
	}
	layer, err := c.Layer()
	if err == nil {
		err = layer.Validate(1, 1)
	}
	if err != nil {
		return fail(err)
	}
	if most := GradientChunks(layer); l.Chunks < 1 || l.Chunks > most {
		return fail(fmt.Errorf("%d chunks, want 1 to %d", l.Chunks, most))
	}
	return &Gradient{
		stateless: stateless{fmt.Sprintf("shard: layer %s, slot %d", l.Name, slot)}, linear: c.Linear, conv: c.Conv2d, chunks: l.Chunks, pool: pool,
	}, nil
}

// GradientChunks is the largest number of chunks of a gradient: the outputs of
// the layer, or one if it has groups.
func GradientChunks(c Config) int {
	if conv, ok := c.(Conv2dConfig); ok && conv.Groups > 1 {
		return 1
	}
	f, _ := c.copies(1)
	return f[0]
}

// MultiplyPair implements coded.PairShard: dy and x are blocks of as many samples.
func (s *Gradient) MultiplyPair(p coded.Product, dy, x coded.Tensor, chunk int) (coded.Tensor, error) {
	if p != coded.Gradient || chunk < 0 || chunk >= s.chunks {
		return coded.Tensor{}, fmt.Errorf("%s: %s product, chunk %d, want the gradient, chunk 0 to %d", s.name, p, chunk, s.chunks-1)
	}
	if s.linear != nil {
		return s.multiplyLinear(dy, x, chunk)
	}
	return s.multiplyConv(dy, x, chunk)
}

func (s *Gradient) multiplyLinear(dy, x coded.Tensor, chunk int) (coded.Tensor, error) {
	c := *s.linear
	batch := 0
	if len(x.Shape) == 2 {
		batch = x.Shape[0]
	}
	if batch < 1 || !shaped(x, []int{batch, c.In}) || !shaped(dy, []int{batch, c.Out}) {
		return coded.Tensor{}, fmt.Errorf("%s: operands of shapes %v and %v, want [batch %d] and [batch %d]", s.name, dy.Shape, x.Shape, c.Out, c.In)
	}
	lo, hi := ChunkRange(c.Out, s.chunks, chunk)
	dw := s.dw.resize(hi-lo, c.In)
	kernel.Gemm(s.pool, true, false, hi-lo, c.In, batch, 1, dy.Data[lo:], c.Out, x.Data, c.In, 0, dw.Data, c.In)
	return dw, nil
}

func (s *Gradient) multiplyConv(dy, x coded.Tensor, chunk int) (coded.Tensor, error) {
	g, err := s.conv.pair(s.name, x, dy)
	if err != nil {
		return coded.Tensor{}, err
	}
	plane := g.OutH() * g.OutW()
	data := dy.Data
	lo, hi := ChunkRange(g.CO, s.chunks, chunk)
	if hi-lo < g.CO {
		part := s.part.resize(g.N * (hi - lo) * plane)
		for n := range g.N {
			copy(part.Data[n*(hi-lo)*plane:(n+1)*(hi-lo)*plane], data[(n*g.CO+lo)*plane:])
		}
		data, g.CO = part.Data, hi-lo
	}
	dw := s.dw.resize(g.CO, g.CI/g.Groups, g.KH, g.KW)
	kernel.ConvBackwardParams(s.pool, g, x.Data, data, dw.Data, nil, &s.ws)
	return dw, nil
}

// Flops is the number of floating-point operations of a whole product with a dY
// block of a shape.
func (s *Gradient) Flops(_ coded.Product, dy []int) float64 {
	if len(dy) < 2 {
		return 0
	}
	n := float64(elements(dy))
	if s.linear != nil {
		return 2 * n * float64(s.linear.In)
	}
	return 2 * n * float64(s.conv.size()/s.conv.Out)
}

// GradientDecoder decodes the gradient from the answers of one layer, round after
// round. One goroutine uses it.
type GradientDecoder struct {
	chunks  int
	shape   []int
	decoder *coded.Decoder
	have    []int
	results []coded.Tensor
}

// NewGradientDecoder returns the decoder for a layer of a configuration, whose code
// has one output: the sum of the products.
func NewGradientDecoder(l coded.Layer, c Config, d *coded.Decoder) (*GradientDecoder, error) {
	if d.Code().Outputs() != 1 {
		return nil, fmt.Errorf("shard: code %v has %d outputs, a gradient is one sum", d.Code(), d.Code().Outputs())
	}
	f, _ := c.copies(1)
	return &GradientDecoder{chunks: l.Chunks, shape: f, decoder: d}, nil
}

// Decode writes the gradient, in the layout of the layer's parameter, to dst.
func (d *GradientDecoder) Decode(pool *kernel.Pool, dst []float32, chunks [][]coded.Answer) error {
	if len(chunks) != d.chunks || len(dst) != elements(d.shape) {
		return fmt.Errorf("answers to %d chunks of a gradient of %d values, want %d of shape %v", len(chunks), len(dst), d.chunks, d.shape)
	}
	whole := coded.Tensor{Shape: d.shape, Data: dst}
	for i, answers := range chunks {
		lo, hi := ChunkRange(d.shape[0], d.chunks, i)
		want := slices.Clone(d.shape)
		want[0] = hi - lo
		var err error
		if d.have, d.results, err = gather(d.have[:0], d.results[:0], answers, want); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		w, err := d.decoder.Weights(d.have)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		if err := (coded.Combiner{Pool: pool}).DecodeRows(whole, w.D, d.results, coded.Blocks(d.shape[0], 1), lo); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return nil
}
