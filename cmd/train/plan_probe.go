package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/nn/shard"
)

// probe measures a cluster by rounds of layers made for it, through the same
// executor as training.
type probe struct {
	cluster *cluster
	n       int
	only    atomic.Pointer[[]int] // the slots that compute; nil: all
	last    dist.RoundStats
	step    int
}

// probe replaces what the machines were told to be by what is measured.
func (p *planCmd) probe(ctx context.Context, m *plan.Machines) (err error) {
	logs, err := os.MkdirTemp("", "coda-plan-")
	if err != nil {
		return err
	}
	b := &probe{n: p.Workers}
	defer func() { err = errors.Join(err, b.cluster.close(), os.RemoveAll(logs)) }()
	options := clusterOptions{bind: p.Bind, join: p.Join, keyFile: p.Key, patience: joinTime, workers: p.Workers, pace: p.Pace, seed: p.Seed}
	if len(p.Join) > 0 {
		options.workers = 0
	}
	if b.cluster, err = joinCluster(ctx, options); err != nil {
		return err
	}
	if len(p.Join) > 0 {
		if b.n, err = b.cluster.awaitMembers(ctx, 1); err != nil {
			return err
		}
	}
	b.cluster.config = dist.CoordinatorConfig{Slots: b.n, Select: b.selection}
	b.cluster.observe = func(s dist.RoundStats) { b.last = s }
	if err := b.cluster.start(ctx, logs, b.n); err != nil {
		return err
	}
	return b.measure(ctx, m)
}

// selection lets some slots compute, or leaves it to the scheduler.
func (b *probe) selection(dist.RoundInfo) [][]int {
	if only := b.only.Load(); only != nil {
		return [][]int{*only}
	}
	return nil
}

func (b *probe) measure(ctx context.Context, m *plan.Machines) (err error) {
	if err := b.speeds(ctx, m); err != nil {
		return fmt.Errorf("speed: %w", err)
	}
	if err := b.together(ctx, m); err != nil {
		return fmt.Errorf("speed of workers that share a machine: %w", err)
	}
	if m.Message, err = b.messages(ctx, m.Latency); err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	if m.Bandwidth, err = b.bandwidth(ctx, *m); err != nil {
		return fmt.Errorf("bandwidth: %w", err)
	}
	memory, err := b.memory(ctx, *m)
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if memory > 0 {
		m.Memory = memory
	}
	return nil
}

// probed is a layer of the probe.
type probed struct {
	*probe
	layer  coded.Layer
	config shard.LinearConfig
}

// place places a Linear of zeros, whose products are cut into so many chunks.
func (b *probe) place(ctx context.Context, name string, spec coded.Spec, config shard.LinearConfig, chunks int) (*probed, error) {
	raw, err := config.Marshal()
	if err != nil {
		return nil, err
	}
	code, err := coded.New(spec)
	if err != nil {
		return nil, err
	}
	l := &probed{probe: b, config: config, layer: coded.Layer{Name: name, Kind: shard.KindLinear, Config: raw, Code: spec, Chunks: chunks}}
	weight := make([]float32, config.In*config.Out)
	return l, b.cluster.coordinator.Place(ctx, l.layer, func(slot int) ([]coded.Tensor, error) {
		return config.Encode(weight, nil, code, slot)
	})
}

// round makes a product of an operand with so many rows, and returns how long it
// took and how long the busiest worker computed.
func (l *probed) round(ctx context.Context, p coded.Product, rows int, keep bool) (took, compute float64, err error) {
	width := l.config.In
	if p == coded.Backward {
		width = l.config.Out
	}
	began := time.Now()
	pending, err := l.cluster.coordinator.Start(ctx, coded.Round{
		Layer: l.layer.Name, Product: p, Step: l.step, Keep: keep, Operand: coded.NewTensor(rows, width),
	})
	if err != nil {
		return 0, 0, err
	}
	defer pending.Release()
	if _, err := pending.Wait(ctx); err != nil {
		return 0, 0, err
	}
	return time.Since(began).Seconds(), l.last.Compute.Seconds(), nil
}

// medianRounds is the median of what a round takes beside computing, and of its
// computing.
func (l *probed) medianRounds(ctx context.Context, rows int) (beside, compute float64, err error) {
	var besides, computes []float64
	for i := range repeats + 1 {
		l.step++
		t, c, err := l.round(ctx, coded.Forward, rows, false)
		if err != nil {
			return 0, 0, err
		}
		if i > 0 {
			besides, computes = append(besides, t-c), append(computes, c)
		}
	}
	return median(besides), median(computes), nil
}

// speeds measures, worker by worker, the speed of products, and over all workers
// the time of a message and what a task takes beside its flops: two products of
// different sizes tell both.
func (b *probe) speeds(ctx context.Context, m *plan.Machines) error {
	l, err := b.place(ctx, "plan-speed", coded.Spec{Name: "replication", N: b.n, K: 1}, shard.LinearConfig{In: probeSize, Out: probeSize}, 1)
	if err != nil {
		return err
	}
	defer b.only.Store(nil)
	var latencies, tasks []float64
	m.Speeds = nil
	for w := range b.n {
		b.only.Store(&[]int{w})
		beside, little, err := l.medianRounds(ctx, 1)
		if err != nil {
			return err
		}
		rows, much, err := l.long(ctx)
		if err != nil {
			return err
		}
		speed := probeFlops * float64(rows-1) / max(much-little, 1e-9)
		m.Speeds = append(m.Speeds, speed)
		latencies, tasks = append(latencies, beside/2), append(tasks, little-probeFlops/speed)
	}
	m.Latency, m.Task = max(median(latencies), 1e-6), max(median(tasks), 0)
	return nil
}

// probeSize is the number of input features, and of output features that a worker has, of
// the layers whose products are timed; probeFlops are those of a row.
const (
	probeSize  = 512
	probeFlops = 2 * probeSize * probeSize
)

// long finds a number of rows whose product takes long enough to tell a speed.
func (l *probed) long(ctx context.Context) (rows int, compute float64, err error) {
	const enough, most = 10e-3, 1 << 12
	for rows = 4; ; rows *= 4 {
		_, compute, err = l.medianRounds(ctx, rows)
		if err != nil || compute >= enough || rows == most {
			return rows, compute, err
		}
	}
}

// bandwidth measures how fast the bytes of an operand get to all workers.
func (b *probe) bandwidth(ctx context.Context, m plan.Machines) (float64, error) {
	const width, rows = 1 << 16, 8
	l, err := b.place(ctx, "plan-bandwidth", coded.Spec{Name: "uncoded", N: b.n, K: b.n}, shard.LinearConfig{In: width, Out: b.n}, 1)
	if err != nil {
		return 0, err
	}
	beside, _, err := l.medianRounds(ctx, rows)
	if err != nil {
		return 0, err
	}
	messages := 2*m.Latency + float64(2*b.n-2)*m.Message // the first two are in the latency
	return 4 * float64(width*rows*b.n) / max(beside-messages, 1e-6), nil
}

// memory measures how fast the workers' optimiser is: by how much longer a product
// takes after an update. It is 0 if that is too little to be seen.
//
// The two rounds of a pair are alike but for the update.
func (b *probe) memory(ctx context.Context, m plan.Machines) (float64, error) {
	const in, part = 1024, 512
	config := shard.LinearConfig{In: in, Out: part * b.n, Backward: true}
	l, err := b.place(ctx, "plan-memory", coded.Spec{Name: "uncoded", N: b.n, K: b.n}, config, 1)
	if err != nil {
		return 0, err
	}
	var after, plain []float64
	for i := range repeats + 1 {
		l.step++
		if _, _, err := l.round(ctx, coded.Forward, 1, true); err != nil {
			return 0, err
		}
		if _, _, err := l.round(ctx, coded.Backward, 1, true); err != nil {
			return 0, err
		}
		if err := b.cluster.coordinator.Update(ctx, coded.Update{Step: l.step, LR: 1e-9, Momentum: 0.9, Scale: 1}); err != nil {
			return 0, err
		}
		if i == 0 {
			continue // nothing had been updated before
		}
		again, _, err := l.round(ctx, coded.Forward, 1, false)
		if err != nil {
			return 0, err
		}
		then, _, err := l.round(ctx, coded.Forward, 1, false)
		if err != nil {
			return 0, err
		}
		after, plain = append(after, again), append(plain, then)
	}
	weights := 2 * in * part // of F and of R
	gather := m.Task + 2*float64(weights)/slices.Min(m.Speeds)
	extra := median(after) - median(plain) - gather
	if extra < 1e-4 {
		return 0, nil
	}
	return plan.MemoryOf(weights, extra), nil
}
