package models_test

import (
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/optim"
)

// TestPlacedNetworks compares the gradients of whole networks. They have SiLU in
// place of ReLU and averages in place of maxima: a kink would amplify rounding.
func TestPlacedNetworks(t *testing.T) {
	for placement, on := range placements {
		for name, shape := range placedModels {
			t.Run(placement+"/"+name, func(t *testing.T) {
				t.Parallel()
				x, labels := randomBatch(rng(9), placedBatch, shape)
				step := func(m nn.Module, number int) map[string][]float32 {
					net := networkFor(t, m, shape, nn.Config{Threads: 1})
					return gradients(t, m, net, number, func() error {
						_, _, err := net.Train(t.Context(), number, x, labels)
						return err
					})
				}
				want := step(smooth(t, newModelFor(t, name, shape)), 1)
				model := smooth(t, newModelFor(t, name, shape))
				placeAll(t, model, on(shard.NewLocal(shard.LocalConfig{Survivors: shard.EverySet()}), trigonometric(6, 4)), 4)
				steps, worst := 1, 0.0
				if *exhaustive {
					steps = 15
				}
				for i := range steps {
					for param, got := range step(model, i+1) {
						d := apart(got, want[param])
						if worst = max(worst, d); !(d <= 5e-5) {
							t.Errorf("gradient of %s differs by %.1e of its largest entry, want at most 5e-5", param, d)
						}
					}
				}
				t.Logf("worst difference %.1e of the largest entry", worst)
			})
		}
	}
}

// TestPlacedLosses compares the losses of the first twenty steps. Rounding grows
// as training goes on, the faster the larger the steps and the smaller the batches
// that are normalised: with a rate of 0.01 and 4 images two runs of ResNet-20 are
// 4e-2 apart.
func TestPlacedLosses(t *testing.T) {
	for placement, on := range placements {
		for name, shape := range placedModels {
			if name == "vgg-small" && !*exhaustive {
				continue // many seconds
			}
			t.Run(placement+"/"+name, func(t *testing.T) {
				t.Parallel()
				model := newModelFor(t, name, shape)
				placeAll(t, model, on(shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(3)}), trigonometric(6, 4)), 4)
				want, got := losses(t, newModelFor(t, name, shape), shape), losses(t, model, shape)
				for i := range want {
					if !(math.Abs(got[i]-want[i]) <= 1e-3) {
						t.Errorf("step %d: loss %.6f, local %.6f", i+1, got[i], want[i])
					}
				}
				if want[len(want)-1] > want[0]-0.02 {
					t.Errorf("losses %v: nothing was learnt", want)
				}
			})
		}
	}
}

// losses trains on the same small batches again and again.
func losses(t *testing.T, m nn.Module, shape []int) (list []float64) {
	t.Helper()
	if err := nn.Place(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	net := networkFor(t, m, shape, nn.Config{Threads: 1})
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.001), Momentum: 0.9, Nesterov: true, Decay: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 20; step++ {
		x, labels := randomBatch(rng(uint64(step%2)), 12, shape)
		loss, _, err := net.Train(t.Context(), step, x, labels)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, loss)
		var params []optim.Param
		for _, p := range net.Params() {
			if !p.Remote {
				params = append(params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
			}
		}
		if err := sgd.Step(step, params); err != nil {
			t.Fatal(err)
		}
		update, err := sgd.Linear("any")
		if err != nil {
			t.Fatal(err)
		}
		u, err := update(step)
		if err != nil {
			t.Fatal(err)
		}
		if err := nn.UpdatePlaced(t.Context(), m, u); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// smooth makes a network without kinks of a model's layers.
func smooth(t *testing.T, m nn.Module) nn.Module {
	t.Helper()
	pool, act := nn.AvgPool2d{Kernel: 2}, nn.SiLU{}
	switch m := m.(type) {
	case *models.MLP:
		return nn.Sequential{nn.Flatten{}, m.FC1, act, m.FC2, act, m.FC3}
	case *models.Convnet:
		return nn.Sequential{m.Conv1, act, pool, m.Conv2, act, pool, m.Conv3, act, pool, nn.Flatten{}, m.FC1, act, m.FC2}
	case *models.CIFARResNet:
		list := nn.Sequential{m.Conv1, m.BN1, act}
		for _, b := range slices.Concat(m.Layer1, m.Layer2, m.Layer3) {
			list = append(list, &nn.Residual{Body: nn.Sequential{b.Conv1, b.BN1, act, b.Conv2, b.BN2}, Shortcut: b.Shortcut}, act)
		}
		return append(list, nn.GlobalAvgPool2d{}, m.FC)
	case nn.Sequential:
		var list nn.Sequential
		for _, l := range m {
			switch l.(type) {
			case nn.ReLU:
				list = append(list, act)
			case nn.MaxPool2d:
				list = append(list, pool)
			default:
				list = append(list, l)
			}
		}
		return list
	}
	t.Fatalf("%T: no smooth form", m)
	return nil
}
