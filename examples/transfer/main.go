// Transfer trains a new head on a network whose body has been trained before.
// The body is read from a safetensors file with the names that PyTorch gives,
// such as this one, and kept as it is:
//
//	model = torchvision.models.resnet18(weights="DEFAULT")
//	safetensors.torch.save_file(model.state_dict(), "resnet18.safetensors")
//
//	$ go run ./examples/transfer -weights resnet18.safetensors -model resnet18 -data folder:flowers
//
// Without a file it makes one: ResNet-20 learns the digits 0 to 4 of MNIST and
// is written to a file, and its body serves to tell 5 to 9 apart. That takes
// about a minute:
//
//	$ go run ./examples/transfer
//	digits 0 to 4, the whole model
//	training 271861 of 271861 parameters
//	step 100: test accuracy 98.83 %
//	digits 5 to 9, the head alone
//	training 325 of 271861 parameters
//	step 100: test accuracy 86.55 %
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

func main() {
	weights := flag.String("weights", "", "safetensors file of a trained model; empty: one is trained on half of MNIST")
	model := flag.String("model", "resnet20", "the model in the file: resnet20, resnet18, ...")
	data := flag.String("data", "cifar10", "what the head of that model learns")
	steps := flag.Int("steps", 100, "steps of the head's training")
	flag.Parse()
	ctx := context.Background()
	if *weights == "" {
		if err := demonstrate(ctx, os.Stdout, *steps); err != nil {
			log.Fatal(err)
		}
		return
	}
	images, test, err := datasets.Load(ctx, *data, datasets.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := transfer(ctx, os.Stdout, *weights, *model, task{images, test, *steps}); err != nil {
		log.Fatal(err)
	}
}

// transfer reads a model from a file, all but its head, and trains that.
func transfer(ctx context.Context, out io.Writer, weights, name string, t task) error {
	// The new model has the classes of the new task, so its fc is another.
	model, err := models.New(name, t.train.Classes, t.train.Shape, newRand())
	if err != nil {
		return err
	}
	if _, err := nn.LoadState(weights, model, nn.Except("fc.")); err != nil {
		return err
	}
	if err := freeze(model, "fc."); err != nil {
		return err
	}
	return t.fit(ctx, out, model)
}

// pretrain trains a whole model and writes it to a file.
func pretrain(ctx context.Context, out io.Writer, weights, name string, t task) error {
	model, err := models.New(name, t.train.Classes, t.train.Shape, newRand())
	if err != nil {
		return err
	}
	if err := t.fit(ctx, out, model); err != nil {
		return err
	}
	return nn.SaveState(weights, model, nil)
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 0)) }

// demonstrate does both, with the two halves of MNIST.
func demonstrate(ctx context.Context, out io.Writer, steps int) error {
	dir, err := os.MkdirTemp("", "transfer")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	weights := filepath.Join(dir, "resnet20.safetensors")
	low, err := digits(ctx, 0, 5, 100)
	if err != nil {
		return err
	}
	high, err := digits(ctx, 5, 10, steps)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "digits 0 to 4, the whole model")
	if err := pretrain(ctx, out, weights, "resnet20", low); err != nil {
		return err
	}
	fmt.Fprintln(out, "digits 5 to 9, the head alone")
	return transfer(ctx, out, weights, "resnet20", high)
}

// digits is the task of telling some of MNIST's digits apart.
func digits(ctx context.Context, from, to, steps int) (task, error) {
	images, test, err := datasets.Load(ctx, "mnist", datasets.Options{})
	if err != nil {
		return task{}, err
	}
	if images, err = classes(images, from, to); err != nil {
		return task{}, err
	}
	test, err = classes(test, from, to)
	return task{images, test, steps}, err
}

// classes returns the images of some classes, which are numbered from 0.
func classes(set *datasets.Set, from, to int) (*datasets.Set, error) {
	c := datasets.Contents{
		Name: set.Name, Split: set.Split, Classes: to - from, ClassNames: set.ClassNames[from:to],
		Shape: set.Shape, Mean: set.Mean, Std: set.Std,
	}
	for i := range set.N {
		if label := set.Label(i); from <= label && label < to {
			c.Pixels = append(c.Pixels, set.Image(i)...)
			c.Labels = append(c.Labels, label-from)
		}
	}
	return datasets.NewSet(c)
}
