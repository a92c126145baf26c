// Mnist is the program to begin with: data, model, optimiser, training loop. It
// trains a convolutional network on MNIST for one epoch, on all processors.
//
//	$ go run ./examples/mnist
//	step 200: loss 0.0150
//	step 400: loss 0.0202
//	step 600: loss 0.0229
//	step 800: loss 0.0025
//	test accuracy 99.02 %
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

func main() {
	if err := run(context.Background(), os.Stdout, "mnist", datasets.Options{}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, dataset string, o datasets.Options) error {
	const epochs, seed = 1, 1
	images, test, err := datasets.Load(ctx, dataset, o)
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
			if s.Step%200 == 0 {
				fmt.Fprintf(out, "step %d: loss %.4f\n", s.Step, s.Loss)
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
	fmt.Fprintf(out, "test accuracy %.2f %%\n", 100*result.TestAccuracy)
	return nil
}
