package nn_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// The first layer's weights live in coded form on six workers, here in this
// process, of which any four answer each product.
func ExampleResident() {
	workers := &nn.Resident{
		Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(7)}),
		Code:     coded.Spec{Name: "trigonometric", N: 6, K: 4},
		Chunks:   2,
	}
	rng := rand.New(rand.NewPCG(1, 2))
	model := nn.Sequential{
		nn.NewLinear(rng, 16, 32, nn.On(workers)), nn.ReLU{},
		nn.NewLinear(rng, 32, 2),
	}
	ctx := context.Background()
	if err := nn.Place(ctx, model, nil); err != nil {
		fmt.Println(err)
		return
	}
	net, err := nn.NewNetwork(model, []int{16}, nn.Config{Threads: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer net.Close()

	// The label of a sample is the sign of its first number.
	x, labels := make([]float32, 64*16), make([]int32, 64)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		if x[i*16] > 0 {
			labels[i] = 1
		}
	}
	for step := 1; step <= 60; step++ {
		if _, _, err := net.Train(ctx, step, x, labels); err != nil {
			fmt.Println(err)
			return
		}
		for _, p := range net.Params() {
			for i, g := range p.Grad { // nil for the placed weight
				p.Value.Data[i] -= 0.5 * g
			}
		}
		if err := nn.UpdatePlaced(ctx, model, coded.Update{Step: step, LR: 0.5, Scale: 1}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := nn.Sync(ctx, model); err != nil { // evaluation uses the local weights
		fmt.Println(err)
		return
	}
	_, correct, err := net.Evaluate(ctx, x, labels)
	fmt.Println(correct, "of", len(labels), err)
	// Output: 64 of 64 <nil>
}
