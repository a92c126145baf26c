package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// convLayerRow is the cost of one step of a placed 3x3 convolution that keeps the size
// of its planes: forward, backward and update. Times are medians over the steps.
type convLayerRow struct {
	System       string  `json:"system"`
	Bench        string  `json:"bench"`
	Placement    string  `json:"placement"`
	In           int     `json:"in"`
	Out          int     `json:"out"`
	Height       int     `json:"height"`
	Width        int     `json:"width"`
	Batch        int     `json:"batch"`
	N            int     `json:"n"`
	K            int     `json:"k"`
	Pace         float64 `json:"pace_gflops"`
	StepMS       float64 `json:"step_ms"`
	ComputeMS    float64 `json:"compute_ms"` // flops of the busiest worker over its pace
	EncodeMS     float64 `json:"encode_ms"`  // at the coordinator, of the batch; 0 of a resident layer
	DecodeMS     float64 `json:"decode_ms"`
	GradientMS   float64 `json:"gradient_ms"`  // of dW at the coordinator, while the workers are at dX; 0 of a resident layer
	TransportMS  float64 `json:"transport_ms"` // the rest: sending, receiving, waiting
	BytesPerStep int64   `json:"bytes_per_step"`
	MinimumBytes int64   `json:"minimum_bytes"` // n(|X|+|dY|) + |Y| + |dX|; of a coded batch |X|+|dY| + n|W| + |Y| + |dX|, or n/k(|X|+|dY|) where chunks are not samples
	Overhead     float64 `json:"overhead"`      // (step - compute) / compute
}

// convLayer is a convolution on a cluster, used without a network.
type convLayer struct {
	*layerBench
	config  shard.Conv2dConfig
	layer   coded.Layer
	decoder *coded.Decoder
	pool    *kernel.Pool
	shape   kernel.Conv

	x, dy, y, dx coded.Tensor
	w, dw        coded.Tensor
	forward      convProduct
	backward     convProduct
	ws           kernel.Workspace

	encode, gradient time.Duration // of the step under way
}

// convProduct is one product in a placement: its operand, encoded if the batch is, and
// its result.
type convProduct struct {
	product  coded.Product
	operand  coded.Tensor
	result   coded.Tensor
	resident *shard.ProductDecoder // nil of a coded batch
	batch    *shard.BatchCoder
	blocks   coded.Tensor
}

// parseConvSize reads "256x256x16x16": channels in and out, height and width.
func parseConvSize(s string) (size [4]int, err error) {
	parts := strings.Split(s, "x")
	if len(parts) != len(size) {
		return size, fmt.Errorf("--conv %q: want INxOUTxHEIGHTxWIDTH, such as 256x256x16x16", s)
	}
	for i, p := range parts {
		if size[i], err = strconv.Atoi(p); err != nil || size[i] < 1 || size[i] > 1<<14 {
			return size, fmt.Errorf("--conv %q: want four numbers from 1 to %d", s, 1<<14)
		}
	}
	return size, nil
}

// benchConvLayers measures the convolution in both placements.
func benchConvLayers(ctx context.Context, l *layerBench, out rows) error {
	size, err := parseConvSize(l.b.Conv)
	if err != nil {
		return usageError{err}
	}
	pool := kernel.NewPool(l.b.Threads)
	defer pool.Close()
	for _, placement := range []string{plan.Resident, plan.Batch} {
		c := &convLayer{layerBench: l, pool: pool, config: shard.Conv2dConfig{
			In: size[0], Out: size[1], KernelH: 3, KernelW: 3, Stride: 1, Padding: 1, Dilation: 1, Groups: 1, Backward: true,
		}}
		c.shape = kernel.Conv{
			N: l.batch, CI: size[0], H: size[2], W: size[3], CO: size[1], KH: 3, KW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1, Groups: 1,
		}
		if err := c.place(ctx, placement); err != nil {
			return fmt.Errorf("placement %s: %w", placement, err)
		}
		row, err := c.measure(ctx, placement)
		if err != nil {
			return fmt.Errorf("placement %s: %w", placement, err)
		}
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

// place puts the layer with random weights on the workers.
func (c *convLayer) place(ctx context.Context, placement string) error {
	rng := rand.New(rand.NewPCG(1, 3))
	random := func(shape ...int) coded.Tensor {
		t := coded.NewTensor(shape...)
		t.Data = randomSlice(rng, len(t.Data))
		return t
	}
	c.x, c.dx = random(c.batch, c.config.In, c.shape.H, c.shape.W), coded.NewTensor(c.batch, c.config.In, c.shape.H, c.shape.W)
	c.dy, c.y = random(c.batch, c.config.Out, c.shape.H, c.shape.W), coded.NewTensor(c.batch, c.config.Out, c.shape.H, c.shape.W)
	c.w, c.dw = random(c.config.Out, c.config.In, 3, 3), coded.NewTensor(c.config.Out, c.config.In, 3, 3)
	spec := coded.Spec{Name: "trigonometric", N: c.b.Workers, K: c.b.K}
	code, err := coded.New(spec)
	if err != nil {
		return err
	}
	c.decoder = coded.NewDecoder(code, coded.DecoderConfig{})
	c.layer = coded.Layer{Name: placement, Kind: shard.KindConv2d, Code: spec}
	k, encode, marshal := spec.K, c.config.Encode, c.config.Marshal
	if placement == plan.Batch {
		k, c.layer.Kind = 1, shard.KindBatch
		encode = func(w, _ []float32, code *coded.Code, slot int) ([]coded.Tensor, error) {
			return shard.EncodeBatch(c.config, w, code, slot)
		}
		wrapped, err := shard.NewBatchConfig(c.config)
		if err != nil {
			return err
		}
		marshal = wrapped.Marshal
	}
	if err := c.config.Validate(k, 1); err != nil {
		return err
	}
	c.layer.Chunks = min(chunksPerRound, c.config.MaxChunks(k))
	if c.layer.Config, err = marshal(); err != nil {
		return err
	}
	c.forward, c.backward = c.newProduct(coded.Forward, c.x, c.y), c.newProduct(coded.Backward, c.dy, c.dx)
	return c.cluster.coordinator.Place(ctx, c.layer, func(slot int) ([]coded.Tensor, error) { return encode(c.w.Data, nil, code, slot) })
}

func (c *convLayer) newProduct(p coded.Product, operand, result coded.Tensor) convProduct {
	r := convProduct{product: p, operand: operand, result: result}
	if c.layer.Kind == shard.KindConv2d {
		r.resident = shard.NewProductDecoder(c.layer, c.config, c.decoder, p)
		return r
	}
	r.batch = shard.NewBatchCoder(c.layer, c.config, c.decoder, p)
	r.blocks = coded.NewTensor(r.batch.Shape(operand.Shape)...)
	return r
}

// measure makes steps for the benchmark's time, at least five.
func (c *convLayer) measure(ctx context.Context, placement string) (convLayerRow, error) {
	row := convLayerRow{
		System: "coda", Bench: "layer", Placement: placement, In: c.config.In, Out: c.config.Out, Height: c.shape.H, Width: c.shape.W,
		Batch: c.batch, N: c.b.Workers, K: c.b.K, Pace: c.pace, MinimumBytes: c.minimum(placement),
	}
	var encodes, gradients []float64
	m, err := c.steps(ctx, func(ctx context.Context) error {
		if err := c.makeStep(ctx); err != nil {
			return err
		}
		encodes, gradients = append(encodes, milliseconds(c.encode)), append(gradients, milliseconds(c.gradient))
		return nil
	}, c.computeMS)
	if err != nil {
		return row, err
	}
	row.StepMS, row.ComputeMS, row.DecodeMS, row.BytesPerStep = m.step, m.compute, m.decode, m.bytes
	row.EncodeMS, row.GradientMS = median(encodes), median(gradients)
	row.TransportMS = row.StepMS - row.ComputeMS - row.EncodeMS - row.DecodeMS
	row.Overhead = (row.StepMS - row.ComputeMS) / row.ComputeMS
	return row, nil
}

// minimum is the least that a step has to send and receive.
func (c *convLayer) minimum(placement string) int64 {
	n := int64(c.b.Workers)
	x, y, w := 4*int64(len(c.x.Data)), 4*int64(len(c.y.Data)), 4*int64(len(c.w.Data))
	if placement == plan.Batch {
		blocks := n // of k for each product
		if c.forward.batch.ByRows(c.x.Shape) && c.backward.batch.ByRows(c.dy.Shape) {
			blocks = int64(c.b.K) // a chunk is sent to those who compute it
		}
		return blocks*(x+y)/int64(c.b.K) + n*w + y + x
	}
	return n*(x+y) + y + x
}

// makeStep makes one step: forward, backward, update. Of a coded batch, dW is computed
// here while the workers compute dX, and the weights are sent.
func (c *convLayer) makeStep(ctx context.Context) error {
	c.begin()
	c.encode, c.gradient = 0, 0
	if err := c.multiply(ctx, &c.forward, func() {}); err != nil {
		return err
	}
	meanwhile := func() {}
	if c.backward.batch != nil {
		meanwhile = func() {
			began := c.b.now()
			kernel.ConvBackwardParams(c.pool, c.shape, c.x.Data, c.dy.Data, c.dw.Data, nil, &c.ws)
			c.gradient = c.b.now().Sub(began)
		}
	}
	if err := c.multiply(ctx, &c.backward, meanwhile); err != nil {
		return err
	}
	if c.backward.batch != nil {
		if err := c.sendWeights(ctx); err != nil {
			return err
		}
	}
	// The rate is so small that the same operands can be used for ever.
	return c.cluster.coordinator.Update(ctx, coded.Update{Step: c.step, LR: 1e-9, Momentum: 0.9, Scale: 1})
}

// multiply makes a round, and does something else until it is waited for.
func (c *convLayer) multiply(ctx context.Context, p *convProduct, meanwhile func()) (err error) {
	r := coded.Round{Layer: c.layer.Name, Product: p.product, Step: c.step}
	if p.batch == nil {
		r.Operand, r.Keep = p.operand, true
	} else {
		began := c.b.now()
		if err := p.batch.Encode(c.pool, p.blocks.Data, p.operand); err != nil {
			return err
		}
		for _, block := range shard.Slots(nil, p.blocks) {
			r.Slots = append(r.Slots, []coded.Tensor{block})
		}
		r.ByRows = p.batch.ByRows(p.operand.Shape)
		c.encode += c.b.now().Sub(began)
	}
	pending, err := c.cluster.coordinator.Start(ctx, r)
	if err != nil {
		return err
	}
	defer pending.Release()
	meanwhile()
	answers, err := pending.Wait(ctx)
	if err != nil {
		return err
	}
	began := c.b.now()
	defer func() { c.decode += c.b.now().Sub(began) }()
	if p.batch == nil {
		return p.resident.Decode(p.result, p.operand.Shape, answers)
	}
	return p.batch.Decode(c.pool, p.result, p.operand.Shape, answers)
}

// sendWeights hands them over as nn.Batch does: in place of the operands of an update.
func (c *convLayer) sendWeights(ctx context.Context) error {
	for i, operand := range []coded.Tensor{c.w, coded.NewTensor(1)} {
		p := []coded.Product{coded.Forward, coded.Backward}[i]
		round, err := c.cluster.coordinator.Start(ctx, coded.Round{Layer: c.layer.Name, Product: p, Step: c.step, Operand: operand, Keep: true, Discard: true})
		if err != nil {
			return err
		}
		round.Release()
	}
	return nil
}

func (c *convLayer) evenly(int) float64 { return 1 / float64(c.layer.Chunks) }

// computeMS is layerBench.computeMS for a convolution: of a resident one with the
// update of a shard, of a coded batch with none.
func (c *convLayer) computeMS() float64 {
	whole := 2 * float64(len(c.w.Data)) * float64(c.batch*c.shape.H*c.shape.W)
	part := func(total int) float64 { return whole * float64(coded.Blocks(total, c.b.K).Size) / float64(total) }
	if c.layer.Kind == shard.KindBatch {
		rows := coded.Blocks(c.batch, c.b.K).Size
		return c.busiest(part(c.batch), part(c.batch), func(chunk int) float64 {
			lo, hi := shard.ChunkRange(rows, c.layer.Chunks, chunk)
			return float64(hi-lo) / float64(rows)
		}, 0)
	}
	forward, backward := part(c.config.Out), part(c.config.In)
	return c.busiest(forward, backward, c.evenly, forward+backward)
}
