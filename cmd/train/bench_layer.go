package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/nn/shard"
)

// layerRow is the cost of one step of a resident Linear: forward, backward and
// update. Times are medians over the steps.
type layerRow struct {
	System       string  `json:"system"`
	Bench        string  `json:"bench"`
	In           int     `json:"in"`
	Out          int     `json:"out"`
	Batch        int     `json:"batch"`
	N            int     `json:"n"`
	K            int     `json:"k"`
	Pace         float64 `json:"pace_gflops"`
	StepMS       float64 `json:"step_ms"`
	ComputeMS    float64 `json:"compute_ms"` // flops of the busiest worker over its pace
	EncodeMS     float64 `json:"encode_ms"`  // at the coordinator; operands of a resident layer travel as they are
	DecodeMS     float64 `json:"decode_ms"`
	TransportMS  float64 `json:"transport_ms"` // the rest: sending, receiving, waiting
	BytesPerStep int64   `json:"bytes_per_step"`
	MinimumBytes int64   `json:"minimum_bytes"` // n(|X|+|dY|) + |Y| + |dX|
	Overhead     float64 `json:"overhead"`      // (step - compute) / compute
}

// layerBench is a resident Linear on a cluster, used without a network.
type layerBench struct {
	b       *benchCmd
	batch   int
	pace    float64 // GFLOP/s; 0: as fast as it can
	cluster *cluster
	placedLinear
	forward, backward *shard.ProductDecoder
	x, dy, y, dx      []float32
	rounds            []dist.RoundStats // of the step under way
	decode            time.Duration
	step              int
}

func benchLayer(ctx context.Context, b *benchCmd, out rows) (err error) {
	if b.Conv != "" {
		if _, err := parseConvSize(b.Conv); err != nil {
			return usageError{err}
		}
	}
	l := &layerBench{b: b, batch: cmp.Or(b.Batch, 64), pace: 20}
	l.config = shard.LinearConfig{In: cmp.Or(b.In, 4096), Out: cmp.Or(b.Outputs, 4096), Backward: true}
	if b.Pace != nil {
		l.pace = *b.Pace
	}
	logs, err := os.MkdirTemp("", "coda-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.cluster.close(), os.RemoveAll(logs)) }()
	l.cluster, err = joinCluster(ctx, clusterOptions{bind: "127.0.0.1:0", patience: joinTime, workers: b.Workers, pace: l.pace, seed: 1})
	if err != nil {
		return err
	}
	l.cluster.config = dist.CoordinatorConfig{Slots: b.Workers}
	l.cluster.observe = func(s dist.RoundStats) { l.rounds = append(l.rounds, s) }
	if err := l.cluster.start(ctx, logs, b.Workers); err != nil {
		return err
	}
	if b.Conv != "" {
		return benchConvLayers(ctx, l, out)
	}
	if err := l.place(ctx); err != nil {
		return err
	}
	row, err := l.measure(ctx)
	if err != nil {
		return err
	}
	return out(row)
}

// place puts a layer of random weights on the workers.
func (l *layerBench) place(ctx context.Context) error {
	in, outputs, batch := l.config.In, l.config.Out, l.batch
	var err error
	spec := coded.Spec{Name: "trigonometric", N: l.b.Workers, K: l.b.K}
	if l.placedLinear, err = newPlacedLinear("bench", l.config, spec, chunksPerRound); err != nil {
		return err
	}
	l.forward, l.backward = l.product(coded.Forward), l.product(coded.Backward)
	rng := rand.New(rand.NewPCG(1, 3))
	weight := randomSlice(rng, outputs*in)
	l.x, l.dy = randomSlice(rng, batch*in), randomSlice(rng, batch*outputs)
	l.y, l.dx = make([]float32, batch*outputs), make([]float32, batch*in)
	return l.placedLinear.place(ctx, l.cluster.coordinator, weight)
}

// measure makes steps for the benchmark's time, at least five.
func (l *layerBench) measure(ctx context.Context) (layerRow, error) {
	batch := int64(l.batch)
	x, y := 4*batch*int64(l.config.In), 4*batch*int64(l.config.Out)
	row := layerRow{
		System: "coda", Bench: "layer", In: l.config.In, Out: l.config.Out, Batch: l.batch, N: l.b.Workers, K: l.b.K, Pace: l.pace,
		MinimumBytes: int64(l.b.Workers)*(x+y) + y + x,
	}
	m, err := l.steps(ctx, l.makeStep, l.computeMS)
	if err != nil {
		return row, err
	}
	row.StepMS, row.ComputeMS, row.DecodeMS, row.BytesPerStep = m.step, m.compute, m.decode, m.bytes
	row.TransportMS = row.StepMS - row.ComputeMS - row.DecodeMS
	row.Overhead = (row.StepMS - row.ComputeMS) / row.ComputeMS
	return row, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// makeStep makes one step: forward, backward, update.
func (l *layerBench) makeStep(ctx context.Context) error {
	l.begin()
	batch := l.batch
	err := l.round(ctx, coded.Forward, matrix(batch, l.config.In, l.x), l.forward, matrix(batch, l.config.Out, l.y))
	if err != nil {
		return err
	}
	err = l.round(ctx, coded.Backward, matrix(batch, l.config.Out, l.dy), l.backward, matrix(batch, l.config.In, l.dx))
	if err != nil {
		return err
	}
	// The rate is so small that the same operands can be used for ever.
	return l.cluster.coordinator.Update(ctx, coded.Update{Step: l.step, LR: 1e-9, Momentum: 0.9, Scale: 1})
}

func matrix(rows, cols int, data []float32) coded.Tensor {
	return coded.Tensor{Shape: []int{rows, cols}, Data: data}
}

func (l *layerBench) round(ctx context.Context, p coded.Product, operand coded.Tensor, d *shard.ProductDecoder, dst coded.Tensor) error {
	round := coded.Round{Layer: l.layer.Name, Product: p, Step: l.step, Operand: operand, Keep: true}
	return answered(ctx, l.cluster.coordinator, round, func(answers [][]coded.Answer) error {
		began := l.b.now()
		err := d.Decode(dst, operand.Shape, answers)
		l.decode += l.b.now().Sub(began)
		return err
	})
}

// computeMS is busiest for a resident layer, every worker of which updates its shard.
func (l *layerBench) computeMS() float64 {
	block := coded.Blocks(l.config.Out, l.b.K).Size
	blockR := coded.Blocks(l.config.In, l.b.K).Size
	batch := float64(l.batch)
	forward, backward := 2*batch*float64(l.config.In*block), 2*batch*float64(l.config.Out*blockR)
	return l.busiest(forward, backward, func(int) float64 { return 1 / float64(l.layer.Chunks) }, forward+backward)
}

// stepFigures are medians over the steps.
type stepFigures struct {
	step, compute, decode float64
	bytes                 int64
}

// steps makes steps for the benchmark's time, at least five that count.
func (l *layerBench) steps(ctx context.Context, makeStep func(context.Context) error, compute func() float64) (stepFigures, error) {
	const warmUp = 3
	var steps, computes, decodes []float64
	var before dist.Stats
	end := l.b.now().Add(time.Duration(l.b.Seconds * float64(time.Second)))
	for i := 0; i < warmUp+5 || l.b.now().Before(end); i++ {
		if err := context.Cause(ctx); err != nil {
			return stepFigures{}, err
		}
		if i == warmUp {
			before = l.cluster.coordinator.Stats()
			steps, computes, decodes = steps[:0], computes[:0], decodes[:0]
		}
		began := l.b.now()
		if err := makeStep(ctx); err != nil {
			return stepFigures{}, fmt.Errorf("step %d: %w", l.step, err)
		}
		steps = append(steps, milliseconds(l.b.now().Sub(began)))
		computes = append(computes, compute())
		decodes = append(decodes, milliseconds(l.decode))
	}
	after := l.cluster.coordinator.Stats()
	bytes := (after.BytesIn + after.BytesOut - before.BytesIn - before.BytesOut) / int64(len(steps))
	return stepFigures{median(steps), median(computes), median(decodes), bytes}, nil
}

// begin begins a step.
func (l *layerBench) begin() {
	l.step++
	l.rounds, l.decode = l.rounds[:0], 0
}

// busiest is the time that the flops of the busiest worker's step take at its pace: its
// chunks of both products, each with its share of them, and what every worker does
// besides. Without a pace it is the time that the workers measured for their chunks.
func (l *layerBench) busiest(forward, backward float64, share func(chunk int) float64, besides float64) float64 {
	flops := make([]float64, l.b.Workers)
	var measured time.Duration
	for _, r := range l.rounds {
		product := forward
		if r.Product == coded.Backward {
			product = backward
		}
		measured += r.Compute
		for chunk, set := range r.Sets {
			for _, slot := range set {
				flops[slot] += product * share(chunk)
			}
		}
	}
	if l.pace == 0 {
		return milliseconds(measured)
	}
	return (slices.Max(flops) + besides) / (l.pace * 1e6)
}
