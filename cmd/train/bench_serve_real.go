package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/nn/shard"
)

// The Linear that requests are made to over processes. It is so small that the
// workers' pace, and not the machine that they share, decides how long it takes.
const (
	serveIn      = 512
	serveOutputs = 480
	serveBatch   = 8
)

// maxInFlight bounds the requests that are under way at a time.
const maxInFlight = 256

// liveService is a layer on a cluster to which requests are made.
type liveService struct {
	*serveBench
	cluster *cluster
	layer   coded.Layer
	config  shard.LinearConfig
	x       coded.Tensor
	places  chan *place // of requests that can be under way

	mu    sync.Mutex
	times []float64 // seconds
}

// place is what a request under way needs.
type place struct {
	decoder *shard.ProductDecoder
	y       coded.Tensor
}

// overProcesses serves on worker processes whose products are slowed by the
// straggler's distribution.
func (s *serveBench) overProcesses(ctx context.Context, strategies []sim.Strategy, emit func(serveRow) error) (err error) {
	if _, err := sim.ParseDistribution(s.straggler); err != nil {
		return usageError{fmt.Errorf("processes are slowed by a distribution alone: %w", err)}
	}
	logs, err := os.MkdirTemp("", "coda-bench-")
	if err != nil {
		return err
	}
	var c *cluster
	defer func() { err = errors.Join(err, c.close(), os.RemoveAll(logs)) }()
	config := shard.LinearConfig{In: serveIn, Out: serveOutputs}
	flops := 2 * serveBatch * serveIn * coded.Blocks(serveOutputs, s.b.K).Size
	c, err = joinCluster(ctx, clusterOptions{
		bind: "127.0.0.1:0", patience: joinTime, workers: s.b.Workers, pace: float64(flops) / s.shard / 1e9, seed: s.b.Seed,
		faults: []fault{{what: "slow", slow: s.straggler}}, config: dist.CoordinatorConfig{Slots: s.b.Workers},
	})
	if err != nil {
		return err
	}
	if err := c.start(ctx, logs, s.b.Workers); err != nil {
		return err
	}
	for i, strategy := range strategies {
		live := &liveService{serveBench: s, cluster: c, config: config}
		row, err := live.serve(ctx, fmt.Sprintf("serve-%d", i), strategy)
		if err != nil {
			return fmt.Errorf("%s: %w", strategy.Name(), err)
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

// serve places a layer of its own for a strategy and makes requests to it.
func (l *liveService) serve(ctx context.Context, name string, strategy sim.Strategy) (serveRow, error) {
	spec := coded.Spec{Name: "trigonometric", N: l.b.Workers, K: l.b.K}
	switch strategy.(type) {
	case sim.Uncoded:
		spec = coded.Spec{Name: "uncoded", N: l.b.Workers, K: l.b.Workers}
	case sim.MDS, sim.Adaptive:
	default:
		return serveRow{}, usageError{errors.New("over processes there are uncoded, mds and adaptive")}
	}
	if err := l.place(ctx, name, spec, chunksOf(strategy)); err != nil {
		return serveRow{}, err
	}
	if err := l.request(ctx); err != nil {
		return serveRow{}, err
	}
	row := serveRow{Strategy: strategy.Name(), Chunks: l.layer.Chunks}
	row.fill(l.times)
	return row, nil
}

func (l *liveService) place(ctx context.Context, name string, spec coded.Spec, chunks int) error {
	raw, err := l.config.Marshal()
	if err != nil {
		return err
	}
	code, err := coded.New(spec)
	if err != nil {
		return err
	}
	l.layer = coded.Layer{Name: name, Kind: shard.KindLinear, Config: raw, Code: spec, Chunks: min(chunks, l.config.MaxChunks(spec.K))}
	rng := rand.New(rand.NewPCG(l.b.Seed, 5))
	weight := randomSlice(rng, serveOutputs*serveIn)
	l.x = coded.Tensor{Shape: []int{serveBatch, serveIn}, Data: randomSlice(rng, serveBatch*serveIn)}
	together := maxInFlight
	if l.b.Together > 0 {
		together = min(together, l.b.Together)
	}
	l.places = make(chan *place, together)
	for range together {
		d := coded.NewDecoder(code, coded.DecoderConfig{})
		l.places <- &place{shard.NewProductDecoder(l.layer, l.config, d, coded.Forward), coded.NewTensor(serveBatch, serveOutputs)}
	}
	return l.cluster.coordinator.Place(ctx, l.layer, func(slot int) ([]coded.Tensor, error) {
		return l.config.Encode(weight, nil, code, slot)
	})
}

// request makes requests by a Poisson process for the benchmark's time, after
// some to warm up, which do not count. The first that fails ends it.
func (l *liveService) request(ctx context.Context) error {
	const warmUp = 20
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var under sync.WaitGroup
	defer under.Wait()
	n := warmUp + max(1, int(l.b.Seconds*l.b.Rate))
	rng := rand.New(rand.NewPCG(l.b.Seed, 6))
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := l.b.now()
	for i := range n {
		next = next.Add(time.Duration(rng.ExpFloat64() / l.b.Rate * float64(time.Second)))
		arrival := next
		p, err := l.admit(ctx, timer, arrival)
		if err != nil {
			return err
		}
		pending, err := l.cluster.coordinator.Start(ctx, coded.Round{Layer: l.layer.Name, Product: coded.Forward, Step: i + 1, Operand: l.x})
		if err != nil {
			return err
		}
		under.Go(func() {
			if err := l.answer(ctx, pending, p, arrival, i >= warmUp); err != nil {
				cancel(err)
			}
		})
	}
	under.Wait()
	return context.Cause(ctx)
}

// admit waits for a request's arrival and for a place.
func (l *liveService) admit(ctx context.Context, timer *time.Timer, arrival time.Time) (*place, error) {
	timer.Reset(arrival.Sub(l.b.now()))
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case p := <-l.places:
		return p, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answer waits for a request's result, decodes it and notes how long it took.
func (l *liveService) answer(ctx context.Context, pending coded.Pending, p *place, arrival time.Time, counts bool) error {
	defer func() { l.places <- p }()
	defer pending.Release()
	answers, err := pending.Wait(ctx)
	if err != nil {
		return err
	}
	if err := p.decoder.Decode(p.y, l.x.Shape, answers); err != nil {
		return err
	}
	took := l.b.now().Sub(arrival).Seconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	if counts {
		l.times = append(l.times, took)
	}
	return nil
}
