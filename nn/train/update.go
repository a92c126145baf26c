package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// bindParameters finds the parameters that the optimiser updates, and the form
// of its updates for the placed layers: an optimiser that has none is refused
// before anything is trained.
func (t *Trainer) bindParameters() error {
	t.named = t.config.Network.Params()
	layers, err := nn.PlacedLayers(t.config.Model)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	var problems []error
	for _, layer := range layers {
		update, err := t.config.Optimizer.Linear(layer)
		problems = append(problems, err)
		t.updates = update
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if placed, err := nn.Placed(t.config.Model); err != nil {
		return fmt.Errorf("train: %w", err)
	} else if placed && t.updates == nil { // no layer is trained where it is placed
		t.updates = func(step int) (coded.Update, error) { return coded.Update{Step: step, Scale: 1}, nil }
	}
	return t.bindAverages(layers)
}

// update makes the optimiser's step with the gradients times scale, on the
// local parameters and on the placed layers.
func (t *Trainer) update(ctx context.Context, step int, scale float64) error {
	t.params = t.params[:0]
	for _, p := range t.named {
		if p.Remote && t.config.Network.RemoteNorms() {
			remote, err := t.remote(p, scale)
			if err != nil {
				return err
			}
			t.params = append(t.params, remote)
		}
		if p.Grad == nil || p.Remote || p.Frozen {
			continue
		}
		if scale != 1 {
			kernel.Scale(p.Grad, float32(scale), p.Grad)
		}
		t.params = append(t.params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad, NoDecay: p.NoDecay})
	}
	if err := t.config.Optimizer.Step(step, t.params); err != nil {
		return err
	}
	if t.updates != nil {
		u, err := t.updates(step)
		if err != nil {
			return err
		}
		u.Scale *= scale
		if err := nn.UpdatePlaced(ctx, t.config.Model, u); err != nil {
			return err
		}
	}
	return t.updateAverages()
}

// remote is a parameter whose gradient, times scale, only the workers have, for the
// global norm.
func (t *Trainer) remote(p nn.NamedParam, scale float64) (optim.Param, error) {
	remote := optim.Param{Name: p.Name, Remote: true}
	if p.Frozen {
		return remote, nil
	}
	squares, err := t.config.Network.SumSquares(p.Param)
	if err != nil {
		return remote, fmt.Errorf("parameter %s: %w", p.Name, err)
	}
	remote.SumSquares = scale * scale * squares
	return remote, nil
}

// Evaluate returns the mean loss and the accuracy (from 0 to 1) on the test
// set, with averaged weights where there are any. The weights of placed layers
// are first decoded from the workers; the products are computed here.
func (t *Trainer) Evaluate(ctx context.Context) (loss, accuracy float64, err error) {
	if err := nn.SyncWeights(ctx, t.config.Model); err != nil {
		return 0, 0, fmt.Errorf("train: step %d: evaluation: %w", t.pos.Step, err)
	}
	err = t.withAverages(func() (err error) {
		loss, accuracy, err = Evaluate(ctx, t.config.Network, t.config.Test, t.config.EvalBatch)
		return err
	})
	if err != nil {
		return loss, accuracy, fmt.Errorf("train: step %d: %w", t.pos.Step, err)
	}
	return loss, accuracy, nil
}

// Evaluate returns the mean loss and the accuracy (from 0 to 1) of a network
// on a data set, taken in batches of the given size. A loss that is not finite
// is an error.
func Evaluate(ctx context.Context, network *nn.Network, set *datasets.Set, batch int) (loss, accuracy float64, err error) {
	loader, err := datasets.NewLoader(set, datasets.LoaderConfig{Batch: min(batch, set.N)})
	if err != nil {
		return 0, 0, fmt.Errorf("evaluation: %w", err)
	}
	var sum float64
	var right int
	for b, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			return 0, 0, fmt.Errorf("evaluation: %w", err)
		}
		l, c, err := network.Evaluate(ctx, b.X, b.Labels)
		if err != nil {
			return 0, 0, fmt.Errorf("evaluation: %w", err)
		}
		sum, right = sum+l, right+c
	}
	n := float64(set.N)
	if !finite(sum) {
		return sum / n, float64(right) / n, fmt.Errorf("evaluation: the loss on %v is %v%s", set, sum, firstNonFinite(network))
	}
	return sum / n, float64(right) / n, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// firstNonFinite names the first parameter that holds a number that is not
// finite, for the end of an error; "" if there is none.
func firstNonFinite(network *nn.Network) string {
	for _, p := range network.Params() {
		for _, v := range p.Value.Data {
			if !finite(float64(v)) {
				return "; first not finite: parameter " + p.Name
			}
		}
	}
	return "; the parameters are finite"
}
