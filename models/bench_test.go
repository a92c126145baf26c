package models_test

import (
	"fmt"
	"testing"

	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/optim"
)

// BenchmarkTrain measures whole training steps on random images, optimiser
// included; images/s is the figure to compare.
func BenchmarkTrain(b *testing.B) {
	for _, name := range models.Names() {
		b.Run(fmt.Sprintf("model=%s/batch=64", name), func(b *testing.B) {
			net, x, labels := benchmarkNetwork(b, name)
			sgd, err := optim.NewSGD(optim.SGDConfig{LR: optim.Constant(0.01), Momentum: 0.9, Decay: 1e-4})
			if err != nil {
				b.Fatal(err)
			}
			step := 0
			b.ReportAllocs()
			for b.Loop() {
				step++
				if _, _, err := net.Train(b.Context(), step, x, labels); err != nil {
					b.Fatal(err)
				}
				if err := sgd.Step(step, optimParams(net)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(64*b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

// BenchmarkInfer measures predictions.
func BenchmarkInfer(b *testing.B) {
	for _, name := range models.Names() {
		b.Run(fmt.Sprintf("model=%s/batch=64", name), func(b *testing.B) {
			net, x, _ := benchmarkNetwork(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := net.Predict(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(64*b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

func benchmarkNetwork(b *testing.B, name string) (net *nn.Network, x []float32, labels []int32) {
	b.Helper()
	r := rng(1)
	m, err := models.New(name, 10, []int{1, 28, 28}, r)
	if err != nil {
		b.Fatal(err)
	}
	x, labels = make([]float32, 64*784), make([]int32, 64)
	for i := range x {
		x[i] = r.Float32()
	}
	for i := range labels {
		labels[i] = int32(r.IntN(10))
	}
	net = network(b, m, nn.Config{Threads: 2})
	return net, x, labels
}
