package models_test

import (
	"context"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

// taker is an executor that takes the states of all slots and forgets them.
type taker struct{ coded.Executor }

func (taker) Place(_ context.Context, l coded.Layer, state func(slot int) ([]coded.Tensor, error)) error {
	for slot := range l.Code.N {
		if _, err := state(slot); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkPlace measures the encoding of a model's weights for all slots.
func BenchmarkPlace(b *testing.B) {
	vgg, err := models.New("vgg-small", 10, []int{3, 32, 32}, rng(1))
	if err != nil {
		b.Fatal(err)
	}
	for name, model := range map[string]nn.Module{"vgg-small": vgg, "linear": nn.NewLinear(rng(1), 2048, 2048)} {
		b.Run("model="+name, func(b *testing.B) {
			layers, err := nn.Placeables(model)
			if err != nil {
				b.Fatal(err)
			}
			for _, l := range layers {
				if in, _, _ := l.Shape(); in >= 6 { // at least as many as blocks
					l.Layer.Place(&nn.Resident{Executor: taker{}, Code: trigonometric(8, 6), Chunks: 4, InputGrad: true})
				}
			}
			for b.Loop() {
				if err := nn.Place(b.Context(), model, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
