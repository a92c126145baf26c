package nn

import (
	"context"
	"fmt"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// resident is a layer of a model with its placement.
type resident struct {
	Placeable
	resident *Resident
	plain    placedLayer
}

func (p *resident) name() string             { return p.Name }
func (p *resident) executor() coded.Executor { return p.resident.Executor }

// ship does nothing: workers have the operands.
func (p *resident) ship(context.Context, int) error { return nil }

func (p *resident) sync(ctx context.Context, momenta Momenta) error {
	l := p.resident.layers[p.Weight.Param]
	if l == nil {
		return errNotPlaced
	}
	if err := l.fetchTo(ctx, p.Weight.Value.Data, shard.TensorWeight); err != nil || momenta == nil {
		return err
	}
	v := make([]float32, p.Weight.Size())
	if err := l.fetchTo(ctx, v, shard.TensorMomentum); err != nil {
		return err
	}
	momenta[p.Weight.Name] = v
	return nil
}

// fetchTo decodes one tensor of the layer from the executor's shards. No more of the
// shards than is needed for it travels, and is held, at a time.
func (l *placedLayer) fetchTo(ctx context.Context, dst []float32, tensor int) error {
	states, err := l.executor.Fetch(ctx, l.Name, tensor)
	if err != nil {
		return err
	}
	return shard.DecodeTensor(l.config, dst, states, l.decoder)
}

// prepare checks the layer and works out how it is placed.
func (p *resident) prepare(momenta Momenta) error {
	r, w := p.resident, p.Weight
	if w.NoDecay {
		return fmt.Errorf("parameter %s: weights on an executor have one weight decay: NoDecay needs a local layer", w.Name)
	}
	if v, ok := momenta[w.Name]; ok && len(v) != w.Size() {
		return fmt.Errorf("parameter %s has %d values, its momentum %d", w.Name, w.Size(), len(v))
	}
	code, c, backward, err := p.describe(settings{r.Executor, r.Code, r.Chunks, r.MaxCond, r.InputGrad})
	if err != nil {
		return err
	}
	if err := oneSided(code, "resident"); err != nil {
		return err
	}
	if err := c.Validate(r.Code.K, 1); err != nil {
		return err
	}
	raw, err := c.Marshal()
	if err != nil {
		return err
	}
	p.plain = placedLayer{
		Layer: coded.Layer{
			Name: p.Name, Kind: c.Kind(), Code: r.Code, Chunks: min(r.Chunks, c.MaxChunks(r.Code.K)), Config: raw, ByBatch: r.ByBatch,
		},
		executor: r.Executor, config: c, backward: backward, decoder: coded.NewDecoder(code, coded.DecoderConfig{MaxCond: r.MaxCond}),
	}
	return nil
}

func (p *resident) place(ctx context.Context, pool *kernel.Pool, momenta Momenta) error {
	l, w := p.plain, p.Weight
	if err := l.put(ctx, pool, w.Value.Data, momenta[w.Name]); err != nil {
		return err
	}
	p.resident.layers.put(w.Param, l)
	w.Remote = true
	return nil
}
