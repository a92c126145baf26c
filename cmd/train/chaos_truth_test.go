package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// The truth and a cluster in this process, whose answers are random sufficient
// sets, agree over many updates; and a truth that is told otherwise does not.
func TestTruth(t *testing.T) {
	ctx, rng := t.Context(), rand.New(rand.NewPCG(1, 2))
	l, err := newTruth("fc1", 83, 60, coded.Spec{Name: "trigonometric", N: 8, K: 5}, rng)
	if err != nil {
		t.Fatal(err)
	}
	local := shard.NewLocal(shard.LocalConfig{})
	if err := l.place(ctx, local); err != nil {
		t.Fatal(err)
	}
	product := func(p coded.Product, step int) float64 {
		t.Helper()
		x := l.draw(p, rng, true)
		pending, err := local.Start(ctx, coded.Round{Layer: "fc1", Product: p, Step: step, Operand: x, Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		defer pending.Release()
		answers, err := pending.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.check(p, x, answers)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const steps = 60
	for step := 1; step <= steps; step++ {
		for _, p := range []coded.Product{coded.Forward, coded.Backward} {
			if d := product(p, step); d > chaosTolerance/10 {
				t.Errorf("step %d: %s product differs by %g", step, p, d)
			}
		}
		u := chaosUpdate
		u.Step = step
		if err := local.Update(ctx, u); err != nil {
			t.Fatal(err)
		}
		l.update(u)
	}
	if d, err := l.fetch(ctx, local); err != nil || d > chaosTolerance/10 {
		t.Errorf("weights differ by %g: %v", d, err)
	}
	l.w[7] += 0.01 // of values up to about 1
	if d := product(coded.Forward, steps+1); d < chaosTolerance {
		t.Errorf("one weight is wrong: the product differs by %g, want more than %g", d, chaosTolerance)
	}
	if d, err := l.fetch(ctx, local); err != nil || d < chaosTolerance {
		t.Errorf("one weight is wrong: the weights differ by %g, %v; want more than %g", d, err, chaosTolerance)
	}
}

func TestDistance(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		got  []float32
		want []float64
		d    float64
	}{
		{[]float32{1, -4}, []float64{1, -4}, 0},
		{[]float32{1, -4}, []float64{2, -4}, 0.25},
		{[]float32{0, 0}, []float64{0, 0}, 0},
		{[]float32{0, 1}, []float64{0, 0}, math.Inf(1)},
		{[]float32{nan, 1}, []float64{1, 1}, math.Inf(1)},
	} {
		if d := distance(c.got, c.want); d != c.d {
			t.Errorf("distance of %v from %v is %g, want %g", c.got, c.want, d, c.d)
		}
	}
}
