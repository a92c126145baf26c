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

// Place puts the weights of every placed layer on its executor, encoded from
// their local values and, of resident layers, the given momenta; a layer
// without momentum there starts with zeros. It marks the weights of resident layers
// as Remote. It may be called again, after the local values were set anew.
//
// Every layer is checked before the first one is placed, and all problems are
// listed.
func Place(ctx context.Context, model Module, momenta Momenta) error {
	layers, err := placements(model)
	if err != nil {
		return err
	}
	var problems []error
	for _, p := range layers {
		if err := p.prepare(momenta); err != nil {
			problems = append(problems, fmt.Errorf("nn: place layer %s: %w", p.name(), err))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	for _, p := range layers {
		if err := p.place(ctx, momenta); err != nil {
			return fmt.Errorf("nn: place layer %s: %w", p.name(), err)
		}
	}
	return nil
}

// Sync brings the local values of all placed weights up to date with those on
// the executors, and returns their momenta. Evaluation and checkpoints need it.
func Sync(ctx context.Context, model Module) (Momenta, error) {
	layers, err := placements(model)
	if err != nil {
		return nil, err
	}
	momenta := make(Momenta)
	for _, p := range layers {
		if err := p.sync(ctx, momenta); err != nil {
			return nil, fmt.Errorf("nn: sync layer %s: %w", p.name(), err)
		}
	}
	return momenta, nil
}

// UpdatePlaced hands an optimiser step over to every executor that holds a layer
// of the model, and the new weights of the layers that are not trained there. It is
// called once a step, after the last micro-batch and after the local parameters
// have been updated.
func UpdatePlaced(ctx context.Context, model Module, u coded.Update) error {
	layers, err := placements(model)
	if err != nil {
		return err
	}
	for _, p := range layers {
		if err := p.ship(ctx, u.Step); err != nil {
			return fmt.Errorf("nn: step %d: update layer %s: %w", u.Step, p.name(), err)
		}
	}
	var done []coded.Executor
	for _, p := range layers {
		if slices.Contains(done, p.executor()) {
			continue
		}
		if err := p.executor().Update(ctx, u); err != nil {
			return fmt.Errorf("nn: step %d: update placed layers: %w", u.Step, err)
		}
		done = append(done, p.executor())
	}
	return nil
}

// PlacedLayers lists the names of the layers with a Resident placement, in the
// order of the model. An optimiser that is to train them must have a linear form
// for each.
func PlacedLayers(model Module) ([]string, error) {
	layers, err := placements(model)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, p := range layers {
		if _, ok := p.(*resident); ok {
			names = append(names, p.name())
		}
	}
	return names, nil
}

// Placed tells whether a model has layers on executors, so that UpdatePlaced has
// to be called.
func Placed(model Module) (bool, error) {
	layers, err := placements(model)
	return len(layers) > 0, err
}

// placement is a layer of a model with its placement.
type placement interface {
	name() string
	executor() coded.Executor
	// prepare checks the layer and works out how it is placed.
	prepare(Momenta) error
	place(context.Context, Momenta) error
	// sync brings the local weights up to date and adds the momentum to those given.
	sync(context.Context, Momenta) error
	// ship hands over what an update of a step needs besides the operands.
	ship(ctx context.Context, step int) error
}

var (
	errNoExecutor = errors.New("the placement has no executor")
	errNotPlaced  = errors.New("it has not been placed")
)

// placements finds the placed layers of a model.
func placements(model Module) ([]placement, error) {
	layers, err := Placeables(model)
	if err != nil {
		return nil, err
	}
	var found []placement
	for _, p := range layers {
		switch on := p.on.(type) {
		case *Resident:
			found = append(found, &resident{layer: p.Name, module: p.module, weight: p.Weight, resident: on, first: p.First})
		case *Batch:
			found = append(found, &batched{Placeable: p, batch: on})
		}
	}
	return found, nil
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

func (p *resident) name() string             { return p.layer }
func (p *resident) executor() coded.Executor { return p.resident.Executor }

// ship does nothing: workers have the operands.
func (p *resident) ship(context.Context, int) error { return nil }

func (p *resident) sync(ctx context.Context, momenta Momenta) error {
	l := p.resident.layers[p.weight.Param]
	if l == nil {
		return errNotPlaced
	}
	states, err := l.executor.Fetch(ctx, l.Name)
	if err != nil {
		return err
	}
	w, v, err := l.config.Decode(states, l.decoder)
	if err != nil {
		return err
	}
	copy(p.weight.Value.Data, w)
	momenta[p.weight.Name] = v
	return nil
}

// prepare checks the layer and works out how it is placed.
func (p *resident) prepare(momenta Momenta) error {
	r, w := p.resident, p.weight
	if r.Executor == nil {
		return errNoExecutor
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
