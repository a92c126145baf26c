package nn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
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
	pool := kernel.NewPool(runtime.GOMAXPROCS(0))
	defer pool.Close()
	for _, p := range layers {
		if err := p.place(ctx, pool, momenta); err != nil {
			return fmt.Errorf("nn: place layer %s: %w", p.name(), err)
		}
	}
	return nil
}

// Sync brings the local values of all placed weights up to date with those on
// the executors, and returns their momenta. Checkpoints need it.
func Sync(ctx context.Context, model Module) (Momenta, error) {
	momenta := make(Momenta)
	if err := syncWith(ctx, model, momenta); err != nil {
		return nil, err
	}
	return momenta, nil
}

// SyncWeights is Sync without the momenta, which then need not travel and take no
// memory. Evaluation needs it.
func SyncWeights(ctx context.Context, model Module) error { return syncWith(ctx, model, nil) }

func syncWith(ctx context.Context, model Module, momenta Momenta) error {
	layers, err := placements(model)
	if err != nil {
		return err
	}
	for _, p := range layers {
		if err := p.sync(ctx, momenta); err != nil {
			return fmt.Errorf("nn: sync layer %s: %w", p.name(), err)
		}
	}
	return nil
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
	place(context.Context, *kernel.Pool, Momenta) error
	// sync brings the local weights up to date and adds the momentum to those given,
	// unless they are nil.
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
		if on := reflect.ValueOf(p.on); on.Kind() == reflect.Pointer && on.IsNil() {
			return nil, fmt.Errorf("nn: layer %s: its placement is a nil %T", p.Name, p.on)
		}
		switch on := p.on.(type) {
		case *Resident:
			found = append(found, &resident{Placeable: p, resident: on})
		case *Batch:
			found = append(found, &batched{Placeable: p, batch: on})
		case *Shipped:
			found = append(found, &shipped{Placeable: p, shipped: on})
		}
	}
	return found, nil
}
