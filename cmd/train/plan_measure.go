package main

import (
	"context"
	"errors"
	"time"

	"github.com/coda-ml/coda/dist/plan"
	"github.com/coda-ml/coda/internal/kernel"
)

// measure puts what it measures into a question: the local steps of the model and
// its layers on this machine, and the cluster.
func (p *planCmd) measure(ctx context.Context, r *run, q *plan.Question) error {
	here, err := measureLocal(ctx, r.Threads)
	if err != nil {
		return err
	}
	if p.Local == 0 {
		q.Machines.Local = here
		if err := measureLayers(ctx, r, q); err != nil {
			return err
		}
	}
	if p.Workers == 0 && len(p.Join) == 0 {
		return nil
	}
	if q.Machines.Combine, err = measureCombine(ctx, r.Threads); err != nil {
		return err
	}
	return p.probe(ctx, &q.Machines)
}

// repeats is how often what is measured is done, after once to warm up.
const repeats = 7

// medianSeconds is the median time of f.
func medianSeconds(ctx context.Context, f func() error) (float64, error) {
	var times []float64
	for i := range repeats + 1 {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, time.Since(began).Seconds())
		}
	}
	return median(times), nil
}

// measureLocal is the speed of this process, flop/s, by a product of 512^3.
func measureLocal(ctx context.Context, threads int) (float64, error) {
	const n = 512
	pool := kernel.NewPool(threads)
	defer pool.Close()
	seconds, err := gemmSeconds(ctx, pool, n, n, n)
	return 2 * n * n * n / seconds, err
}

// measureCombine is the speed of this process's encoding, bytes/s read and written, on
// blocks of the size that layers have.
func measureCombine(ctx context.Context, threads int) (float64, error) {
	pool := kernel.NewPool(threads)
	defer pool.Close()
	const rows = 768 // of 4 KiB
	c, err := newCombineBench(6, 4, rows, pool)
	if err != nil {
		return 0, err
	}
	seconds, err := medianSeconds(ctx, c.encode())
	return 4 * float64(len(c.x.Data)+len(c.blocks)*len(c.blocks[0].Data)) / seconds, err
}

func gemmSeconds(ctx context.Context, pool *kernel.Pool, m, n, k int) (float64, error) {
	rng := newRand(3)
	x, y, z := randomSlice(rng, m*k), randomSlice(rng, k*n), make([]float32, m*n)
	return medianSeconds(ctx, func() error {
		kernel.Gemm(pool, false, false, m, n, k, 1, x, k, y, n, 0, z, n)
		return nil
	})
}

// convolutionsPart is the part of a step beside the linear layers that the
// convolutions take; the rest is normalisation, pooling and the like.
const convolutionsPart = 0.7

// measureLayers times a step of the model as it is on this machine, and the
// products of its linear layers. What is left is divided over the convolutions by
// their flops, but for a part that is theirs in no placement.
func measureLayers(ctx context.Context, r *run, q *plan.Question) (err error) {
	steps, err := newModelSteps(r.model, r.train.Shape, r.train.Classes, r.Batch, r.Threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, steps.network.Close()) }()
	q.Rest, err = medianSeconds(ctx, func() error { return steps.train(ctx) })
	if err != nil {
		return err
	}
	pool := kernel.NewPool(r.Threads)
	defer pool.Close()
	var flops float64
	for i := range q.Products {
		l := &q.Products[i]
		if l.Kind != plan.Linear {
			flops += l.Flops
			continue
		}
		if l.Seconds, err = linearSeconds(ctx, pool, *l, r.Batch, q.Machines); err != nil {
			return err
		}
		q.Rest = max(0, q.Rest-l.Seconds)
	}
	if flops > 0 {
		convolutions := convolutionsPart * q.Rest
		for i := range q.Products {
			if l := &q.Products[i]; l.Kind != plan.Linear {
				l.Seconds = convolutions * l.Flops / flops
			}
		}
		q.Rest -= convolutions
	}
	return nil
}

// linearSeconds is the time of a linear layer's products and update.
func linearSeconds(ctx context.Context, pool *kernel.Pool, l plan.Product, batch int, m plan.Machines) (float64, error) {
	shapes := [][3]int{{batch, l.Out, l.In}, {l.Out, l.In, batch}, {batch, l.In, l.Out}}
	if l.First {
		shapes = shapes[:2]
	}
	sum := plan.UpdateSeconds(l.Weights, m.Here)
	for _, s := range shapes {
		seconds, err := gemmSeconds(ctx, pool, s[0], s[1], s[2])
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	return sum, nil
}
