package shard_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// What shards keep of their weights is that of the weights that they have now: after each
// way to change these, products are those of a shard that has never had others. The
// convolutions are large enough for what is kept (kernel.Workspace.Weights).
func TestProductsAreOfTheNewWeights(t *testing.T) {
	c := conv3x3(64, 64)
	rng := rand.New(rand.NewPCG(5, 6))
	x := coded.Tensor{Shape: []int{16, 64, 8, 8}, Data: normal(rng, 16*64*64)}
	first, second := normal(rng, 64*64*9), normal(rng, 64*64*9)
	resident := newConvLayer(t, c, trigonometric(4, 2), 1)
	batch := newBatchLayer(t, shard.KindBatch, c, trigonometric(4, 2), 1)
	products := func(s coded.Shard) (y []float32) {
		for p := coded.Forward; p <= coded.Backward; p++ {
			r, err := s.Multiply(p, x, 0)
			if err != nil {
				t.Fatal(err)
			}
			y = append(y, r.Data...)
		}
		return y
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func() (old, fresh coded.Shard){
		"resident, new state": func() (old, fresh coded.Shard) {
			old, fresh = newConvShards(t, resident, c, first)[1], newConvShards(t, resident, c, second)[1]
			products(old)
			must(old.SetState(fresh.State()))
			return old, fresh
		},
		"resident, update": func() (old, fresh coded.Shard) {
			old, fresh = newConvShards(t, resident, c, first)[1], newConvShards(t, resident, c, second)[1]
			products(old)
			must(old.Accumulate(x, x))
			must(old.Apply(coded.Update{Step: 1, LR: 1e-2, Scale: 1}))
			must(fresh.SetState(old.State()))
			return old, fresh
		},
		"batch, new state": func() (old, fresh coded.Shard) {
			old, fresh = newBatchShards(t, batch, c, first)[1], newBatchShards(t, batch, c, second)[1]
			products(old)
			must(old.SetState(fresh.State()))
			return old, fresh
		},
		"batch, update": func() (old, fresh coded.Shard) {
			old, fresh = newBatchShards(t, batch, c, first)[1], newBatchShards(t, batch, c, second)[1]
			products(old)
			must(old.Accumulate(coded.Tensor{Shape: []int{64, 64, 3, 3}, Data: second}, coded.NewTensor(1)))
			must(old.Apply(coded.Update{Step: 1}))
			return old, fresh
		},
	} {
		old, fresh := change()
		if d := difference(t, products(old), products(fresh)); d > 1e-6 {
			t.Errorf("%s: products differ by %.1g of the largest entry", name, d)
		}
	}
}

// A shipped layer has other weights in every product.
func TestShippedProductsAreOfTheirWeights(t *testing.T) {
	c := conv3x3(64, 64)
	rng := rand.New(rand.NewPCG(7, 8))
	spec := coded.Spec{Name: "polynomial", N: 4, M: 1, Q: 2}
	layer := newBatchLayer(t, shard.KindShipped, c, spec, 1)
	x := coded.Tensor{Shape: []int{32, 64, 8, 8}, Data: normal(rng, 32*64*64)}
	var got [][]float32
	one := newShippedShards(t, layer)[2]
	for range 2 {
		w := coded.Tensor{Shape: []int{64, 64, 3, 3}, Data: normal(rng, 64*64*9)}
		for p := coded.Forward; p <= coded.Backward; p++ {
			a := shard.Slots(nil, encodeFactor(t, c, newCode(t, spec), p, shard.FactorA, x))[2]
			b := shard.Slots(nil, encodeFactor(t, c, newCode(t, spec), p, shard.FactorB, w))[2]
			for i, s := range []coded.Shard{one, newShippedShards(t, layer)[2]} {
				y, err := s.(coded.PairShard).MultiplyPair(p, a, b, 0)
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, slices.Clone(y.Data)); i == 1 && difference(t, got[len(got)-2], got[len(got)-1]) > 1e-6 {
					t.Errorf("%s product differs from that of a shard that has not had other weights", p)
				}
			}
		}
	}
}
