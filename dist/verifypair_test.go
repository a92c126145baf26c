package dist

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coda-ml/coda/coded"
)

const pairKind = "pair"

// pairShard holds nothing and multiplies the numbers that it is sent.
type pairShard struct{}

func (pairShard) Multiply(coded.Product, coded.Tensor, int) (coded.Tensor, error) {
	return coded.NewTensor(1), nil
}

func (pairShard) MultiplyPair(_ coded.Product, a, b coded.Tensor, _ int) (coded.Tensor, error) {
	return coded.Tensor{Shape: []int{1}, Data: []float32{a.Data[0] * b.Data[0]}}, nil
}

func (pairShard) Accumulate(_, _ coded.Tensor) error  { return nil }
func (pairShard) Apply(coded.Update) error            { return nil }
func (pairShard) State() []coded.Tensor               { return nil }
func (pairShard) SetState(state []coded.Tensor) error { return nil }

// pairFollower multiplies too.
type pairFollower struct{ pairShard }

func (pairFollower) Reset([]coded.ShardState) error       { return nil }
func (pairFollower) CheckState(int, []coded.Tensor) error { return nil }

func (pairFollower) Check(_ coded.Product, _, _ int, operands []coded.Tensor, result coded.Tensor) (float64, error) {
	want := coded.Tensor{Shape: []int{1}, Data: []float32{operands[0].Data[0] * operands[1].Data[0]}}
	return 0, alike("product", want, result)
}

// pairRound multiplies slot+1 by step at every slot, and returns whose results were
// used; these must be right.
func (cl *cluster) pairRound(step int) (slots []int) {
	cl.t.Helper()
	var operands [][]coded.Tensor
	for slot := range 6 {
		operands = append(operands, []coded.Tensor{
			{Shape: []int{1}, Data: []float32{float32(slot + 1)}}, {Shape: []int{1}, Data: []float32{float32(step)}},
		})
	}
	r, err := cl.c.Start(cl.ctx(), coded.Round{Layer: "pairs", Product: coded.Gradient, Step: step, Slots: operands})
	if err != nil {
		cl.t.Fatal(err)
	}
	defer r.Release()
	answers, err := r.Wait(cl.ctx())
	if err != nil {
		cl.t.Fatal(err)
	}
	for _, a := range answers[0] {
		slots = append(slots, a.Slot)
		if got := a.Result.Data[0]; got != float32((a.Slot+1)*step) {
			cl.t.Errorf("step %d: slot %d: %g was used", step, a.Slot, got)
		}
	}
	return slots
}

// Who lies about a product of two operands is found, left alone, and given the layer
// again, which is nothing but leave to compute.
func TestLiarOfPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verify := &Verification{Pause: time.Second, Followers: map[string]coded.FollowerFactory{
			pairKind: func(coded.Layer, *rand.Rand) (coded.Follower, error) { return pairFollower{}, nil },
		}}
		cl := newCluster(t, CoordinatorConfig{Slots: 6, Verify: verify})
		var lying atomic.Bool
		lying.Store(true)
		pairs := func(w *WorkerConfig) {
			w.Handlers = map[string]coded.Factory{pairKind: func(coded.Layer, int) (coded.Shard, error) { return pairShard{}, nil }}
		}
		cl.start(0, 1, pairs, liar(&lying))
		cl.start(1, 6, pairs)
		layer := coded.Layer{Name: "pairs", Kind: pairKind, Chunks: 1, Code: coded.Spec{Name: "trigonometric-matdot", N: 6, P: 3}}
		if err := cl.c.Place(cl.ctx(), layer, func(int) ([]coded.Tensor, error) { return nil, nil }); err != nil {
			t.Fatal(err)
		}
		step := 1
		for ; cl.c.Stats().Refused == 0 && step < 2000; step++ {
			cl.pairRound(step)
		}
		cl.await("worker-1", StateQuarantined)
		lying.Store(false)
		ctx, cancel := context.WithTimeout(cl.ctx(), 10*time.Second)
		defer cancel()
		if err := cl.c.await(ctx, func() bool { return slices.Contains(cl.c.fresh("pairs", cl.c.version), 0) }); err != nil {
			t.Fatalf("worker-1 is not given the layer again: %v", err)
		}
		for most := step + 100; !slices.Contains(cl.pairRound(step), 0); step++ {
			if step == most {
				t.Fatal("worker-1 is never used again")
			}
		}
		if n := cl.c.Stats().Refused; n != 1 {
			t.Errorf("%d answers were refused, want 1", n)
		}
	})
}
