package nn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coda-ml/coda/coded"
)

// Momenta holds momentum buffers by the name of their parameter, "fc1.weight".
// Each has the layout of the parameter's value.
type Momenta map[string][]float32

// Place puts the weights of every layer with a Resident placement on its
// executor, encoded from their local values and the given momenta; a layer
// without momentum there starts with zeros. It marks the weights as Remote. It
// may be called again, after the local values were set anew.
//
// Every layer is checked before the first one is placed, and all problems are
// listed.
func Place(ctx context.Context, model Module, momenta Momenta) error {
	layers, err := residents(model)
	if err != nil {
		return err
	}
	var problems []error
	for _, p := range layers {
		if err := p.prepare(momenta); err != nil {
			problems = append(problems, fmt.Errorf("nn: place layer %s: %w", p.layer, err))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	for _, p := range layers {
		if err := p.place(ctx, momenta); err != nil {
			return fmt.Errorf("nn: place layer %s: %w", p.layer, err)
		}
	}
	return nil
}

// Sync brings the local values of all placed weights up to date with those on
// the executors, and returns their momenta. Evaluation and checkpoints need it.
func Sync(ctx context.Context, model Module) (Momenta, error) {
	layers, err := residents(model)
	if err != nil {
		return nil, err
	}
	momenta := make(Momenta)
	for _, p := range layers {
		l := p.resident.layers[p.weight.Param]
		if l == nil {
			return nil, fmt.Errorf("nn: sync layer %s: it has not been placed", p.layer)
		}
		states, err := l.executor.Fetch(ctx, l.Name)
		if err != nil {
			return nil, fmt.Errorf("nn: sync layer %s: %w", p.layer, err)
		}
		w, v, err := l.config.Decode(states, l.decoder)
		if err != nil {
			return nil, fmt.Errorf("nn: sync layer %s: %w", p.layer, err)
		}
		copy(p.weight.Value.Data, w)
		momenta[p.weight.Name] = v
	}
	return momenta, nil
}

// UpdatePlaced hands an optimiser step over to every executor that holds a layer
// of the model. It is called once a step, after the last micro-batch.
func UpdatePlaced(ctx context.Context, model Module, u coded.Update) error {
	layers, err := residents(model)
	if err != nil {
		return err
	}
	var done []coded.Executor
	for _, p := range layers {
		if slices.Contains(done, p.resident.Executor) {
			continue
		}
		if err := p.resident.Executor.Update(ctx, u); err != nil {
			return fmt.Errorf("nn: step %d: update placed layers: %w", u.Step, err)
		}
		done = append(done, p.resident.Executor)
	}
	return nil
}

// PlacedLayers lists the names of the layers with a Resident placement, in the
// order of the model. An optimiser that is to train them must have a linear form
// for each.
func PlacedLayers(model Module) ([]string, error) {
	layers, err := residents(model)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(layers))
	for i, p := range layers {
		names[i] = p.layer
	}
	return names, nil
}

// resident is a layer of a model with its placement.
type resident struct {
	layer    string
	module   placeable
	weight   NamedParam
	resident *Resident
	first    bool // no trainable parameter comes before it

	code  *coded.Code
	plain residentLayer
}

// residents finds the layers of a model that have a Resident placement.
func residents(model Module) ([]*resident, error) {
	layers, err := Placeables(model)
	if err != nil {
		return nil, err
	}
	var found []*resident
	for _, p := range layers {
		if r, ok := p.on.(*Resident); ok {
			found = append(found, &resident{layer: p.Name, module: p.module, weight: p.Weight, resident: r, first: p.First})
		}
	}
	return found, nil
}

// prepare checks the layer and works out how it is placed.
func (p *resident) prepare(momenta Momenta) error {
	r, w := p.resident, p.weight
	if r.Executor == nil {
		return errors.New("the placement has no executor")
	}
	if r.Chunks < 1 {
		return fmt.Errorf("%d chunks, want at least 1", r.Chunks)
	}
	if w.NoDecay {
		return fmt.Errorf("parameter %s: weights on an executor have one weight decay: NoDecay needs a local layer", w.Name)
	}
	if v, ok := momenta[w.Name]; ok && len(v) != w.Size() {
		return fmt.Errorf("parameter %s has %d values, its momentum %d", w.Name, w.Size(), len(v))
	}
	var err error
	if p.code, err = coded.New(r.Code); err != nil {
		return err
	}
	backward := r.InputGrad || !p.first
	c, err := p.module.shard(backward)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", w.Name, err)
	}
	if err := c.Validate(r.Code.K, 1); err != nil {
		return err
	}
	raw, err := c.Marshal()
	if err != nil {
		return err
	}
	p.plain = residentLayer{
		Layer: coded.Layer{
			Name: p.layer, Kind: c.Kind(), Code: r.Code, Chunks: min(r.Chunks, c.MaxChunks(r.Code.K)), Config: raw,
		},
		executor: r.Executor, config: c, backward: backward, decoder: coded.NewDecoder(p.code, coded.DecoderConfig{MaxCond: r.MaxCond}),
	}
	return nil
}

func (p *resident) place(ctx context.Context, momenta Momenta) error {
	l, w := p.plain, p.weight
	err := l.executor.Place(ctx, l.Layer, func(slot int) ([]coded.Tensor, error) {
		return l.config.Encode(w.Value.Data, momenta[w.Name], p.code, slot)
	})
	if err != nil {
		return err
	}
	if p.resident.layers == nil {
		p.resident.layers = make(map[*Param]*residentLayer)
	}
	if known := p.resident.layers[w.Param]; known != nil {
		*known = l // graphs that were built already refer to it
	} else {
		p.resident.layers[w.Param] = &l
	}
	w.Remote = true
	return nil
}
