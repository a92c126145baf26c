package shard_test

import (
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// What a worker does in a step of a 4096x4096 layer, (8,6), batch 64: its whole
// share of both products, or its update with the gradient before it or
// together with it.
func BenchmarkShard(b *testing.B) {
	const features, batch = 4096, 64
	config := shard.LinearConfig{In: features, Out: features, Backward: true}
	s, err := shard.NewLinear(newLayer(b, "fc", config, trigonometric(8, 6), 8), 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	x := coded.NewTensor(batch, features)
	report := func(b *testing.B, flops float64) {
		b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	}
	for _, p := range []coded.Product{coded.Forward, coded.Backward} {
		b.Run(p.String()+"/4096x4096/batch=64/chunks=8", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for chunk := range 8 {
					if _, err := s.Multiply(p, x, chunk); err != nil {
						b.Fatal(err)
					}
				}
			}
			report(b, s.Flops(p, x.Shape))
		})
	}
	step := 0
	for name, accumulate := range map[string]func(x, dy coded.Tensor) error{"before": s.Accumulate, "together": s.Defer} {
		b.Run("update/"+name+"/4096x4096/batch=64", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				step++
				if err := accumulate(x, x); err != nil {
					b.Fatal(err)
				}
				if err := s.Apply(coded.Update{Step: step, LR: 0.1, Momentum: 0.9, Scale: 1}); err != nil {
					b.Fatal(err)
				}
			}
			report(b, s.UpdateFlops(x.Shape))
		})
	}
}
