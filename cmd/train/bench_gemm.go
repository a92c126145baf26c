package main

import (
	"context"
	"math/rand/v2"

	"github.com/coda-ml/coda/internal/kernel"
)

// gemmRow is one product C = A B with A m x k and B k x n.
type gemmRow struct {
	System  string  `json:"system"`
	Bench   string  `json:"bench"`
	M       int     `json:"m"`
	N       int     `json:"n"`
	K       int     `json:"k"`
	Threads int     `json:"threads"`
	GFlops  float64 `json:"gflops"`
}

// gemmShapes are the products that are measured, m, n, k: cubes, and products
// of convolution and linear layers.
var gemmShapes = [][3]int{
	{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048},
	{64, 4096, 576}, {32, 65536, 27}, {64, 625, 1152}, {64, 10, 100},
}

func benchGemm(ctx context.Context, b *benchCmd, out rows) error {
	pool := kernel.NewPool(b.Threads)
	defer pool.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range gemmShapes {
		m, n, k := s[0], s[1], s[2]
		x, y, z := randomSlice(rng, m*k), randomSlice(rng, k*n), make([]float32, m*n)
		gflops, err := b.rate(ctx, 2e-9*float64(m)*float64(n)*float64(k), func() error {
			kernel.Gemm(pool, false, false, m, n, k, 1, x, k, y, n, 0, z, n)
			return nil
		})
		if err != nil {
			return err
		}
		if err := out(gemmRow{System: "coda", Bench: "gemm", M: m, N: n, K: k, Threads: b.Threads, GFlops: gflops}); err != nil {
			return err
		}
	}
	return nil
}

// randomSlice returns n numbers drawn evenly from [0, 1).
func randomSlice(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = rng.Float32()
	}
	return x
}
