package train

import (
	"fmt"
	"strings"

	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// bindAverages finds the parameters that are averaged: those that are trained.
func (t *Trainer) bindAverages(placed []string) error {
	if t.config.EMA == nil {
		return nil
	}
	if len(placed) > 0 {
		return fmt.Errorf("train: averages of weights: the weights of %s are on workers: place them with placement local, or train without averages",
			strings.Join(placed, ", "))
	}
	t.average = averaged(t.named)
	return nil
}

// averaged returns the parameters that are trained, as averages see them.
func averaged(named []nn.NamedParam) []optim.Param {
	var params []optim.Param
	for _, p := range named {
		if !p.Frozen {
			params = append(params, optim.Param{Name: p.Name, Value: p.Value.Data})
		}
	}
	return params
}

// updateAverages takes the weights after a step into the averages.
func (t *Trainer) updateAverages() error {
	if t.config.EMA == nil {
		return nil
	}
	return t.config.EMA.Update(t.average)
}

// withAverages runs f with the averages in the place of the weights, if there
// are any by now.
func (t *Trainer) withAverages(f func() error) error {
	if !t.averages() {
		return f()
	}
	return t.config.EMA.With(t.average, f)
}

// averages tells whether there are averages.
func (t *Trainer) averages() bool { return t.config.EMA != nil && t.config.EMA.Updates() > 0 }
