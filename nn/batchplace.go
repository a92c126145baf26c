package nn

import (
	"context"
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn/shard"
)

// batched is a layer of a model with its Batch placement.
type batched struct {
	Placeable
	batch *Batch
	plain placedLayer
}

func (p *batched) name() string             { return p.Name }
func (p *batched) executor() coded.Executor { return p.batch.Executor }

func (p *batched) prepare(Momenta) error {
	b := p.batch
	code, c, backward, err := p.describe(settings{b.Executor, b.Code, b.Chunks, b.MaxCond, b.InputGrad})
	if err != nil {
		return err
	}
	if err := oneSided(code, "batch"); err != nil {
		return err
	}
	if err := c.Validate(1, 1); err != nil {
		return err
	}
	raw, err := marshalBatch(c)
	if err != nil {
		return err
	}
	p.plain = placedLayer{
		Layer:    coded.Layer{Name: p.Name, Kind: shard.KindBatch, Code: b.Code, Chunks: min(b.Chunks, c.MaxChunks(1)), Config: raw},
		executor: b.Executor, config: c, backward: backward, decoder: coded.NewDecoder(code, coded.DecoderConfig{MaxCond: b.MaxCond}),
	}
	if b.Gradient.Name == "" {
		return nil
	}
	gradient, err := coded.New(b.Gradient)
	if err != nil {
		return err
	}
	parts, err := gradientParts(code, gradient)
	if err != nil {
		return err
	}
	p.plain.gradient = &batchGradient{
		Layer:   coded.Layer{Name: p.Name + ".gradient", Kind: shard.KindGradient, Code: b.Gradient, Chunks: min(b.Chunks, shard.GradientChunks(c)), Config: raw},
		decoder: coded.NewDecoder(gradient, coded.DecoderConfig{MaxCond: b.MaxCond}), parts: parts,
	}
	return nil
}

// gradientParts checks the code of a gradient beside that of its layer, and tells
// whether it is one for sums of gradients.
func gradientParts(code, gradient *coded.Code) (bool, error) {
	parts := shard.CodesParts(gradient)
	switch {
	case gradient.N() != code.N() || gradient.Outputs() != 1 || !parts && gradient.K() != code.K():
		return false, fmt.Errorf("code %v of the gradient: want one with %d tasks, of a sum of %d products, such as trigonometric-matdot, or of gradients, such as cyclic-reed-solomon",
			gradient, code.N(), code.K())
	case !parts && !sameRows(code, gradient):
		return false, fmt.Errorf("code %v of the gradient: its coded blocks are not those of %v", gradient, code)
	}
	return parts, nil
}

func marshalBatch(c shard.Config) ([]byte, error) {
	wrapped, err := shard.NewBatchConfig(c)
	if err != nil {
		return nil, err
	}
	return wrapped.Marshal()
}

// sameRows tells whether both factors of a two-sided code are coded like the one of
// a one-sided code.
func sameRows(one, two *coded.Code) bool {
	for t := range one.N() {
		task, row := two.Task(t), one.Row(t)
		if len(task.A) != 1 || len(task.B) != 1 || !slices.Equal(task.A[0], row) || !slices.Equal(task.B[0], row) {
			return false
		}
	}
	return true
}

func (p *batched) place(ctx context.Context, _ *kernel.Pool, _ Momenta) error {
	l := p.plain
	err := l.executor.Place(ctx, l.Layer, func(slot int) ([]coded.Tensor, error) {
		return shard.EncodeBatch(l.config, p.Weight.Value.Data, l.decoder.Code(), slot)
	})
	if err != nil {
		return err
	}
	if l.gradient != nil {
		if err := l.executor.Place(ctx, l.gradient.Layer, func(int) ([]coded.Tensor, error) { return nil, nil }); err != nil {
			return err
		}
	}
	p.batch.layers.put(p.Weight.Param, l)
	return nil
}

// sync does nothing: the weights are here.
func (p *batched) sync(context.Context, Momenta) error {
	if p.batch.layers[p.Weight.Param] == nil {
		return errNotPlaced
	}
	return nil
}

// ship hands the new weights to the workers, in place of the operands of an update.
func (p *batched) ship(ctx context.Context, step int) error {
	if p.Weight.Frozen {
		return nil
	}
	w := p.Weight.Value
	operands := []coded.Tensor{{Shape: w.Shape, Data: w.Data}, coded.NewTensor(1)} // an update wants pairs
	for i, product := range []coded.Product{coded.Forward, coded.Backward} {
		round, err := p.batch.Executor.Start(ctx, coded.Round{Layer: p.Name, Product: product, Step: step, Operand: operands[i], Keep: true, Discard: true})
		if err != nil {
			return err
		}
		round.Release()
	}
	return nil
}
