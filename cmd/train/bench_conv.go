package main

import (
	"context"

	"github.com/coda-ml/coda/internal/kernel"
)

// convRow is one square convolution with padding kernel/2 and no bias.
type convRow struct {
	System            string  `json:"system"`
	Bench             string  `json:"bench"`
	N                 int     `json:"n"`
	CI                int     `json:"ci"`
	HW                int     `json:"hw"`
	CO                int     `json:"co"`
	Kernel            int     `json:"kernel"`
	Threads           int     `json:"threads"`
	ForwardMS         float64 `json:"forward_ms"`
	ForwardBackwardMS float64 `json:"forward_backward_ms"` // with the gradients of both operands
}

// convShapes are the convolutions that are measured: n, ci, hw, co, kernel.
var convShapes = [][5]int{
	{8, 64, 32, 64, 3}, {128, 16, 32, 16, 3}, {128, 32, 16, 32, 3},
	{128, 64, 8, 64, 3}, {64, 1, 28, 32, 3}, {64, 256, 8, 256, 3},
}

func benchConv(ctx context.Context, b *benchCmd, out rows) error {
	pool := kernel.NewPool(b.Threads)
	defer pool.Close()
	for _, s := range convShapes {
		row := convRow{System: "coda", Bench: "conv", N: s[0], CI: s[1], HW: s[2], CO: s[3], Kernel: s[4], Threads: b.Threads}
		if err := b.conv(ctx, pool, &row); err != nil {
			return err
		}
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

func (b *benchCmd) conv(ctx context.Context, pool *kernel.Pool, row *convRow) error {
	g := kernel.Conv{
		N: row.N, CI: row.CI, H: row.HW, W: row.HW, CO: row.CO, KH: row.Kernel, KW: row.Kernel,
		StrideH: 1, StrideW: 1, PadH: row.Kernel / 2, PadW: row.Kernel / 2, DilH: 1, DilW: 1, Groups: 1,
	}
	if err := g.Validate(); err != nil {
		return err
	}
	rng := newRand(3)
	x, w, dy := randomSlice(rng, g.InLen()), randomSlice(rng, g.WeightLen()), randomSlice(rng, g.OutLen())
	y, dx, dw := make([]float32, g.OutLen()), make([]float32, g.InLen()), make([]float32, g.WeightLen())
	var ws kernel.Workspace
	forward, err := b.rate(ctx, 1, func() error {
		kernel.ConvForward(pool, g, x, w, nil, y, false, &ws)
		return nil
	})
	if err != nil {
		return err
	}
	both, err := b.rate(ctx, 1, func() error {
		kernel.ConvForward(pool, g, x, w, nil, y, false, &ws)
		kernel.ConvBackwardInput(pool, g, dy, w, dx, &ws)
		kernel.ConvBackwardParams(pool, g, x, dy, dw, nil, &ws)
		return nil
	})
	if err != nil {
		return err
	}
	row.ForwardMS, row.ForwardBackwardMS = 1000/forward, 1000/both
	return nil
}
