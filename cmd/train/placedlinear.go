package main

import (
	"context"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/dist"
	"github.com/coda-ml/coda/dist/sim"
	"github.com/coda-ml/coda/nn/shard"
)

// placedLinear is a resident Linear that is used without a network, where rounds
// are measured or put to the test.
type placedLinear struct {
	config  shard.LinearConfig
	layer   coded.Layer
	decoder *coded.Decoder
}

// newPlacedLinear describes the layer; it has fewer chunks if it is too small for
// so many.
func newPlacedLinear(name string, config shard.LinearConfig, spec coded.Spec, chunks int) (placedLinear, error) {
	raw, err := config.Marshal()
	if err != nil {
		return placedLinear{}, err
	}
	code, err := coded.New(spec)
	if err != nil {
		return placedLinear{}, err
	}
	return placedLinear{
		config:  config,
		layer:   coded.Layer{Name: name, Kind: shard.KindLinear, Config: raw, Code: spec, Chunks: min(chunks, config.MaxChunks(spec.K))},
		decoder: coded.NewDecoder(code, coded.DecoderConfig{}),
	}, nil
}

// product returns a decoder of one of the layer's products.
func (l *placedLinear) product(p coded.Product) *shard.ProductDecoder {
	return shard.NewProductDecoder(l.layer, l.config, l.decoder, p)
}

// place puts the layer on the workers, with a weight [out, in].
func (l *placedLinear) place(ctx context.Context, to coded.Executor, weight []float32) error {
	return to.Place(ctx, l.layer, func(slot int) ([]coded.Tensor, error) {
		return l.config.Encode(weight, nil, l.decoder.Code(), slot)
	})
}

// answered runs a round and has its answers used.
func answered(ctx context.Context, by coded.Executor, r coded.Round, use func([][]coded.Answer) error) error {
	pending, err := by.Start(ctx, r)
	if err != nil {
		return err
	}
	defer pending.Release()
	answers, err := pending.Wait(ctx)
	if err != nil {
		return err
	}
	return use(answers)
}

// overSockets says how the coordinator does what a strategy of the simulator does:
// the code of the layer for n workers, its chunks, and how they are handed out. The
// share of a worker that a strategy does not cut is done in so many chunks as well.
// Strategies that only the simulator has are not known.
func overSockets(s sim.Strategy, n, k, chunks int) (spec coded.Spec, _ int, scheduling dist.Strategy, known bool) {
	switch s := s.(type) {
	case sim.Local:
		return coded.Spec{Name: "uncoded", N: 1, K: 1}, chunks, dist.InOrder, true
	case sim.Uncoded:
		return coded.Spec{Name: "uncoded", N: n, K: n}, chunks, dist.InOrder, true
	case sim.Replicated:
		return coded.Spec{Name: "replication", N: n, K: n / s.Copies}, chunks, dist.InOrder, true
	case sim.Speculative:
		return coded.Spec{Name: "replication", N: n, K: 1}, n, dist.Speculative, true
	case sim.MDS:
		return coded.Spec{Name: "trigonometric", N: n, K: k}, chunks, dist.InOrder, true
	case sim.Adaptive:
		return coded.Spec{Name: "trigonometric", N: n, K: k}, s.Chunks, dist.Adaptive, true
	}
	return coded.Spec{}, 0, 0, false
}
