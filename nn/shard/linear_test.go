package shard_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/nn/shard"
)

// Both products are decoded from every sufficient set of every code, also where
// k divides neither the features nor the chunks the blocks, and where whole
// blocks are padding.
func TestProductsFromEverySet(t *testing.T) {
	cases := []struct {
		code    coded.Spec
		in, out int
		chunks  int
	}{
		{trigonometric(6, 4), 8, 12, 1},
		{trigonometric(6, 4), 10, 7, 2},
		{trigonometric(6, 4), 13, 21, 4},
		{trigonometric(5, 3), 3, 3, 1},
		{trigonometric(7, 5), 6, 11, 2}, // 6 in 5 blocks of 2: the last two are padding
		{coded.Spec{Name: "uncoded", N: 3, K: 3}, 7, 8, 2},
		{coded.Spec{Name: "replication", N: 4, K: 2}, 5, 9, 3},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%v/%dx%d", c.code, c.in, c.out), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			config := shard.LinearConfig{In: c.in, Out: c.out, Backward: true}
			layer := newLayer(t, "fc", config, c.code, c.chunks)
			weight := normal(rng, c.in*c.out)
			shards := newShards(t, layer, config, weight, nil)
			for _, batch := range []int{5, 1} {
				x, dy := normal(rng, batch*c.in), normal(rng, batch*c.out)
				y := product(x, false, weight, true, batch, c.in, c.out)
				dx := product(dy, false, weight, false, batch, c.out, c.in)
				tracker := coded.NewTracker(newCode(t, c.code))
				decoded := 0
				for _, set := range everySet(c.code.N, c.code.K) {
					tracker.Reset()
					for _, slot := range set {
						tracker.Add(slot)
					}
					if !tracker.Ready() {
						continue
					}
					decoded++
					if d := difference(t, decodeProduct(t, shards, layer, config, coded.Forward, matrix(batch, c.in, x), set), y); !(d <= 1e-5) {
						t.Errorf("slots %v: Y differs by %.2g of its largest entry", set, d)
					}
					if d := difference(t, decodeProduct(t, shards, layer, config, coded.Backward, matrix(batch, c.out, dy), set), dx); !(d <= 1e-5) {
						t.Errorf("slots %v: dX differs by %.2g of its largest entry", set, d)
					}
				}
				if decoded == 0 {
					t.Fatal("no set was decoded")
				}
			}
		})
	}
}

// A layer that is cut by batch gives the same products, from the rows of each
// chunk alone.
func TestProductsByBatch(t *testing.T) {
	const in, out, batch = 10, 7, 5
	rng := rand.New(rand.NewPCG(1, 5))
	config := shard.LinearConfig{In: in, Out: out, Backward: true}
	layer := newLayer(t, "fc", config, trigonometric(4, 2), 3)
	layer.ByBatch = true
	weight, x, dy := normal(rng, in*out), normal(rng, batch*in), normal(rng, batch*out)
	shards := newShards(t, layer, config, weight, nil)
	for _, set := range everySet(4, 2) {
		y := decodeProduct(t, shards, layer, config, coded.Forward, matrix(batch, in, x), set)
		if d := difference(t, y, product(x, false, weight, true, batch, in, out)); !(d <= 1e-5) {
			t.Errorf("slots %v: Y differs by %.2g of its largest entry", set, d)
		}
		dx := decodeProduct(t, shards, layer, config, coded.Backward, matrix(batch, out, dy), set)
		if d := difference(t, dx, product(dy, false, weight, false, batch, out, in)); !(d <= 1e-5) {
			t.Errorf("slots %v: dX differs by %.2g of its largest entry", set, d)
		}
	}
	rows := layer.Operand(matrix(batch, in, x), 1)
	if r, err := shards[0].Multiply(coded.Forward, rows, 1); err != nil || r.Shape[0] != 2 || r.Shape[1] != 4 {
		t.Errorf("rows 1 and 2 of 5 give a result of shape %v, error %v; want [2 4]", r.Shape, err)
	}
}

// A large product is made of several strips, and can be given up between them.
func TestProductsCanBeStopped(t *testing.T) {
	const batch, in, out = 64, 1024, 500
	rng := rand.New(rand.NewPCG(1, 6))
	config := shard.LinearConfig{In: in, Out: out}
	layer := newLayer(t, "fc", config, coded.Spec{Name: "replication", N: 2, K: 1}, 1)
	weight, x := normal(rng, in*out), matrix(batch, in, normal(rng, batch*in))
	s := newShards(t, layer, config, weight, nil)[1]
	y, err := s.MultiplyUntil(make(chan struct{}), coded.Forward, x, 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := difference(t, y.Data, product(x.Data, false, weight, true, batch, in, out)); !(d <= 1e-5) {
		t.Errorf("Y differs by %.2g of its largest entry", d)
	}
	stop := make(chan struct{})
	close(stop)
	var stopped *coded.StoppedError
	if _, err := s.MultiplyUntil(stop, coded.Forward, x, 0); !errors.As(err, &stopped) || stopped.Done != 0 {
		t.Errorf("error %v of a product that is called off before it begins", err)
	}
}

func TestChunkRangesTile(t *testing.T) {
	for size := 1; size <= 12; size++ {
		for chunks := 1; chunks <= size; chunks++ {
			at := 0
			for c := range chunks {
				lo, hi := shard.ChunkRange(size, chunks, c)
				if lo != at || hi <= lo {
					t.Fatalf("chunk %d of %d of %d rows is [%d,%d), want one from %d on", c, chunks, size, lo, hi, at)
				}
				at = hi
			}
			if at != size {
				t.Fatalf("%d chunks of %d rows end at %d", chunks, size, at)
			}
		}
	}
}

func TestWithoutBackwardKeepsNoSecondCopy(t *testing.T) {
	config := shard.LinearConfig{In: 8, Out: 6}
	s, err := shard.NewLinear(newLayer(t, "fc1", config, trigonometric(6, 4), 2), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.State()); n != 2 {
		t.Errorf("state of %d tensors, want F and its momentum", n)
	}
	_, err = s.Multiply(coded.Backward, coded.NewTensor(1, 6), 0)
	wantError(t, err, "layer fc1, slot 1", "backward", "without")
	if got := s.Flops(coded.Backward, []int{3, 6}); got != 0 {
		t.Errorf("%v flops of a product that it does not have", got)
	}
}

func TestLinearRefuses(t *testing.T) {
	config := shard.LinearConfig{In: 8, Out: 6, Backward: true}
	good := newLayer(t, "net.fc1", config, trigonometric(6, 4), 2)
	with := func(change func(l *coded.Layer)) coded.Layer {
		l := good
		change(&l)
		return l
	}
	for want, l := range map[string]coded.Layer{
		`kind "conv2d"`: with(func(l *coded.Layer) { l.Kind = shard.KindConv2d }),
		"configuration": with(func(l *coded.Layer) { l.Config = []byte{0xc1} }),
		"k must be":     with(func(l *coded.Layer) { l.Code.K = 0 }),
		"3 chunks":      with(func(l *coded.Layer) { l.Chunks = 3 }),
		"stay local":    with(func(l *coded.Layer) { l.Code = trigonometric(9, 7) }),
	} {
		_, err := shard.NewLinear(l, 0, nil)
		wantError(t, err, "layer net.fc1, slot 0", want)
		if s, err := shard.Factories()[shard.KindLinear](l, 0); s != nil || err == nil {
			t.Errorf("factory: shard %v and error %v for a layer with %s", s, err, want)
		}
	}
	for _, slot := range []int{-1, 6} {
		_, err := shard.NewLinear(good, slot, nil)
		wantError(t, err, "net.fc1", fmt.Sprintf("slot %d", slot))
	}
}

func TestOperandsAreChecked(t *testing.T) {
	config := shard.LinearConfig{In: 8, Out: 6, Backward: true}
	s, err := shard.NewLinear(newLayer(t, "fc1", config, trigonometric(6, 4), 2), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []coded.Tensor{
		{}, coded.NewTensor(8), coded.NewTensor(2, 7), coded.NewTensor(2, 4, 2), coded.NewTensor(0, 8),
		{Shape: []int{2, 8}, Data: make([]float32, 15)}, {Shape: []int{-2, 8}}, {Shape: []int{math.MaxInt, 8}, Data: make([]float32, 8)},
	} {
		_, err := s.Multiply(coded.Forward, x, 0)
		wantError(t, err, "layer fc1, slot 3", "want [batch 8]")
		wantError(t, s.Accumulate(x, coded.NewTensor(2, 6)), "layer fc1, slot 3", "want [batch 8]")
	}
	wantError(t, s.Accumulate(coded.NewTensor(2, 8), coded.NewTensor(2, 8)), "dY", "want [batch 6]")
	wantError(t, s.Accumulate(coded.NewTensor(2, 8), coded.NewTensor(3, 6)), "X of 2 rows", "dY of 3")
	for _, chunk := range []int{-1, 2} {
		_, err = s.Multiply(coded.Forward, coded.NewTensor(2, 8), chunk)
		wantError(t, err, fmt.Sprintf("chunk %d", chunk), "0 to 1")
	}
	_, err = s.Multiply(7, coded.NewTensor(2, 8), 0)
	wantError(t, err, "unknown product(7)")
	wantError(t, s.Apply(coded.Update{LR: math.NaN(), Momentum: -1, Decay: math.Inf(1), Scale: -2}),
		"slot 3", "step below 1", "learning rate NaN", "momentum -1", "weight decay +Inf", "scale -2")
	wantError(t, s.SetState(s.State()[:3]), "3 tensors, want 4")
	bad := s.State()
	bad[2] = coded.NewTensor(6, 2)
	wantError(t, s.SetState(bad), "tensor 2", "[6 2]", "want [2 6]")
}

func TestFlops(t *testing.T) {
	config := shard.LinearConfig{In: 8, Out: 6, Backward: true} // blocks of 2 outputs and 2 inputs
	s, err := shard.NewLinear(newLayer(t, "fc1", config, trigonometric(6, 4), 2), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f, b, u := s.Flops(coded.Forward, []int{5, 8}), s.Flops(coded.Backward, []int{5, 6}), s.UpdateFlops([]int{5, 8}); f != 2*5*2*8 || b != 2*5*2*6 || u != f+b {
		t.Errorf("flops forward %v, backward %v, update %v, want 160, 120, 280", f, b, u)
	}
}

// A shard on a pool computes what one without does.
func TestPool(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	config := shard.LinearConfig{In: 60, Out: 40, Backward: true}
	layer := newLayer(t, "fc", config, trigonometric(6, 4), 3)
	code := newCode(t, layer.Code)
	state, err := config.Encode(normal(rng, 60*40), nil, code, 2)
	if err != nil {
		t.Fatal(err)
	}
	x := matrix(9, 60, normal(rng, 9*60))
	var results [2]coded.Tensor
	for i, factories := range []map[string]coded.Factory{shard.Factories(), shard.FactoriesOn(pool)} {
		s, err := factories[shard.KindLinear](layer, 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetState(state); err != nil {
			t.Fatal(err)
		}
		if results[i], err = s.Multiply(coded.Forward, x, 1); err != nil {
			t.Fatal(err)
		}
	}
	if d := difference(t, results[1].Data, results[0].Data); !(d <= 1e-6) {
		t.Errorf("results differ by %.2g", d)
	}
}

func TestShardAllocatesNoTensor(t *testing.T) {
	const in, out, chunks = 300, 200, 2
	config := shard.LinearConfig{In: in, Out: out, Backward: true}
	s, err := shard.NewLinear(newLayer(t, "fc", config, trigonometric(6, 4), chunks), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	batches := []int{64, 30} // the second is the last, smaller batch
	var xs, dys []coded.Tensor
	for _, b := range batches {
		xs, dys = append(xs, coded.NewTensor(b, in)), append(dys, coded.NewTensor(b, out))
	}
	step := 0
	run := func() {
		for i := range batches {
			step++
			for chunk := range chunks {
				if _, err := s.Multiply(coded.Forward, xs[i], chunk); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Multiply(coded.Backward, dys[i], chunk); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Accumulate(xs[i], dys[i]); err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(coded.Update{Step: step, LR: 0.1, Momentum: 0.9, Scale: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The smallest tensor is a chunk of the product of the small batch.
	if b, limit := steady.Bytes(20, run), uint64(4*30*out/4/chunks); b >= limit {
		t.Errorf("%d bytes allocated for two steps, want less than the %d of the smallest tensor", b, limit)
	}
}
