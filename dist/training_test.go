package dist

import (
	"cmp"
	"fmt"

	"github.com/coda-ml/coda/coded"
)

// What a test does with a cluster: it trains toy models on it, and compares
// every result with the truth.

func (cl *cluster) place(m *toyModel) {
	cl.t.Helper()
	if err := cl.c.Place(cl.ctx(), m.layer, m.state); err != nil {
		cl.t.Fatal(err)
	}
}

// product runs a round and returns the largest relative error of what it gives.
func (cl *cluster) product(m *toyModel, p coded.Product, step int, keep bool) (x coded.Tensor, y []float32, err error) {
	cl.t.Helper()
	ctx, cancel := bounded()
	defer cancel()
	x = m.operand(p)
	r, err := cl.c.Start(ctx, coded.Round{Layer: m.layer.Name, Product: p, Step: step, Operand: x, Keep: keep})
	if err != nil {
		return x, nil, err
	}
	defer r.Release()
	answers, err := r.Wait(ctx)
	if err != nil {
		return x, nil, err
	}
	y, err = m.decode(p, answers, x.Shape[0])
	if err != nil {
		cl.t.Fatal(err)
	}
	if d, most := distance(y, m.want(p, x)), cmp.Or(m.tolerance, toyTolerance); d > most {
		cl.t.Fatalf("layer %s: step %d: %s product differs by %g, tolerance %g", m.layer.Name, step, p, d, most)
	}
	return x, y, nil
}

// toyTolerance is for products of float32 shards after some tens of updates:
// rounding of about 1e-7 times a condition number of about 10, with a margin.
const toyTolerance = 2e-5

// train makes the steps first..last and checks every product. It returns what
// was decoded.
func (cl *cluster) train(m *toyModel, first, last int) (ys [][]float32) {
	cl.t.Helper()
	for step := first; step <= last; step++ {
		got, err := cl.trainStep(m, step)
		if err != nil {
			cl.t.Fatal(err)
		}
		ys = append(ys, got...)
	}
	return ys
}

func (cl *cluster) trainStep(m *toyModel, step int) ([][]float32, error) {
	cl.t.Helper()
	const lr = 0.05
	x, y, err := cl.product(m, coded.Forward, step, true)
	if err != nil {
		return nil, err
	}
	dy, dx, err := cl.product(m, coded.Backward, step, true)
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded()
	defer cancel()
	if err := cl.c.Update(ctx, coded.Update{Step: step, LR: lr, Scale: 1}); err != nil {
		return nil, err
	}
	m.step(x, dy, lr)
	return [][]float32{y, dx}, nil
}

// fetched compares the fetched states with those of the truth.
func (cl *cluster) fetched(m *toyModel) error {
	states, err := cl.c.Fetch(cl.ctx(), m.layer.Name)
	if err != nil {
		return err
	}
	if len(states) < m.code.Threshold() {
		return fmt.Errorf("states of %d slots, want at least %d", len(states), m.code.Threshold())
	}
	for i, s := range states {
		if i > 0 && s.Slot <= states[i-1].Slot {
			return fmt.Errorf("states of slots %d and %d are not in order", states[i-1].Slot, s.Slot)
		}
		for j, want := range toyState(m.code, s.Slot, m.in, m.out, m.w) {
			var f []float64
			for _, v := range want.Data {
				f = append(f, float64(v))
			}
			if d := distance(s.State[j].Data, f); d > toyTolerance {
				return fmt.Errorf("tensor %d of slot %d differs by %g, tolerance %g", j, s.Slot, d, toyTolerance)
			}
		}
	}
	return nil
}
