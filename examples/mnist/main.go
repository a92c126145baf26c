// Mnist trains the MNIST convnet in this process, as a program of one's own
// would: data, model, optimiser, training loop. It takes about a minute.
//
//	go run ./examples/mnist
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	const epochs, seed = 1, 1
	images, test, err := datasets.Load(ctx, "mnist", datasets.Options{})
	if err != nil {
		return err
	}
	loader, err := datasets.NewLoader(images, datasets.LoaderConfig{Batch: 64, Shuffle: true, Seed: seed})
	if err != nil {
		return err
	}
	model, err := models.NewConvnet(images.Classes, images.Shape, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return err
	}
	network, err := nn.NewNetwork(model, images.Shape, nn.Config{})
	if err != nil {
		return err
	}
	defer network.Close()
	lr, err := optim.Cosine(0.05, 0, epochs*loader.Steps())
	if err != nil {
		return err
	}
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: lr, Momentum: 0.9})
	if err != nil {
		return err
	}
	trainer, err := train.New(train.Config{
		Model: model, Network: network, Optimizer: sgd, Train: loader, Test: test, Epochs: epochs,
		Hooks: []train.Hooks{{OnStep: func(_ context.Context, s train.StepInfo) error {
			if s.Step%100 == 0 {
				fmt.Printf("step %d: loss %.4f\n", s.Step, s.Loss)
			}
			return nil
		}}},
	})
	if err != nil {
		return err
	}
	result, err := trainer.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("test accuracy %.2f %%\n", 100*result.TestAccuracy)
	return nil
}
