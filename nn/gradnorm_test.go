package nn_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn"
	"github.com/coda-ml/coda/nn/shard"
)

// newNormBench places a model on an executor and has its network keep norms.
func newNormBench(t *testing.T, model nn.Sequential, in ...int) *bench {
	t.Helper()
	n, err := nn.NewNetwork(model, in, nn.Config{Threads: 1, RemoteNorms: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := nn.Place(t.Context(), model, nil); err != nil {
		t.Fatal(err)
	}
	return &bench{n, model}
}

// compareNorms runs a step of some parts on both networks and compares the norms of
// the gradients of all layers that are placed.
func compareNorms(t *testing.T, local, placed *bench, step int, batches []int, inputs int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(step), 9))
	for i, batch := range batches {
		x, labels := data(rng, batch, inputs, 7)
		for _, b := range []*bench{local, placed} {
			run := b.Train
			if i > 0 {
				run = b.Accumulate
			}
			if _, _, err := run(t.Context(), step, x, labels); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := nn.UpdatePlaced(t.Context(), placed.model, coded.Update{Step: step}); err != nil {
		t.Fatal(err)
	}
	remote := 0
	for _, p := range placed.Params() {
		if !p.Remote {
			continue
		}
		remote++
		got, err := placed.SumSquares(p.Param)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, v := range local.param(t, p.Name).Grad {
			want += float64(v) * float64(v)
		}
		if !(math.Abs(got-want) <= 1e-5*want) || want == 0 {
			t.Errorf("step %d, batches %v: squares of the gradient of %s sum to %v, those of the local layer to %v", step, batches, p.Name, got, want)
		}
	}
	if remote == 0 {
		t.Error("nothing is placed")
	}
}

// The norm of a gradient that only the workers have is that of the local one: from the
// products of few samples and from the gradient, over parts and over batches of any size.
func TestSumSquaresOfRemoteGradients(t *testing.T) {
	onWorkers := func() *nn.Resident {
		return &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{Survivors: shard.RandomSurvivors(3)}), Code: trigonometric(6, 4), Chunks: 2}
	}
	r := onWorkers()
	linear := newNormBench(t, mlp(4, sizes, map[int]nn.Placement{0: r, 1: r, 2: r}), sizes[0])
	conv := newNormBench(t, convModel(4, onWorkers()), convInput...)
	localLinear, localConv := newBench(t, mlp(4, sizes, nil), sizes[0]), newBench(t, convModel(4, nil), convInput...)
	for step, batches := range [][]int{{2}, {64}, {1}, {2, 3, 1}, {40, 40}, {3}} {
		compareNorms(t, localLinear, linear, step+1, batches, sizes[0])
		compareNorms(t, localConv, conv, step+1, batches, 2*8*7)
	}
}

// A part that failed does not count, and may be run again.
func TestSumSquaresAfterFailure(t *testing.T) {
	for _, batches := range [][]int{{3, 2}, {30, 20}} {
		rng := rand.New(rand.NewPCG(1, 9))
		r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
		b := newNormBench(t, convModel(4, r), convInput...)
		local := newBench(t, convModel(4, nil), convInput...)
		last, labels := data(rng, batches[1], 2*8*7, 7)
		last[0] = float32(math.NaN())
		compareNorms(t, local, b, 1, batches[:1], 2*8*7)
		var failed *nn.NonFiniteError
		if _, _, err := b.Accumulate(t.Context(), 2, last, labels); !errors.As(err, &failed) {
			t.Fatalf("error %v, want one of a loss that is not finite", err)
		}
		w := b.param(t, "0.weight")
		got, err := b.SumSquares(w.Param)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for _, v := range local.param(t, "0.weight").Grad {
			want += float64(v) * float64(v)
		}
		if !(math.Abs(got-want) <= 1e-5*want) {
			t.Errorf("%v after a part that failed, want %v", got, want)
		}
	}
}

func TestSumSquaresRefuses(t *testing.T) {
	r := &nn.Resident{Executor: shard.NewLocal(shard.LocalConfig{}), Code: trigonometric(6, 4), Chunks: 2}
	without := newPlaced(t, 1, sizes, r, 0)
	if without.RemoteNorms() {
		t.Error("norms are kept without being asked for")
	}
	_, err := without.SumSquares(without.param(t, "0.weight").Param)
	wantError(t, err, "norm", "RemoteNorms")
	with := newNormBench(t, mlp(1, sizes, map[int]nn.Placement{0: r}), sizes[0])
	x, labels := data(rand.New(rand.NewPCG(1, 1)), 4, sizes[0], 7)
	if _, _, err := with.Train(t.Context(), 1, x, labels); err != nil {
		t.Fatal(err)
	}
	_, err = with.SumSquares(with.param(t, "2.weight").Param)
	wantError(t, err, "[11 13]", "Resident")
}
