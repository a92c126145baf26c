package shard

import (
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// Conv2d is the resident shard of a convolution at one slot of the code. It
// implements coded.Shard. Both copies are weights of convolutions of as many
// groups: F with a block of every group's output channels, R with a block of
// every group's input channels. What products cut by samples make of the weights is
// kept until these change by Apply or SetState: of a convolution of 3 x 3 and stride 1
// up to 4 times a copy, see kernel.Workspace.Weights. A bit that flips in a weight shows
// in the state at once and in the products after the next change.
type Conv2d struct {
	resident
	config Conv2dConfig
	rows   bool // the operand of a chunk is its samples alone, see coded.Layer.ByBatch
	ws     kernel.Workspace
	part   buffer // weights of the channels of a chunk
	more   buffer // gradient of a second pair of operands
}

var _ coded.RowsShard = (*Conv2d)(nil)

// NewConv2d builds the shard with weights and momenta of zeros. The pool may
// be nil: then it computes on the goroutine of its caller.
func NewConv2d(l coded.Layer, slot int, pool *kernel.Pool) (*Conv2d, error) {
	config, err := ParseConv2dConfig(l.Config)
	if l.Kind != KindConv2d {
		err = fmt.Errorf("kind %q, want %q", l.Kind, KindConv2d)
	}
	s := &Conv2d{config: config, rows: l.ByBatch}
	if err == nil {
		s.resident, err = newResident(l, slot, config, pool)
	}
	if err != nil {
		return nil, fmt.Errorf("shard: layer %s, slot %d: %w", l.Name, slot, err)
	}
	return s, nil
}

// Multiply implements coded.Shard. Forward takes X [batch, in, height, width]
// and gives the chunk of its convolution with F, Backward takes dY [batch, out,
// ..] and gives the chunk of the gradient of the input of a convolution with R.
// See Config for how results are cut; of a layer that is cut by batch, x is the
// chunk's samples and the result has all channels.
func (s *Conv2d) Multiply(p coded.Product, x coded.Tensor, chunk int) (coded.Tensor, error) {
	if err := s.checkChunk(p, chunk); err != nil {
		return coded.Tensor{}, err
	}
	return s.multiply(p, x, chunk, s.rows)
}

// MultiplyRows implements coded.RowsShard: x has samples of a chunk.
func (s *Conv2d) MultiplyRows(p coded.Product, x coded.Tensor) (coded.Tensor, error) {
	return s.multiply(p, x, 0, true)
}

// multiply computes a chunk, or if rows is set, the product of all samples of x.
func (s *Conv2d) multiply(p coded.Product, x coded.Tensor, chunk int, rows bool) (coded.Tensor, error) {
	h, err := s.half(p)
	if err != nil {
		return coded.Tensor{}, err
	}
	c, err := s.config.cut(p, x.Shape, len(s.row), s.chunks)
	if err == nil && len(x.Data) != elements(x.Shape) {
		err = fmt.Errorf("operand of shape %v with %d values", x.Shape, len(x.Data))
	}
	if err != nil {
		return coded.Tensor{}, fmt.Errorf("%s: %s product: %w", s.name, p, err)
	}
	lo, hi := c.bounds(s.chunks, chunk)
	if rows {
		c.byBatch, lo, hi = true, 0, c.batch
	}
	samples, channels := c.size(lo, hi)
	weights := h.w.Data
	s.ws.Weights = 0
	if c.byBatch {
		s.ws.Weights = s.changes + 1
		sample := len(x.Data) / c.batch
		x.Data = x.Data[lo*sample : hi*sample]
	} else {
		weights = s.channels(p, lo, hi)
	}
	y := h.product.resize(samples, c.groups*channels, c.plane[0], c.plane[1])
	if p == coded.Forward {
		g := s.config.geometry(samples, x.Shape[2], x.Shape[3])
		g.CO = c.groups * channels
		kernel.ConvForward(s.pool, g, x.Data, weights, nil, y.Data, false, &s.ws)
	} else {
		g := s.config.geometry(samples, c.plane[0], c.plane[1])
		g.CI = c.groups * channels
		kernel.ConvBackwardInput(s.pool, g, x.Data, weights, y.Data, &s.ws)
	}
	return y, nil
}

// channels returns the weights of the coded channels lo to hi of every group:
// output channels for a forward product, else input channels.
func (s *Conv2d) channels(p coded.Product, lo, hi int) []float32 {
	w, lines, features := s.r.w, s.config.Out, 0
	if p == coded.Forward {
		w, lines = s.f.w, s.config.Groups
	}
	out, in := s.config.blocks(len(s.row))
	if features = in.Size; p == coded.Forward {
		features = out.Size
	}
	line := len(w.Data) / lines
	each := line / features
	if lines == 1 || hi-lo == features {
		return w.Data[lo*each : len(w.Data)-(features-hi)*each]
	}
	part := s.part.resize(lines * (hi - lo) * each)
	for i := range lines {
		copy(part.Data[i*(hi-lo)*each:(i+1)*(hi-lo)*each], w.Data[i*line+lo*each:])
	}
	return part.Data
}

// Accumulate implements coded.Shard: dF is the gradient of the weights for X and
// the coded output channels of dY, dR that for the coded input channels of X
// and dY.
func (s *Conv2d) Accumulate(x, dy coded.Tensor) error {
	g, err := s.config.pair(s.name, x, dy)
	if err != nil {
		return err
	}
	out, in := s.config.blocks(len(s.row))
	block, err := s.encode(&s.f, dy, out)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	f := g
	f.CO = block.Shape[1]
	s.gradient(&s.f, f, x.Data, block.Data)
	if s.backward {
		if block, err = s.encode(&s.r, x, in); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		g.CI = block.Shape[1]
		s.gradient(&s.r, g, block.Data, dy.Data)
	}
	s.pending = true
	return nil
}

// pair returns the geometry of the layer for X, if dY fits it; name is for errors.
func (c Conv2dConfig) pair(name string, x, dy coded.Tensor) (kernel.Conv, error) {
	g, err := c.geometryOf(coded.Forward, x.Shape)
	if err == nil && len(x.Data) != elements(x.Shape) {
		err = fmt.Errorf("%d values of shape %v", len(x.Data), x.Shape)
	}
	if err != nil {
		return g, fmt.Errorf("%s: X: %w", name, err)
	}
	if want := []int{g.N, g.CO, g.OutH(), g.OutW()}; !shaped(dy, want) {
		return g, fmt.Errorf("%s: dY has shape %v and %d values, want %v for X of shape %v", name, dy.Shape, len(dy.Data), want, x.Shape)
	}
	return g, nil
}

// encode combines the blocks of channels of x, within each group.
func (s *Conv2d) encode(h *half, x coded.Tensor, p coded.Partition) (coded.Tensor, error) {
	groups := s.config.Groups
	n, plane := x.Shape[0], x.Shape[2]*x.Shape[3]
	block := h.coded.resize(n*groups, p.Size, plane)
	err := coded.Combiner{Pool: s.pool}.EncodeColumns([]coded.Tensor{block}, [][]float64{s.row},
		coded.Tensor{Shape: []int{n * groups, p.Total, plane}, Data: x.Data}, p)
	block.Shape = []int{n, groups * p.Size, x.Shape[2], x.Shape[3]}
	return block, err
}

// gradient adds the gradient of the weights to that of a copy, or overwrites it
// if it is the first.
func (s *Conv2d) gradient(h *half, g kernel.Conv, x, dy []float32) {
	dw := h.gradient()
	if s.pending {
		dw = s.more.resize(len(dw)).Data
	}
	kernel.ConvBackwardParams(s.pool, g, x, dy, dw, nil, &s.ws)
	if s.pending {
		kernel.Add(h.g, h.g, dw)
	}
}

// Flops is the number of floating-point operations of a whole product of an
// operand of a shape; a chunk takes its share of them.
func (s *Conv2d) Flops(p coded.Product, operand []int) float64 {
	h, err := s.half(p)
	if err != nil {
		return 0
	}
	g, err := s.config.geometryOf(p, operand)
	if err != nil {
		return 0
	}
	return 2 * float64(g.N*g.OutH()*g.OutW()) * float64(len(h.w.Data))
}

// UpdateFlops is the same for Accumulate, the costly part of an update, with X
// of a shape.
func (s *Conv2d) UpdateFlops(x []int) float64 {
	g, err := s.config.geometryOf(coded.Forward, x)
	if err != nil {
		return 0
	}
	return 2 * float64(g.N*g.OutH()*g.OutW()) * float64(len(s.f.w.Data)+len(s.r.w.Data))
}
