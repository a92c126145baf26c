// Customlayer shows how to write layers of one's own: Mish, an activation that
// package nn does not have, and a squeeze-and-excitation block, which is made of
// layers that it has and of one operation that it has not. A user of PyTorch
// knows the two ways as torch.nn.Module and torch.autograd.Function.
//
// layers.go holds the layers, main_test.go the proof that their gradients are
// right, and this file a model that uses them. It takes about 20 seconds:
//
//	$ go run ./examples/customlayer
//	conv1.weight [16 1 3 3]
//	conv1.bias [16]
//	se.reduce.weight [4 16]
//	se.reduce.bias [4]
//	se.expand.weight [16 4]
//	se.expand.bias [16]
//	conv2.weight [32 16 3 3]
//	conv2.bias [32]
//	fc.weight [10 1568]
//	fc.bias [10]
//	step 300: loss 0.1435
//	step 600: loss 0.0653
//	step 900: loss 0.2651
//	test accuracy 97.89 %
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"gorgonia.org/gorgonia"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/train"
	"github.com/coda-ml/coda/optim"
)

// Net is a small convolutional network with the two layers.
type Net struct {
	Conv1 *nn.Conv2d
	SE    *SqueezeExcite
	Conv2 *nn.Conv2d
	FC    *nn.Linear
}

// NewNet makes a Net for grey images of 28x28.
func NewNet(rng *rand.Rand, classes int) *Net {
	return &Net{
		Conv1: nn.NewConv2d(rng, 1, 16, 3, nn.Conv2dConfig{Padding: 1, Stride: 2}),
		SE:    NewSqueezeExcite(rng, 16, 4),
		Conv2: nn.NewConv2d(rng, 16, 32, 3, nn.Conv2dConfig{Padding: 1, Stride: 2}),
		FC:    nn.NewLinear(rng, 32*7*7, classes),
	}
}

// Forward adds the model to the graph.
func (m *Net) Forward(g *nn.Graph, x *gorgonia.Node) (*gorgonia.Node, error) {
	return nn.Chain(g, x, m.Conv1, Mish{}, m.SE, m.Conv2, Mish{}, nn.Flatten{}, m.FC)
}

func main() {
	if err := run(context.Background(), os.Stdout, "mnist", datasets.Options{}); err != nil {
		log.Fatal(err)
	}
}

// run lists the parameters of a Net and trains it for one epoch.
func run(ctx context.Context, out io.Writer, dataset string, o datasets.Options) error {
	images, test, err := datasets.Load(ctx, dataset, o)
	if err != nil {
		return err
	}
	loader, err := datasets.NewLoader(images, datasets.LoaderConfig{Batch: 64, Shuffle: true, Seed: 1})
	if err != nil {
		return err
	}
	model := NewNet(rand.New(rand.NewPCG(1, 0)), images.Classes)
	params, err := nn.Params(model)
	if err != nil {
		return err
	}
	for _, p := range params {
		fmt.Fprintln(out, p.Name, p.Value.Shape)
	}
	network, err := nn.NewNetwork(model, images.Shape, nn.Config{})
	if err != nil {
		return err
	}
	defer network.Close()
	adam, err := optim.NewAdam(optim.AdamConfig{LR: optim.Constant(2e-3)})
	if err != nil {
		return err
	}
	trainer, err := train.New(train.Config{
		Model: model, Network: network, Optimizer: adam, Train: loader, Test: test, Epochs: 1,
		Hooks: []train.Hooks{{OnStep: func(_ context.Context, s train.StepInfo) error {
			if s.Step%300 == 0 {
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
