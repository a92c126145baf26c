package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

// freeze keeps a model as it is, but for the parameters whose names begin with a
// prefix. It is requires_grad_(False): no gradient is computed, and optimisers
// leave the parameter alone. The running statistics of a BatchNorm are no
// parameters, but a training step would move them: Config.Frozen is its eval().
func freeze(model nn.Module, except string) error {
	params, err := nn.Params(model)
	if err != nil {
		return err
	}
	for _, p := range params {
		p.Frozen = !strings.HasPrefix(p.Name, except)
	}
	modules, err := nn.Modules(model)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if norm, ok := m.Module.(*nn.BatchNorm); ok {
			norm.Config.Frozen = true
		}
	}
	return nil
}

// task is what a model has to learn, and for how long.
type task struct {
	train, test *datasets.Set
	steps       int
}

// fit trains what is not frozen and prints the accuracy.
func (t task) fit(ctx context.Context, out io.Writer, model nn.Module) error {
	loader, err := datasets.NewLoader(t.train, datasets.LoaderConfig{Batch: 64, Shuffle: true, Seed: 1})
	if err != nil {
		return err
	}
	network, err := nn.NewNetwork(model, t.train.Shape, nn.Config{})
	if err != nil {
		return err
	}
	defer network.Close()
	trained, all := 0, 0
	for _, p := range network.Params() {
		all += p.Size()
		if !p.Frozen {
			trained += p.Size()
		}
	}
	fmt.Fprintf(out, "training %d of %d parameters\n", trained, all)
	lr, err := optim.Cosine(0.1, 0, t.steps)
	if err != nil {
		return err
	}
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: lr, Momentum: 0.9})
	if err != nil {
		return err
	}
	trainer, err := train.New(train.Config{
		Model: model, Network: network, Optimizer: sgd, Train: loader, Test: t.test,
		Epochs: t.steps/loader.Steps() + 1, Steps: t.steps,
	})
	if err != nil {
		return err
	}
	result, err := trainer.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "step %d: test accuracy %.2f %%\n", result.Steps, 100*result.TestAccuracy)
	return nil
}
