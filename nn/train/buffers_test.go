package train_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
)

// newNormSetup makes a run of a model with running statistics and dropout, of
// two batches a step.
func newNormSetup(t *testing.T) (*setup, nn.Module) {
	rng := rand.New(rand.NewPCG(1, 2))
	model := nn.Sequential{
		nn.NewConv2d(rng, 1, 4, 3, nn.Conv2dConfig{Padding: 1}, nn.NoBias()), nn.NewBatchNorm(4, nn.BatchNormConfig{}), nn.ReLU{},
		nn.Dropout{Rate: 0.2}, nn.GlobalAvgPool2d{}, nn.NewLinear(rng, 4, 10),
	}
	s := newSetup(t, nil)
	network, err := nn.NewNetwork(model, []int{1, 8, 8}, nn.Config{Threads: 1, Seed: 4})
	check(t, err)
	t.Cleanup(func() { check(t, network.Close()) })
	s.config.Model, s.config.Network, s.config.Accumulate = model, network, 2
	return s, model
}

// A run with running statistics and dropout that is interrupted, written and
// resumed by another process gives the bits of an undisturbed one: losses,
// parameters and buffers.
func TestResumeWithBuffers(t *testing.T) {
	whole, want := newNormSetup(t)
	_, err := whole.trainer(t).Run(t.Context())
	check(t, err)

	first, _ := newNormSetup(t)
	ctx, cancel := context.WithCancel(t.Context())
	first.config.Hooks = append(first.config.Hooks, train.Hooks{OnStep: func(_ context.Context, i train.StepInfo) error {
		if i.Step == 4 {
			cancel()
		}
		return nil
	}})
	tr := first.trainer(t)
	_, err = tr.Run(ctx)
	check(t, err)
	dir := t.TempDir()
	_, err = tr.WriteCheckpoint(t.Context(), dir, train.Origin{})
	check(t, err)

	second, got := newNormSetup(t)
	state, err := train.LoadNewest(dir, got, second.config.Optimizer)
	check(t, err)
	second.config.Start = state.Position
	_, err = second.trainer(t).Run(t.Context())
	check(t, err)
	compare(t, false, whole.losses, append(first.losses, second.losses...))

	a, err := nn.State(want)
	check(t, err)
	b, err := nn.State(got)
	check(t, err)
	for i, v := range a {
		switch {
		case v.Counter != nil:
			if v.Counter.Value != 20 || b[i].Counter.Value != 20 { // batches, two to a step
				t.Errorf("%s is %d, undisturbed %d, want 20", v.Name, b[i].Counter.Value, v.Counter.Value)
			}
		case v.Buffer != nil:
			same(t, v.Name, b[i].Buffer.Value.Data, v.Buffer.Value.Data)
		default:
			same(t, v.Name, b[i].Param.Value.Data, v.Param.Value.Data)
		}
	}
}

func same(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i, v := range want {
		if got[i] != v {
			t.Errorf("%s[%d] is %v, undisturbed %v", name, i, got[i], v)
			return
		}
	}
}
