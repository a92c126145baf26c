// Customloop trains without package nn/train, for those who want every line of
// the loop to be theirs: gradients of several batches added up, clipping, a
// schedule of two parts, settings by parameter group, a moving average of the
// weights, metrics, and a checkpoint from which the run goes on to the bit.
//
// This file is the loop, state.go what is kept of a run. It takes half a minute:
//
//	$ go run ./examples/customloop -steps 400 -checkpoint lenet
//	step 100: loss 0.4550, gradient norm 0.571, rate 0.00298
//	step 200: loss 0.3551, gradient norm 0.401, rate 0.00284
//	step 300: loss 0.3397, gradient norm 0.595, rate 0.00256
//	step 400: loss 0.3581, gradient norm 0.707, rate 0.00219
//	top-1 98.40 %, top-2 99.62 %, least recognised: 7 (97.57 %)
//	$ go run ./examples/customloop -steps 800 -checkpoint lenet
//	step 500: loss 0.3817, gradient norm 0.729, rate 0.00174
//	step 600: loss 0.3387, gradient norm 0.506, rate 0.00127
//	step 700: loss 0.3234, gradient norm 0.450, rate 0.00082
//	step 800: loss 0.2985, gradient norm 0.178, rate 0.00044
//	top-1 98.84 %, top-2 99.76 %, least recognised: 9 (97.92 %)
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

const (
	batch      = 64
	accumulate = 2 // batches a step
	clipNorm   = 1.0
)

func main() {
	checkpoint := flag.String("checkpoint", "", "folder to go on from, if it holds something, and to write to; empty: none")
	steps := flag.Int("steps", 800, "end after this step")
	flag.Parse()
	ctx := context.Background()
	images, test, err := datasets.Load(ctx, "mnist", datasets.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, os.Stdout, images, test, *steps, *checkpoint); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, images, test *datasets.Set, steps int, checkpoint string) error {
	model, err := models.NewLeNet(images.Classes, images.Shape, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		return err
	}
	network, err := nn.NewNetwork(model, images.Shape, nn.Config{Loss: nn.CrossEntropy{Smoothing: 0.05}})
	if err != nil {
		return err
	}
	defer network.Close()
	state, err := newState(model)
	if err != nil {
		return err
	}
	if err := state.load(checkpoint); err != nil {
		return err
	}
	loader, err := datasets.NewLoader(images, datasets.LoaderConfig{Batch: batch, Shuffle: true, Seed: 1})
	if err != nil {
		return err
	}
	for state.step < steps {
		if err := epoch(ctx, out, network, loader, state, steps); err != nil {
			return err
		}
	}
	if err := state.save(checkpoint); err != nil {
		return err
	}
	// The average of the weights takes their place while it is evaluated.
	return state.ema.With(parameters(network), func() error { return report(ctx, out, network, test) })
}

// epoch makes the steps of an epoch that are left, until the last one of the run.
// The order of the batches depends on the seed and the epoch alone, so a run that
// goes on takes those that it would have taken.
func epoch(ctx context.Context, out io.Writer, network *nn.Network, loader *datasets.Loader, s *state, steps int) error {
	perEpoch := loader.Steps() / accumulate // what is left over is not used
	number, first := s.step/perEpoch, s.step%perEpoch*accumulate
	sum, parts := 0.0, 0
	for b, err := range loader.Epoch(ctx, number, first) {
		if err != nil {
			return err
		}
		// Train leaves gradients in the parameters, Accumulate adds to them.
		backward := network.Train
		if parts > 0 {
			backward = network.Accumulate
		}
		loss, _, err := backward(ctx, s.step+1, b.X, b.Labels)
		if err != nil {
			return err
		}
		sum, parts = sum+loss, parts+1
		if parts < accumulate {
			continue
		}
		norm, err := s.update(network)
		if err != nil {
			return err
		}
		if s.step%100 == 0 {
			fmt.Fprintf(out, "step %d: loss %.4f, gradient norm %.3f, rate %.5f\n", s.step, sum/accumulate, norm, s.lr(s.step))
		}
		sum, parts = 0, 0
		if s.step == steps || s.step%perEpoch == 0 {
			return nil
		}
	}
	return nil
}

// update makes a step of the optimiser with the mean of the gradients, clipped,
// and returns their norm.
func (s *state) update(network *nn.Network) (norm float64, err error) {
	params := parameters(network)
	for _, p := range params {
		for i := range p.Grad {
			p.Grad[i] /= accumulate
		}
	}
	if norm, err = optim.Clip(params, clipNorm); err != nil {
		return 0, err
	}
	s.step++
	if err := s.optimizer.Step(s.step, params); err != nil {
		return 0, err
	}
	return norm, s.ema.Update(params)
}

// parameters gives the optimiser what it works on: names and flat slices.
func parameters(network *nn.Network) []optim.Param {
	var params []optim.Param
	for _, p := range network.Params() {
		params = append(params, optim.Param{Name: p.Name, Value: p.Value.Data, Grad: p.Grad})
	}
	return params
}

// report prints metrics of one's own, made from the model's outputs: how often
// the right class is first, how often among the first two, and the class that is
// recognised least.
func report(ctx context.Context, out io.Writer, network *nn.Network, test *datasets.Set) error {
	loader, err := datasets.NewLoader(test, datasets.LoaderConfig{Batch: min(250, test.N)})
	if err != nil {
		return err
	}
	top1, top2 := 0, 0
	seen, found := make([]int, test.Classes), make([]int, test.Classes)
	for b, err := range loader.Epoch(ctx, 0, 0) {
		if err != nil {
			return err
		}
		logits, err := network.Predict(ctx, b.X)
		if err != nil {
			return err
		}
		for i, label := range b.Labels {
			seen[label]++
			switch rank(logits[i*test.Classes:][:test.Classes], int(label)) {
			case 0:
				top1, top2 = top1+1, top2+1
				found[label]++
			case 1:
				top2++
			}
		}
	}
	worst := 0
	for c := range seen {
		if found[c]*seen[worst] < found[worst]*seen[c] {
			worst = c
		}
	}
	percent := func(part, all int) float64 { return 100 * float64(part) / float64(all) }
	fmt.Fprintf(out, "top-1 %.2f %%, top-2 %.2f %%, least recognised: %s (%.2f %%)\n",
		percent(top1, test.N), percent(top2, test.N), test.ClassNames[worst], percent(found[worst], seen[worst]))
	return nil
}

// rank returns how many classes have larger logits than the right one.
func rank(logits []float32, label int) int {
	larger := 0
	for _, z := range logits {
		if z > logits[label] {
			larger++
		}
	}
	return larger
}
