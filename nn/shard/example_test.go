package shard_test

import (
	"context"
	"fmt"
	"math"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// A layer of two inputs and three outputs over three slots, of which two answer.
func Example() {
	config := shard.LinearConfig{In: 2, Out: 3}
	raw, err := config.Marshal()
	if err != nil {
		fmt.Println(err)
		return
	}
	layer := coded.Layer{
		Name: "fc1", Kind: shard.KindLinear, Config: raw, Chunks: 1,
		Code: coded.Spec{Name: "trigonometric", N: 3, K: 2},
	}
	code, err := coded.New(layer.Code)
	if err != nil {
		fmt.Println(err)
		return
	}
	weight := []float32{
		1, 0,
		0, 1,
		1, 1,
	}
	ctx := context.Background()
	local := shard.NewLocal(shard.LocalConfig{Survivors: func(*coded.Code, coded.Round, int) []int { return []int{0, 2} }})
	err = local.Place(ctx, layer, func(slot int) ([]coded.Tensor, error) {
		return config.Encode(weight, nil, code, slot)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	states, err := local.Fetch(ctx, "fc1")
	if err != nil {
		fmt.Println(err)
		return
	}
	decoded, _, err := config.Decode(states, coded.NewDecoder(code, coded.DecoderConfig{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range states {
		fmt.Println("slot", s.Slot, "holds", s.State[0].Shape)
	}
	for o := range config.Out {
		fmt.Println(math.Abs(math.Round(float64(decoded[2*o]))), math.Abs(math.Round(float64(decoded[2*o+1]))))
	}
	// Output:
	// slot 0 holds [2 2]
	// slot 2 holds [2 2]
	// 1 0
	// 0 1
	// 1 1
}
