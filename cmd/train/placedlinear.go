package main

import (
	"context"
	"math"

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
// so many. With a code of several results a slot, those are its chunks.
func newPlacedLinear(name string, config shard.LinearConfig, spec coded.Spec, chunks int) (placedLinear, error) {
	raw, err := config.Marshal()
	if err != nil {
		return placedLinear{}, err
	}
	code, err := coded.New(spec)
	if err != nil {
		return placedLinear{}, err
	}
	kind, most := shard.KindLinear, config.MaxChunks(spec.K)
	if code.Results(0) > 1 {
		kind, most = shard.KindStacked, code.Results(0)
	}
	return placedLinear{
		config:  config,
		layer:   coded.Layer{Name: name, Kind: kind, Config: raw, Code: spec, Chunks: min(chunks, most)},
		decoder: coded.NewDecoder(code, coded.DecoderConfig{}),
	}, nil
}

// product returns a decoder of one of the layer's products.
func (l *placedLinear) product(p coded.Product) *shard.ProductDecoder {
	return shard.NewProductDecoder(l.layer, l.config, l.decoder, p)
}

// productDecoder decodes the answers of a product of an operand of a shape.
type productDecoder interface {
	Decode(dst coded.Tensor, operand []int, answers [][]coded.Answer) error
}

// estimator decodes what there is.
type estimator struct{ *shard.ProductDecoder }

func (e estimator) Decode(dst coded.Tensor, operand []int, answers [][]coded.Answer) error {
	_, err := e.Estimate(dst, operand, answers)
	return err
}

// forwardBy returns a decoder of the forward product as a strategy computes it.
func (l *placedLinear) forwardBy(s dist.Strategy) (productDecoder, error) {
	switch s {
	case dist.Joint:
		return shard.NewStackedDecoder(l.config, l.decoder.Code(), coded.DecoderConfig{MaxCond: math.Inf(1), CacheSize: 16})
	case dist.Ignoring:
		return estimator{l.product(coded.Forward)}, nil
	}
	return l.product(coded.Forward), nil
}

// place puts the layer on the workers, with a weight [out, in].
func (l *placedLinear) place(ctx context.Context, to coded.Executor, weight []float32) error {
	return to.Place(ctx, l.layer, func(slot int) ([]coded.Tensor, error) {
		if l.layer.Kind == shard.KindStacked {
			return shard.EncodeStacked(l.config, weight, l.decoder.Code(), slot)
		}
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

// socketed is how the coordinator does what a strategy of the simulator does.
type socketed struct {
	spec       coded.Spec // the code of the layer
	chunks     int
	scheduling dist.Strategy
	twin       sim.Strategy // what is simulated beside it
	rough      bool         // the product is an estimate, or rounding may have grown much in it
}

// maxJoint bounds the workers of strategies all of whose results decode together:
// who decodes solves for all of their blocks at once, in every round.
const maxJoint = 32

// overSockets returns that of n workers. The share of a worker that a strategy does
// not cut is done in so many chunks as well. Strategies that only the simulator has
// are not known.
func overSockets(s sim.Strategy, n, k, chunks int) (_ socketed, known bool) {
	uncoded, mds := coded.Spec{Name: "uncoded", N: n, K: n}, coded.Spec{Name: "trigonometric", N: n, K: k}
	switch s := s.(type) {
	case sim.Local:
		return socketed{coded.Spec{Name: "uncoded", N: 1, K: 1}, chunks, dist.InOrder, s, false}, true
	case sim.Uncoded:
		return socketed{uncoded, chunks, dist.InOrder, s, false}, true
	case sim.Ignore:
		return socketed{uncoded, chunks, dist.Ignoring, s, true}, s.Drop == n/4
	case sim.Replicated:
		return socketed{coded.Spec{Name: "replication", N: n, K: n / s.Copies}, chunks, dist.InOrder, s, false}, true
	case sim.Speculative:
		return socketed{coded.Spec{Name: "replication", N: n, K: 1}, n, dist.Speculative, s, false}, true
	case sim.MDS:
		return socketed{mds, chunks, dist.InOrder, s, false}, true
	case sim.Adaptive:
		return socketed{mds, s.Chunks, dist.Adaptive, s, false}, true
	case sim.Partial:
		return joint(coded.Spec{Name: "universally-decodable", N: n, K: s.K * s.Chunks, Load: s.Chunks}, false)
	case sim.Hierarchical:
		return joint(coded.Spec{Name: "hierarchical", N: n, K: s.K, Groups: s.Layers}, false)
	case sim.Rateless: // with fewer symbols than are simulated
		return joint(coded.Spec{Name: "lt", N: n, K: symbols * n, Load: int(s.Storage * symbols), Seed: 1}, true)
	}
	return socketed{}, false
}

// symbols is how many blocks a rateless code has for each worker.
const symbols = 8

// joint is a code of several results a slot, if it can be decoded in good time. The
// twin is the code itself: it knows which results decode, and the strategy how many.
func joint(spec coded.Spec, rough bool) (_ socketed, known bool) {
	code, err := coded.New(spec)
	if spec.N > maxJoint || err != nil {
		return socketed{}, false
	}
	return socketed{spec, code.Results(0), dist.Joint, sim.Coded{Code: code}, rough}, true
}
