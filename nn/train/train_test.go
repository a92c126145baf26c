package train_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

// setup is a small training run on made-up data.
type setup struct {
	model   *models.MLP
	network *nn.Network
	config  train.Config
	losses  []float64
	epochs  []train.EpochInfo
}

// newSetup makes a run of the MLP on 300 made-up images in batches of 32, so
// that the last batch of an epoch is smaller: 10 batches an epoch.
func newSetup(t *testing.T, change func(*train.Config)) *setup {
	t.Helper()
	data, test, err := datasets.Load(t.Context(), "synthetic", datasets.Options{Synthetic: datasets.Synthetic{Seed: 3, Train: 300, Test: 100, Shape: []int{1, 8, 8}}})
	check(t, err)
	loader, err := datasets.NewLoader(data, datasets.LoaderConfig{Batch: 32, Shuffle: true, Seed: 5})
	check(t, err)
	s := &setup{}
	s.model, err = models.NewMLP(10, []int{1, 8, 8}, rand.New(rand.NewPCG(1, 2)))
	check(t, err)
	s.network, err = nn.NewNetwork(s.model, []int{1, 8, 8}, nn.Config{Threads: 1})
	check(t, err)
	t.Cleanup(func() { check(t, s.network.Close()) })
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.05), Momentum: 0.9, Decay: 1e-4})
	check(t, err)
	s.config = train.Config{Model: s.model, Network: s.network, Optimizer: sgd, Train: loader, Test: test, Epochs: 2, EvalBatch: 64}
	s.config.Hooks = []train.Hooks{{
		OnStep:  func(_ context.Context, i train.StepInfo) error { s.losses = append(s.losses, i.Loss); return nil },
		OnEpoch: func(_ context.Context, e train.EpochInfo) error { s.epochs = append(s.epochs, e); return nil },
	}}
	if change != nil {
		change(&s.config)
	}
	return s
}

func (s *setup) trainer(t *testing.T) *train.Trainer {
	t.Helper()
	tr, err := train.New(s.config)
	check(t, err)
	return tr
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunLearnsAndReports(t *testing.T) {
	s := newSetup(t, nil)
	result, err := s.trainer(t).Run(t.Context())
	check(t, err)
	if result.Steps != 20 || len(s.losses) != 20 || len(s.epochs) != 2 {
		t.Fatalf("%d steps, %d reported, %d epochs; want 20, 20, 2", result.Steps, len(s.losses), len(s.epochs))
	}
	if result.TestAccuracy < 0.9 || result.TestAccuracy != s.epochs[1].TestAccuracy {
		t.Errorf("accuracy %v, of the last epoch %v; want the same, at least 0.9", result.TestAccuracy, s.epochs[1].TestAccuracy)
	}
	if s.losses[19] > s.losses[0]/2 {
		t.Errorf("loss went from %v to %v", s.losses[0], s.losses[19])
	}
}

func TestSameSeedSameBits(t *testing.T) {
	a, b := newSetup(t, nil), newSetup(t, nil)
	_, err := a.trainer(t).Run(t.Context())
	check(t, err)
	_, err = b.trainer(t).Run(t.Context())
	check(t, err)
	if !slices.Equal(a.losses, b.losses) {
		t.Errorf("losses differ:\n%v\n%v", a.losses, b.losses)
	}
}

// Two batches of one step have the gradient of their mean: a step over the
// same images in one batch differs by rounding only, wherever the layer is.
func TestAccumulate(t *testing.T) {
	run := func(batch, accumulate int, placed bool) []float64 {
		s := newPlacedSetup(t, placed)
		loader, err := datasets.NewLoader(s.config.Train.Set(), datasets.LoaderConfig{Batch: batch, Shuffle: true, Seed: 5})
		check(t, err)
		s.config.Train, s.config.Accumulate = loader, accumulate
		_, err = s.trainer(t).Run(t.Context())
		check(t, err)
		return s.losses
	}
	want := run(60, 1, false)
	for _, placed := range []bool{false, true} {
		got := run(30, 2, placed)
		if len(got) != len(want) {
			t.Fatalf("placed %v: %d steps, want %d", placed, len(got), len(want))
		}
		for i := range want {
			if d := got[i] - want[i]; !(d <= 1e-4 && d >= -1e-4) {
				t.Errorf("placed %v, step %d: loss %v in two batches, %v in one", placed, i+1, got[i], want[i])
			}
		}
	}
}

// A run whose gradients are clipped is the same wherever a layer is; and one that
// does not know the norms of all gradients ends at its first step.
func TestClippedRunOfPlacedLayers(t *testing.T) {
	run := func(placed bool, clip float64) (*setup, error) {
		s := newPlacedSetup(t, placed)
		s.norms(t, clip > 0)
		sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.1), Momentum: 0.9, ClipNorm: clip})
		check(t, err)
		s.config.Optimizer, s.config.Accumulate = sgd, 2
		_, err = s.trainer(t).Run(t.Context())
		return s, err
	}
	local, err := run(false, 0.5)
	check(t, err)
	placed, err := run(true, 0.5)
	check(t, err)
	free, err := run(false, 0)
	check(t, err)
	differs := false
	for i, want := range local.losses {
		if got := placed.losses[i]; math.Abs(got-want) > 1e-4*want {
			t.Fatalf("step %d: loss %v, local %v", i+1, got, want)
		}
		differs = differs || math.Abs(free.losses[i]-want) > 1e-2*want
	}
	if !differs {
		t.Error("clipping changes nothing")
	}

	s := newPlacedSetup(t, true)
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.1), ClipNorm: 1})
	check(t, err)
	s.config.Optimizer = sgd
	if _, err := s.trainer(t).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "fc1.weight") || !strings.Contains(err.Error(), "RemoteNorms") {
		t.Errorf("error %v, want one that names fc1.weight and RemoteNorms", err)
	}
}

// norms makes the network anew, with or without norms of remote gradients.
func (s *setup) norms(t *testing.T, remote bool) {
	t.Helper()
	var err error
	s.network, err = nn.NewNetwork(s.model, []int{1, 8, 8}, nn.Config{Threads: 1, RemoteNorms: remote})
	check(t, err)
	t.Cleanup(func() { check(t, s.network.Close()) })
	s.config.Network = s.network
}

// The last step of an epoch has fewer batches: its gradient is the mean of
// those that there are.
func TestAccumulateRest(t *testing.T) {
	s := newSetup(t, func(c *train.Config) { c.Accumulate, c.Epochs = 4, 1 })
	var images []int
	s.config.Hooks = append(s.config.Hooks, train.Hooks{OnStep: func(_ context.Context, i train.StepInfo) error {
		images = append(images, i.Images)
		return nil
	}})
	_, err := s.trainer(t).Run(t.Context())
	check(t, err)
	if want := []int{128, 128, 44}; !slices.Equal(images, want) || len(want) != train.StepsPerEpoch(10, 4) {
		t.Errorf("steps of %v images, want %v", images, want)
	}
}

// NoDecay reaches the optimiser: without decay anywhere it is as if there was none.
func TestNoDecay(t *testing.T) {
	run := func(decay float64, exempt bool) []float64 {
		s := newSetup(t, nil)
		sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.05), Decay: decay})
		check(t, err)
		s.config.Optimizer = sgd
		for _, p := range s.network.Params() {
			p.NoDecay = exempt
		}
		_, err = s.trainer(t).Run(t.Context())
		check(t, err)
		return s.losses
	}
	without := run(0, false)
	if !slices.Equal(run(0.1, true), without) {
		t.Error("parameters with NoDecay have decayed")
	}
	if slices.Equal(run(0.1, false), without) {
		t.Error("the decay changes nothing")
	}
}

func TestStepsLimit(t *testing.T) {
	s := newSetup(t, func(c *train.Config) { c.Steps = 13 })
	result, err := s.trainer(t).Run(t.Context())
	check(t, err)
	if result.Steps != 13 || len(s.epochs) != 2 {
		t.Errorf("%d steps and %d evaluations, want 13 and 2", result.Steps, len(s.epochs))
	}
}

func newPlacedSetup(t *testing.T, placed bool) *setup {
	s := newSetup(t, nil)
	if placed {
		s.place(t, nil)
	}
	return s
}

// place puts FC1 on an executor in this process, with a network made anew.
func (s *setup) place(t *testing.T, momenta nn.Momenta) {
	t.Helper()
	s.placeOn(t, shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(9)}), momenta)
}

func (s *setup) placeOn(t *testing.T, e coded.Executor, momenta nn.Momenta) {
	t.Helper()
	s.model.FC1.Place(&nn.Resident{Executor: e, Code: coded.Spec{Name: "trigonometric", N: 6, K: 4}, Chunks: 2})
	check(t, nn.Place(t.Context(), s.model, momenta))
	var err error
	s.network, err = nn.NewNetwork(s.model, []int{1, 8, 8}, nn.Config{Threads: 1})
	check(t, err)
	t.Cleanup(func() { check(t, s.network.Close()) })
	s.config.Network = s.network
}

func TestHookErrorEndsTheRun(t *testing.T) {
	stop := errors.New("enough")
	s := newSetup(t, nil)
	s.config.Hooks = append(s.config.Hooks, train.Hooks{OnStep: func(_ context.Context, i train.StepInfo) error {
		if i.Step == 3 {
			return stop
		}
		return nil
	}})
	if _, err := s.trainer(t).Run(t.Context()); !errors.Is(err, stop) || len(s.losses) != 3 {
		t.Errorf("error %v after %d steps, want %v after 3", err, len(s.losses), stop)
	}
}

func TestOptimizerThatIsNotLinearIsRefusedAtStart(t *testing.T) {
	s := newPlacedSetup(t, true)
	adam, err := optim.NewAdam(optim.AdamConfig{LR: optim.Constant(0.001)})
	check(t, err)
	s.config.Optimizer = adam
	var refused *optim.NotLinearError
	if _, err := train.New(s.config); !errors.As(err, &refused) || !strings.Contains(err.Error(), "fc1") {
		t.Errorf("error %v, want one that names fc1", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*train.Config){
		"no network": func(c *train.Config) { c.Network = nil },
		"no epochs":  func(c *train.Config) { c.Epochs = 0 },
		"steps":      func(c *train.Config) { c.Steps = -1 },
	} {
		s := newSetup(t, change)
		if _, err := train.New(s.config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The clock is a parameter: a step that takes a second gives 32 images a second.
func TestSpeedFromTheClock(t *testing.T) {
	now := time.Unix(0, 0)
	s := newSetup(t, func(c *train.Config) {
		c.Steps = 9
		c.Now = func() time.Time { now = now.Add(500 * time.Millisecond); return now }
	})
	result, err := s.trainer(t).Run(t.Context())
	check(t, err)
	if result.ImagesPerS != 64 {
		t.Errorf("%v images/s, want 64", result.ImagesPerS)
	}
}
