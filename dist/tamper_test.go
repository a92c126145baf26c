package dist

import (
	"sync"
	"testing"

	"github.com/coda-ml/coda/coded"
)

// Answers that are lost on their way are made up for by other workers, which
// here have none ready before the first one is lost.
func TestLostAnswers(t *testing.T) {
	noLeaks(t)
	type answer struct {
		ProductInfo
		chunk int
	}
	var a answer // the first one
	lost := make(chan struct{})
	var once sync.Once
	ctx, cancel := bounded()
	defer cancel()
	cl := newCluster(t, CoordinatorConfig{Slots: 6})
	cl.start(0, 2, func(cfg *WorkerConfig) {
		cfg.Tamper = func(i ProductInfo, chunk int, _ coded.Tensor) bool {
			once.Do(func() {
				a = answer{i, chunk}
				close(lost)
			})
			return false
		}
	})
	cl.start(2, 6, func(cfg *WorkerConfig) {
		cfg.Tamper = func(ProductInfo, int, coded.Tensor) bool {
			select {
			case <-lost:
			case <-ctx.Done():
			}
			return true
		}
	})
	m := newFC1()
	cl.place(m)
	cl.train(m, 1, 5)
	receive(t, lost) // the products would not be there else
	if a.Layer != "fc1" || a.Slot > 1 || a.Step != 1 || a.Round == 0 || a.chunk < 0 || a.chunk >= m.layer.Chunks {
		t.Errorf("lost: %+v", a)
	}
}

// Unless answers are verified, a worker that lies is believed: what it adds to a result is in the product.
func TestWrongAnswers(t *testing.T) {
	noLeaks(t)
	const lie = 100
	cl := newCluster(t, CoordinatorConfig{Slots: 1})
	cl.start(0, 1, func(cfg *WorkerConfig) {
		cfg.Tamper = func(i ProductInfo, _ int, y coded.Tensor) bool {
			if i.Step == 2 {
				y.Data[0] += lie
			}
			return true
		}
	})
	m := newToyModel(toyLayer("fc1", coded.Spec{Name: "uncoded", N: 1, K: 1}, 1, 4, 4), 1)
	cl.place(m)
	for step := 1; step <= 3; step++ {
		x := m.operand(coded.Forward)
		r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "fc1", Product: coded.Forward, Step: step, Operand: x})
		if err != nil {
			t.Fatal(err)
		}
		answers, err := r.Wait(cl.ctx())
		if err != nil {
			t.Fatal(err)
		}
		y := answers[0][0].Result.Data
		for i, want := range m.want(coded.Forward, x) {
			if i == 0 && step == 2 {
				want += lie
			}
			if d := float64(y[i]) - want; d > 1e-4 || d < -1e-4 {
				t.Errorf("step %d: value %d is %g, want %g", step, i, y[i], want)
			}
		}
		r.Release()
	}
}
