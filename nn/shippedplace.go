package nn

import (
	"context"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// shipped is a layer of a model with its Shipped placement.
type shipped struct {
	Placeable
	shipped *Shipped
	plain   placedLayer
}

func (p *shipped) name() string             { return p.Name }
func (p *shipped) executor() coded.Executor { return p.shipped.Executor }

func (p *shipped) prepare(Momenta) error {
	s := p.shipped
	code, c, backward, err := p.describe(settings{s.Executor, s.Code, s.Chunks, s.MaxCond, s.InputGrad})
	if err != nil {
		return err
	}
	if err := shard.ValidateShipped(c, code, 1); err != nil {
		return err
	}
	raw, err := marshalBatch(c)
	if err != nil {
		return err
	}
	p.plain = placedLayer{
		Layer:    coded.Layer{Name: p.Name, Kind: shard.KindShipped, Code: s.Code, Chunks: min(s.Chunks, shard.ShippedChunks(c, code)), Config: raw},
		executor: s.Executor, config: c, backward: backward, decoder: coded.NewDecoder(code, coded.DecoderConfig{MaxCond: s.MaxCond}),
	}
	return nil
}

// place tells the workers of the layer: they are given nothing to keep.
func (p *shipped) place(ctx context.Context, _ *kernel.Pool, _ Momenta) error {
	l := p.plain
	if err := l.executor.Place(ctx, l.Layer, func(int) ([]coded.Tensor, error) { return nil, nil }); err != nil {
		return err
	}
	p.shipped.layers.put(p.Weight.Param, l)
	return nil
}

// sync does nothing: the weights are here.
func (p *shipped) sync(context.Context, Momenta) error {
	if p.shipped.layers[p.Weight.Param] == nil {
		return errNotPlaced
	}
	return nil
}

// ship does nothing: every round sends its operands.
func (p *shipped) ship(context.Context, int) error { return nil }
