package models_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// benchmarks are the models, batches and images whose speed is compared with
// PyTorch's.
var benchmarks = []struct {
	model string
	batch int
	shape []int
}{
	{"mlp", 64, []int{1, 28, 28}},
	{"lenet", 64, []int{1, 28, 28}},
	{"convnet", 64, []int{1, 28, 28}},
	{"resnet20", 128, []int{3, 32, 32}},
	{"vgg-small", 64, []int{3, 32, 32}},
}

// BenchmarkTrain measures whole training steps on random images, optimiser
// included; images/s is the figure to compare.
func BenchmarkTrain(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(fmt.Sprintf("model=%s/batch=%d", c.model, c.batch), func(b *testing.B) {
			net, x, labels := benchmarkNetwork(b, c.model, c.shape, c.batch, 2)
			step := trainer(b, net, x, labels)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(c.batch*b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

// trainer returns what makes a training step. It has made the first.
func trainer(t testing.TB, net *nn.Network, x []float32, labels []int32) func() {
	t.Helper()
	sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.01), Momentum: 0.9, Decay: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	params := optimParams(net)
	step := func() {
		n++
		if _, _, err := net.Train(t.Context(), n, x, labels); err != nil {
			t.Fatal(err)
		}
		for i, p := range net.Params() {
			params[i].Grad = p.Grad
		}
		if err := sgd.Step(n, params); err != nil {
			t.Fatal(err)
		}
	}
	step()
	return step
}

// BenchmarkInfer measures predictions.
func BenchmarkInfer(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(fmt.Sprintf("model=%s/batch=%d", c.model, c.batch), func(b *testing.B) {
			net, x, _ := benchmarkNetwork(b, c.model, c.shape, c.batch, 2)
			if _, err := net.Predict(b.Context(), x); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := net.Predict(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.batch*b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

// TestSteadyState: a step allocates little however deep the model is, and less
// than the output of any convolution of a ResNet for CIFAR, of which the smallest
// has 32 KiB here; and goroutines do not become more.
func TestSteadyState(t *testing.T) {
	for _, c := range []struct {
		model          string
		batch, threads int
	}{{"resnet20", 8, 2}, {"resnet56", 2, 1}, {"resnet18", 2, 1}, {"vgg-small", 2, 1}} {
		net, x, labels := benchmarkNetwork(t, c.model, []int{3, 32, 32}, c.batch, c.threads)
		step := trainer(t, net, x, labels)
		step()
		goroutines := runtime.NumGoroutine()
		if got := steady.Bytes(1, step); got > 16<<10 {
			t.Errorf("%s: %d bytes allocated a step, want at most 16 KiB", c.model, got)
		}
		if now := runtime.NumGoroutine(); now > goroutines {
			t.Errorf("%s: %d goroutines after the steps, %d before", c.model, now, goroutines)
		}
	}
}

func benchmarkNetwork(t testing.TB, name string, shape []int, batch, threads int) (net *nn.Network, x []float32, labels []int32) {
	t.Helper()
	r := rng(1)
	m, err := models.New(name, 10, shape, r)
	if err != nil {
		t.Fatal(err)
	}
	size := batch
	for _, d := range shape {
		size *= d
	}
	x, labels = make([]float32, size), make([]int32, batch)
	for i := range x {
		x[i] = r.Float32()
	}
	for i := range labels {
		labels[i] = int32(r.IntN(10))
	}
	return networkFor(t, m, shape, nn.Config{Threads: threads}), x, labels
}
