package models_test

import (
	"math"
	"testing"

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
			x, labels := randomBatch(data, 12-5*(step%2))
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
