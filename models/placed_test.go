package models_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/models"
	"github.com/coda-ml/coda/nn"
)

// exhaustive takes every set of answers in turn for whole products, in place of
// different ones for the chunks of a few products:
//
//	go test ./models -run Placed -exhaustive -timeout 30m
var exhaustive = flag.Bool("exhaustive", false, "compare placed layers for every set of answers")

// placements are those that a model's layers are put on.
var placements = map[string]func(e coded.Executor, code coded.Spec) nn.Placement{
	"resident": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Resident{Executor: e, Code: code, Chunks: 4}
	},
	"resident by batch": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Resident{Executor: e, Code: code, Chunks: 4, ByBatch: true}
	},
	"batch": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Batch{Executor: e, Code: code, Chunks: 4}
	},
	"batch with coded gradient": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Batch{Executor: e, Code: code, Chunks: 2, Gradient: coded.Spec{Name: "trigonometric-matdot", N: code.N, P: code.K}}
	},
	"shipped": func(e coded.Executor, code coded.Spec) nn.Placement {
		return &nn.Shipped{Executor: e, Code: twoSided(code), Chunks: 2}
	},
}

// twoSided is a code for both factors of which as many answers of as many suffice. The
// worst condition numbers of codes of rotations are 4.7 and 7.2; those of ortho-polynomial
// codes, 28 and 86, turn the rounding of sums over hundreds of products into 1.1e-5.
func twoSided(code coded.Spec) coded.Spec {
	return coded.Spec{Name: "rotation", N: code.N, M: code.K, Q: 4}
}

// fits tells whether a layer has enough inputs and outputs for a placement with a code.
func fits(p nn.Placeable, on nn.Placement, k int) bool {
	in, out, groups := p.Shape()
	leastIn, leastOut := k, k
	if s, ok := on.(*nn.Shipped); ok { // cuts the input of a first layer too, for its gradient
		leastIn, leastOut = s.Code.Q, max(s.Code.M, s.Code.Q)
	} else if p.First {
		leastIn = 1
	}
	return out/groups >= leastOut && in/groups >= leastIn
}

// placedModels are the models with the size of the images that they are tried on.
var placedModels = map[string][]int{"mlp": {1, 28, 28}, "convnet": {1, 28, 28}, "vgg-small": {3, 16, 16}, "resnet20": {3, 16, 16}}

func trigonometric(n, k int) coded.Spec { return coded.Spec{Name: "trigonometric", N: n, K: k} }

// placeAll puts every layer of a model that can be on a placement.
func placeAll(t *testing.T, m nn.Module, on nn.Placement, k int) {
	t.Helper()
	products, err := nn.Placeables(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range products {
		if fits(p, on, k) {
			p.Layer.Place(on)
		}
	}
}

func newModelFor(t *testing.T, name string, shape []int) nn.Module {
	t.Helper()
	m, err := models.New(name, 10, shape, rng(7))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// randomBatch returns n images of a shape and their labels.
func randomBatch(rng *rand.Rand, n int, shape []int) ([]float32, []int32) {
	x, labels := make([]float32, n*volume(shape)), make([]int32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = rng.Int32N(10)
	}
	return x, labels
}

func volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// gradients makes a step and returns the gradient of every parameter. Those of
// weights on workers are never at the coordinator: an update with a rate of zero and
// momentum leaves the weights as they are, and the gradient as the momentum.
func gradients(t *testing.T, m nn.Module, net *nn.Network, step int, train func() error) map[string][]float32 {
	t.Helper()
	if err := nn.Place(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	if err := train(); err != nil {
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
	for _, p := range net.Params() {
		all[strings.TrimPrefix(p.Name, "layer.")] = slices.Clone(p.Grad)
		if p.Remote {
			all[strings.TrimPrefix(p.Name, "layer.")] = momenta[p.Name]
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
