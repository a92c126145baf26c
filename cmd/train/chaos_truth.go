package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// chaosTolerance is how far a product or a weight may be from the truth, over
// the largest value of the truth.
const chaosTolerance = 1e-4

// What the products of a chaos run are trained with. The decay makes what
// rounding has done long ago die away.
var chaosUpdate = coded.Update{LR: 0.05, Momentum: 0.9, Decay: 0.02, Scale: 1. / chaosBatch}

const chaosBatch = 16

// truth is a resident layer as it should be: its weight and momentum in
// float64, trained in plain loops without any code.
type truth struct {
	placedLinear
	forward, backward *shard.ProductDecoder
	w, v              []float64 // [out, in]
	x, dy             []float32 // the operands of the step under way
}

func newTruth(name string, in, out int, spec coded.Spec, rng *rand.Rand) (*truth, error) {
	layer, err := newPlacedLinear(name, shard.LinearConfig{In: in, Out: out, Backward: true}, spec, chunksPerRound)
	if err != nil {
		return nil, err
	}
	t := &truth{placedLinear: layer}
	t.forward, t.backward = t.product(coded.Forward), t.product(coded.Backward)
	t.w, t.v = make([]float64, in*out), make([]float64, in*out)
	for i := range t.w {
		t.w[i] = float64(float32(rng.Float64() - 0.5))
	}
	return t, nil
}

// place puts the layer on the cluster.
func (t *truth) place(ctx context.Context, to coded.Executor) error {
	weight := make([]float32, len(t.w))
	for i, w := range t.w {
		weight[i] = float32(w)
	}
	return t.placedLinear.place(ctx, to, weight)
}

// sides are the columns of a product's operand and of its result.
func (t *truth) sides(p coded.Product) (operand, result int) {
	if p == coded.Backward {
		return t.config.Out, t.config.In
	}
	return t.config.In, t.config.Out
}

// draw gives a product an operand; those of a training step are kept for its
// update.
func (t *truth) draw(p coded.Product, rng *rand.Rand, keep bool) coded.Tensor {
	cols, _ := t.sides(p)
	x := coded.NewTensor(chaosBatch, cols)
	for i := range x.Data {
		x.Data[i] = float32(2*rng.Float64() - 1)
	}
	switch {
	case keep && p == coded.Forward:
		t.x = x.Data
	case keep:
		t.dy = x.Data
	}
	return x
}

// check decodes the answers of a product and returns how far it is from the
// truth.
func (t *truth) check(p coded.Product, x coded.Tensor, answers [][]coded.Answer) (float64, error) {
	decoder := t.forward
	if p == coded.Backward {
		decoder = t.backward
	}
	inner, cols := t.sides(p)
	got := make([]float32, chaosBatch*cols)
	if err := decoder.Decode(coded.Tensor{Shape: []int{chaosBatch, cols}, Data: got}, x.Shape, answers); err != nil {
		return 0, err
	}
	want := make([]float64, len(got))
	for row := range chaosBatch {
		for i, v := range x.Data[row*inner : (row+1)*inner] {
			for j := range cols {
				at := j*t.config.In + i
				if p == coded.Backward {
					at = i*t.config.In + j
				}
				want[row*cols+j] += float64(v) * t.w[at]
			}
		}
	}
	return distance(got, want), nil
}

// update trains the truth with the operands of the step.
func (t *truth) update(u coded.Update) {
	for o := range t.config.Out {
		for i := range t.config.In {
			g := 0.0
			for row := range chaosBatch {
				g += float64(t.dy[row*t.config.Out+o]) * float64(t.x[row*t.config.In+i])
			}
			at := o*t.config.In + i
			t.v[at] = u.Momentum*t.v[at] + u.Scale*g + u.Decay*t.w[at]
			t.w[at] -= u.LR * t.v[at]
		}
	}
}

// fetch decodes the layer's weight and momentum from the workers, as for a
// checkpoint, and returns how far they are from the truth.
func (t *truth) fetch(ctx context.Context, from coded.Executor) (float64, error) {
	states, err := from.Fetch(ctx, t.layer.Name)
	if err != nil {
		return 0, err
	}
	w, v, err := t.config.Decode(states, t.decoder)
	if err != nil {
		return 0, fmt.Errorf("layer %s: %w", t.layer.Name, err)
	}
	return max(distance(w, t.w), distance(v, t.v)), nil
}

// distance is the largest difference over the largest value that was wanted.
// What is no number is infinitely far.
func distance(got []float32, want []float64) float64 {
	var worst, size float64
	for i, v := range want {
		d := math.Abs(float64(got[i]) - v)
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		worst, size = max(worst, d), max(size, math.Abs(v))
	}
	if worst == 0 {
		return 0
	}
	return worst / size
}
