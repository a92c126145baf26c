package models_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// TestPlacedGradients compares, on equal inputs, the gradients of a model whose
// large layers are decoded from each sufficient set of a (6,4) code with those
// of the same model in one piece.
func TestPlacedGradients(t *testing.T) {
	for _, test := range []struct {
		model  string
		placed func(nn.Module) []*nn.Linear
	}{
		{"convnet", func(m nn.Module) []*nn.Linear { return []*nn.Linear{m.(*models.Convnet).FC1} }},
		{"mlp", func(m nn.Module) []*nn.Linear { return []*nn.Linear{m.(*models.MLP).FC1, m.(*models.MLP).FC2} }},
	} {
		t.Run(test.model, func(t *testing.T) {
			x, labels := randomBatch(rng(9), 16)
			local := newModel(t, test.model)
			want := gradients(t, local, 1, x, labels)

			next := shard.EverySet()
			resident := &nn.Resident{
				Executor: shard.NewLocal(shard.LocalConfig{Survivors: next}),
				Code:     coded.Spec{Name: "trigonometric", N: 6, K: 4}, Chunks: 1,
			}
			model := newModel(t, test.model)
			for _, l := range test.placed(model) {
				l.Place(resident)
			}
			worst := 0.0
			for step := range 15 { // all subsets of four
				got := gradients(t, model, step+1, x, labels)
				for name := range want {
					worst = max(worst, apart(got[name], want[name]))
				}
			}
			if !(worst <= 1e-5) {
				t.Errorf("gradients differ by %.1e of the largest entry, want at most 1e-5", worst)
			}
			t.Logf("worst difference %.1e of the largest entry", worst)
		})
	}
}

func newModel(t *testing.T, name string) nn.Module {
	t.Helper()
	m, err := models.New(name, 10, []int{1, 28, 28}, rng(7))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// randomBatch returns n images of 28x28 and their labels.
func randomBatch(rng *rand.Rand, n int) ([]float32, []int32) {
	x, labels := make([]float32, n*28*28), make([]int32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = rng.Int32N(10)
	}
	return x, labels
}

// gradients returns the gradient of every parameter. Those of placed weights
// are never at the coordinator: an update with a rate of zero and momentum
// leaves the weights as they are, and the gradient as the momentum.
func gradients(t *testing.T, m nn.Module, step int, x []float32, labels []int32) map[string][]float32 {
	t.Helper()
	if err := nn.Place(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	n, err := nn.NewNetwork(m, []int{1, 28, 28}, nn.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, _, err := n.Train(t.Context(), step, x, labels); err != nil {
		t.Fatal(err)
	}
	if err := nn.UpdatePlaced(t.Context(), m, coded.Update{Step: step, Momentum: 0.9, Scale: 1}); err != nil {
		t.Fatal(err)
	}
	momenta, err := nn.Sync(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]float32{}
	for _, p := range n.Params() {
		all[p.Name] = slices.Clone(p.Grad)
		if p.Remote {
			all[p.Name] = momenta[p.Name]
		}
	}
	return all
}

// apart is the largest difference over the largest entry of want.
func apart(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var d, most float64
	for i, v := range want {
		e := math.Abs(float64(got[i]) - float64(v))
		if math.IsNaN(e) {
			return math.Inf(1)
		}
		d, most = max(d, e), max(most, math.Abs(float64(v)))
	}
	return d / most
}
