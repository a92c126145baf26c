// Coded trains a perceptron whose first two layers are resident on six slots of
// a trigonometric code, in this process: every product is decoded from another
// four of the six, at random, and the loss is that of the local layers.
//
//	$ go run ./examples/coded
//	step   local  coded, any 4 of 6
//	   1  2.3554  2.3554
//	   5  1.9531  1.9531
//	   9  1.1128  1.1128
//	  13  0.2653  0.2653
//	  17  0.0159  0.0159
//	  21  0.0014  0.0014
//	  25  0.0003  0.0003
//	  29  0.0001  0.0001
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run trains both ways and prints the losses side by side.
func run(ctx context.Context, out io.Writer) error {
	local, err := losses(ctx, false)
	if err != nil {
		return err
	}
	placed, err := losses(ctx, true)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "step   local  coded, any 4 of 6")
	for i := 0; i < len(local); i += 4 {
		fmt.Fprintf(out, "%4d  %.4f  %.4f\n", i+1, local[i], placed[i])
	}
	return nil
}

// losses trains for one epoch and returns the loss of every step.
func losses(ctx context.Context, onCluster bool) (list []float64, err error) {
	images, test, err := datasets.Load(ctx, "synthetic", datasets.Options{})
	if err != nil {
		return nil, err
	}
	loader, err := datasets.NewLoader(images, datasets.LoaderConfig{Batch: 64, Shuffle: true, Seed: 1})
	if err != nil {
		return nil, err
	}
	model, err := models.NewMLP(images.Classes, images.Shape, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		return nil, err
	}
	if onCluster {
		resident := &nn.Resident{
			// On a cluster this is a dist.Coordinator.
			Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(1)}),
			Code:     coded.Spec{Name: "trigonometric", N: 6, K: 4},
			Chunks:   1,
		}
		model.FC1.Place(resident)
		model.FC2.Place(resident)
		if err := nn.Place(ctx, model, nil); err != nil {
			return nil, err
		}
	}
	network, err := nn.NewNetwork(model, images.Shape, nn.Config{})
	if err != nil {
		return nil, err
	}
	defer network.Close()
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.02), Momentum: 0.9})
	if err != nil {
		return nil, err
	}
	trainer, err := train.New(train.Config{
		Model: model, Network: network, Optimizer: sgd, Train: loader, Test: test, Epochs: 1,
		Hooks: []train.Hooks{{OnStep: func(_ context.Context, s train.StepInfo) error {
			list = append(list, s.Loss)
			return nil
		}}},
	})
	if err != nil {
		return nil, err
	}
	_, err = trainer.Run(ctx)
	return list, err
}
