package main

import (
	"context"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
)

// combineRow is the encoding of all n coded blocks of a matrix of so many megabytes
// (2^20 bytes) and its decoding from k of them. Bytes that are read and bytes that
// are written count once each, those of the copy as well.
type combineRow struct {
	System    string  `json:"system"`
	Bench     string  `json:"bench"`
	N         int     `json:"n"`
	K         int     `json:"k"`
	MBytes    int     `json:"mbytes"`
	Threads   int     `json:"threads"`
	EncodeGBs float64 `json:"encode_gbs"`
	DecodeGBs float64 `json:"decode_gbs"`
	CopyGBs   float64 `json:"copy_gbs"`
}

// combineBench is a code with a matrix of so many rows of 1024 columns.
type combineBench struct {
	code     *coded.Code
	combiner coded.Combiner
	x, back  coded.Tensor
	blocks   []coded.Tensor // the coded ones
	cut      coded.Partition
}

func benchCombine(ctx context.Context, b *benchCmd, out rows) error {
	pool := kernel.NewPool(b.Threads)
	defer pool.Close()
	const mbytes = 64
	for _, nk := range [][2]int{{8, 6}, {20, 16}} {
		c, err := newCombineBench(nk[0], nk[1], mbytes<<8, pool)
		if err != nil {
			return err
		}
		row, err := c.measure(ctx, b)
		if err != nil {
			return err
		}
		row.MBytes = mbytes
		if err := out(row); err != nil {
			return err
		}
	}
	return nil
}

func newCombineBench(n, k, height int, pool *kernel.Pool) (*combineBench, error) {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: n, K: k})
	if err != nil {
		return nil, err
	}
	const width = 1024
	c := &combineBench{
		code: code, combiner: coded.Combiner{Pool: pool}, cut: coded.Blocks(height, k),
		x: coded.NewTensor(height, width), back: coded.NewTensor(height, width),
	}
	copy(c.x.Data, randomSlice(rand.New(rand.NewPCG(1, 4)), height*width))
	for range n {
		c.blocks = append(c.blocks, coded.NewTensor(c.cut.Size, width))
	}
	return c, nil
}

func (c *combineBench) measure(ctx context.Context, b *benchCmd) (row combineRow, err error) {
	n, k := c.code.N(), c.code.K()
	row = combineRow{System: "coda", Bench: "combine", N: n, K: k, Threads: b.Threads}
	whole, block := 4e-9*float64(len(c.x.Data)), 4e-9*float64(len(c.blocks[0].Data))
	if row.CopyGBs, err = b.rate(ctx, 2*whole, c.copy); err != nil {
		return row, err
	}
	if row.EncodeGBs, err = b.rate(ctx, whole+float64(n)*block, c.encode()); err != nil {
		return row, err
	}
	decode, err := c.decode()
	if err != nil {
		return row, err
	}
	row.DecodeGBs, err = b.rate(ctx, float64(k)*block+whole, decode)
	return row, err
}

// copy copies the matrix in as many pieces as there are goroutines.
func (c *combineBench) copy() error {
	pieces := coded.Blocks(len(c.x.Data), c.combiner.Pool.Threads())
	c.combiner.Pool.Run(pieces.K, func(i int) {
		lo, hi := pieces.Bounds(i)
		copy(c.back.Data[lo:hi], c.x.Data[lo:hi])
	})
	return nil
}

func (c *combineBench) encode() func() error {
	var g [][]float64
	for slot := range c.blocks {
		g = append(g, c.code.Row(slot))
	}
	return func() error { return c.combiner.EncodeRows(c.blocks, g, c.x, c.cut) }
}

// decode decodes from the last k coded blocks.
func (c *combineBench) decode() (func() error, error) {
	n, k := c.code.N(), c.code.K()
	have := make([]int, k)
	for i := range have {
		have[i] = n - k + i
	}
	w, err := coded.NewDecoder(c.code, coded.DecoderConfig{}).Weights(have)
	if err != nil {
		return nil, err
	}
	return func() error { return c.combiner.DecodeRows(c.back, w.D, c.blocks[n-k:], c.cut, 0) }, nil
}
