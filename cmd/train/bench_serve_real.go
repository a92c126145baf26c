package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/internal/alarm"
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
	placedLinear
	strategy    sim.Strategy
	scheduling  dist.Strategy
	coordinator *dist.Coordinator
	x           coded.Tensor
	slots       []*servingSlot // of requests that can be under way
}

// servingSlot is what a request under way needs.
type servingSlot struct {
	decoder productDecoder
	y       coded.Tensor
}

// overProcesses serves on worker processes whose products are slowed by the
// straggler's distribution.
func (s *serveBench) overProcesses(ctx context.Context, strategies []sim.Strategy, emit func(serveRow) error) (err error) {
	if _, err := sim.ParseDistribution(s.straggler); err != nil {
		return usageError{fmt.Errorf("processes are slowed by a distribution alone: %w", err)}
	}
	services, scheduling, err := s.live(strategies)
	if err != nil {
		return err
	}
	flops := 2 * serveBatch * serveIn * coded.Blocks(serveOutputs, s.b.K).Size
	coordinator, closeCluster, err := s.startCluster(ctx, clusterOptions{
		bind: "127.0.0.1:0", patience: joinTime, workers: s.b.Workers, pace: float64(flops) / s.shard / 1e9, seed: s.b.Seed,
		faults: []fault{{what: "slow", slow: s.straggler}}, config: dist.CoordinatorConfig{Slots: s.b.Workers, Strategies: scheduling, Queue: s.b.Queue},
	})
	defer func() { err = errors.Join(err, closeCluster()) }()
	if err != nil {
		return err
	}
	for _, live := range services {
		live.coordinator = coordinator
		row, err := live.serve(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", live.strategy.Name(), err)
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

// startCluster starts the workers, in processes of their own or here. What it returns
// must be called, also after an error.
func (s *serveBench) startCluster(ctx context.Context, o clusterOptions) (*dist.Coordinator, func() error, error) {
	if s.b.Here {
		g, err := startGuests(ctx, o)
		return g.coordinator, g.close, err
	}
	logs, err := os.MkdirTemp("", "coda-bench-")
	if err != nil {
		return nil, func() error { return nil }, err
	}
	c, err := joinCluster(ctx, o)
	end := func() error { return errors.Join(c.close(), os.RemoveAll(logs)) }
	if err == nil {
		err = c.start(ctx, logs, s.b.Workers)
	}
	return c.coordinator, end, err
}

// live describes a layer for each strategy, and how its chunks are handed out.
func (s *serveBench) live(strategies []sim.Strategy) (services []*liveService, scheduling map[string]dist.Strategy, err error) {
	config := shard.LinearConfig{In: serveIn, Out: serveOutputs}
	scheduling = map[string]dist.Strategy{}
	for i, strategy := range inPieces(strategies, s.b.Pieces) {
		how, known := overSockets(strategy, s.b.Workers, s.b.K, 1)
		if !known {
			return nil, nil, usageError{fmt.Errorf("--strategy %s: there is none over processes", strategy.Name())}
		}
		layer, err := newPlacedLinear(fmt.Sprintf("serve-%d", i), config, how.spec, how.chunks)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", strategy.Name(), err)
		}
		scheduling[layer.layer.Name] = how.scheduling
		services = append(services, &liveService{serveBench: s, placedLinear: layer, strategy: strategy, scheduling: how.scheduling})
	}
	return services, scheduling, nil
}

// inPieces replaces the adaptive strategies, one for each number of chunks in virtual
// time, by a single one: what takes a fraction of a millisecond is not worth a message.
func inPieces(strategies []sim.Strategy, pieces int) []sim.Strategy {
	var list []sim.Strategy
	for _, s := range strategies {
		if a, ok := s.(sim.Adaptive); ok {
			s = sim.Adaptive{K: a.K, Chunks: pieces}
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// serve places the strategy's layer and makes requests to it.
func (l *liveService) serve(ctx context.Context) (serveRow, error) {
	if err := l.start(ctx); err != nil {
		return serveRow{}, err
	}
	clock, err := alarm.New()
	if err != nil {
		return serveRow{}, err
	}
	made := requests[*servingSlot]{slots: l.slots, rate: l.b.Rate, n: max(1, int(l.b.Seconds*l.b.Rate)), seed: l.b.Seed, clock: clock}
	times, err := made.serve(ctx, l.answer)
	err = errors.Join(err, clock.Close())
	if err != nil {
		return serveRow{}, err
	}
	row := serveRow{Strategy: l.strategy.Name(), Chunks: l.layer.Chunks, Queue: l.b.Queue}
	if !l.b.Here {
		row.Processes = l.b.Workers
	}
	row.fill(times)
	return row, nil
}

// start makes the operands and puts the layer on the workers.
func (l *liveService) start(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(l.b.Seed, 5))
	weight := randomSlice(rng, serveOutputs*serveIn)
	l.x = coded.Tensor{Shape: []int{serveBatch, serveIn}, Data: randomSlice(rng, serveBatch*serveIn)}
	together := maxInFlight
	if l.b.Together > 0 {
		together = min(together, l.b.Together)
	}
	for range together {
		decoder, err := l.forwardBy(l.scheduling)
		if err != nil {
			return err
		}
		l.slots = append(l.slots, &servingSlot{decoder, coded.NewTensor(serveBatch, serveOutputs)})
	}
	return l.place(ctx, l.coordinator, weight)
}

// answer makes a request, waits for its result and decodes it.
func (l *liveService) answer(ctx context.Context, slot *servingSlot, i int) error {
	round := coded.Round{Layer: l.layer.Name, Product: coded.Forward, Step: i + 1, Operand: l.x}
	return answered(ctx, l.coordinator, round, func(answers [][]coded.Answer) error {
		return slot.decoder.Decode(slot.y, l.x.Shape, answers)
	})
}
