package models_test

import (
	"math"
	"slices"
	"testing"

	"github.com/coda-ml/coda/datasets"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// TestThreadsDoNotChangeBits trains models with 1, 2 and 3 threads, on batches
// of two sizes: all losses, and the parameters after the last step, are the same
// to the bit.
func TestThreadsDoNotChangeBits(t *testing.T) {
	testThreads(t, "convnet", 20)
	testThreads(t, "resnet20", 4)
}

func testThreads(t *testing.T, name string, steps int) {
	t.Helper()
	shape := []int{1, 28, 28}
	train := func(threads int) (losses []float64, net *nn.Network) {
		m, err := models.New(name, 10, shape, rng(3))
		if err != nil {
			t.Fatal(err)
		}
		net = network(t, m, nn.Config{Threads: threads, Loss: nn.CrossEntropy{Smoothing: 0.1}})
		sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.02), Momentum: 0.9, Decay: 5e-4})
		if err != nil {
			t.Fatal(err)
		}
		data := rng(4)
		for step := 1; step <= steps; step++ {
			x, labels := randomBatch(data, 12-5*(step%2), shape)
			loss, _, err := net.Train(t.Context(), step, x, labels)
			if err != nil {
				t.Fatal(err)
			}
			if err := sgd.Step(step, optimParams(net)); err != nil {
				t.Fatal(err)
			}
			losses = append(losses, loss)
		}
		return losses, net
	}
	want, one := train(1)
	for _, threads := range []int{2, 3} {
		got, net := train(threads)
		for i, loss := range got {
			if math.Float64bits(loss) != math.Float64bits(want[i]) {
				t.Fatalf("%s, %d threads, step %d: loss %v, with one thread %v", name, threads, i+1, loss, want[i])
			}
		}
		for i, p := range net.Params() {
			for j, v := range one.Params()[i].Value.Data {
				if math.Float32bits(p.Value.Data[j]) != math.Float32bits(v) {
					t.Fatalf("%s, %d threads: %s[%d] is %v, with one thread %v", name, threads, p.Name, j, p.Value.Data[j], v)
				}
			}
		}
	}
}

// TestRunsDoNotDependOnParallelism trains models on augmented images with
// dropout: a second run, more threads and more goroutines of the loader all give
// the same losses and the same state to the bit.
func TestRunsDoNotDependOnParallelism(t *testing.T) {
	for name, build := range map[string]func() (nn.Module, error){
		"convnet":   func() (nn.Module, error) { return models.New("convnet", 10, cifar, rng(3)) },
		"resnet20":  func() (nn.Module, error) { return models.New("resnet20", 10, cifar, rng(3)) },
		"vgg-small": func() (nn.Module, error) { return models.New("vgg-small", 10, cifar, rng(3)) },
		"vgg": func() (nn.Module, error) { // with dropout
			return models.NewVGG(models.VGGConfig{Stages: [5]int{1, 1, 1, 1, 1}, BatchNorm: true, Hidden: 16}, 10, cifar, rng(3))
		},
	} {
		run := func(threads, workers int) []uint32 {
			m, err := build()
			if err != nil {
				t.Fatal(err)
			}
			return trainAugmented(t, m, threads, workers)
		}
		want := run(1, 1)
		for _, c := range []struct{ threads, workers int }{{1, 1}, {2, 2}, {3, 5}} {
			if !slices.Equal(run(c.threads, c.workers), want) {
				t.Errorf("%s: %d threads and %d goroutines of the loader give other bits", name, c.threads, c.workers)
			}
		}
	}
}

var cifar = []int{3, 32, 32}

// trainAugmented trains for an epoch of three steps, the last of them smaller,
// and returns the bits of the losses and of the model's state.
func trainAugmented(t *testing.T, m nn.Module, threads, workers int) (bits []uint32) {
	t.Helper()
	set, _, err := datasets.Load(t.Context(), "synthetic", datasets.Options{Synthetic: datasets.Synthetic{Seed: 3, Train: 16, Test: 1, Shape: cifar}})
	if err != nil {
		t.Fatal(err)
	}
	loader, err := datasets.NewLoader(set, datasets.LoaderConfig{
		Batch: 6, Shuffle: true, Seed: 5, Prefetch: workers, Workers: workers, Augment: datasets.Augment{Pad: 4, Flip: true, Cutout: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	net := networkFor(t, m, cifar, nn.Config{Threads: threads, Seed: 9})
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.02), Momentum: 0.9, Decay: 5e-4})
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range loader.Epoch(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		loss, _, err := net.Train(t.Context(), batch.Step+1, batch.X, batch.Labels)
		if err != nil {
			t.Fatal(err)
		}
		if err := sgd.Step(batch.Step+1, optimParams(net)); err != nil {
			t.Fatal(err)
		}
		wide := math.Float64bits(loss)
		bits = append(bits, uint32(wide>>32), uint32(wide))
	}
	return append(bits, stateBits(t, m)...)
}

// stateBits returns the bits of a model's parameters and buffers.
func stateBits(t *testing.T, m nn.Module) (bits []uint32) {
	t.Helper()
	state, err := nn.State(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range state {
		var data []float32
		switch {
		case v.Param != nil:
			data = v.Param.Value.Data
		case v.Buffer != nil:
			data = v.Buffer.Value.Data
		}
		for _, x := range data {
			bits = append(bits, math.Float32bits(x))
		}
	}
	return bits
}
