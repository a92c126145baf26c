// Cifar trains ResNet-20 on CIFAR-10 the way it is trained everywhere: images
// padded by 4, cropped and flipped at random, SGD with momentum and weight decay,
// a learning rate that rises and falls once. Ctrl-C ends the run between two
// steps.
//
// The data is the official binary version, in the folder of -data or, without
// it, downloaded once. A first look at a quarter of an epoch:
//
//	$ go run ./examples/cifar -data ~/cifar-10-batches-bin -epochs 1 -steps 100
//	epoch  1: loss 2.0274, test loss 1.7752, test accuracy 34.06 %
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

func main() {
	data := flag.String("data", "", "folder of CIFAR-10's binary files; empty: they are downloaded")
	epochs := flag.Int("epochs", 20, "passes over the training images")
	steps := flag.Int("steps", 0, "end after so many steps, if that is sooner; 0: no limit")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	images, test, err := datasets.Load(ctx, "cifar10", datasets.Options{Dir: *data})
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, os.Stdout, images, test, *epochs, *steps); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, images, test *datasets.Set, epochs, steps int) error {
	const seed = 1
	loader, err := datasets.NewLoader(images, datasets.LoaderConfig{
		Batch: 128, Shuffle: true, Seed: seed,
		Augment: datasets.Augment{Pad: 4, Flip: true},
	})
	if err != nil {
		return err
	}
	if total := epochs * loader.Steps(); steps == 0 || steps > total {
		steps = total
	}
	model, err := models.New("resnet20", images.Classes, images.Shape, rand.New(rand.NewPCG(seed, 0)))
	if err != nil {
		return err
	}
	network, err := nn.NewNetwork(model, images.Shape, nn.Config{})
	if err != nil {
		return err
	}
	defer network.Close()
	lr, err := optim.OneCycle(optim.OneCycleConfig{Peak: 0.4, Steps: steps})
	if err != nil {
		return err
	}
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: lr, Momentum: 0.9, Decay: 5e-4})
	if err != nil {
		return err
	}
	trainer, err := train.New(train.Config{
		Model: model, Network: network, Optimizer: sgd, Train: loader, Test: test, Epochs: epochs, Steps: steps,
		Hooks: []train.Hooks{{OnEpoch: func(_ context.Context, e train.EpochInfo) error {
			fmt.Fprintf(out, "epoch %2d: loss %.4f, test loss %.4f, test accuracy %.2f %%\n",
				e.Epoch+1, e.Loss, e.TestLoss, 100*e.TestAccuracy)
			return nil
		}}},
	})
	if err != nil {
		return err
	}
	result, err := trainer.Run(ctx)
	if err == nil && result.Interrupted {
		fmt.Fprintf(out, "interrupted after step %d of %d\n", result.Steps, steps)
	}
	return err
}
