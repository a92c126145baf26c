package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/internal/kernel"
	"github.com/coda-ml/coda/internal/steady"
	"github.com/coda-ml/coda/nn/shard"
)

// twins are two shards of a layer: the gradients of one are put off.
type twins struct {
	now, late *shard.Linear
	config    shard.LinearConfig
	layer     coded.Layer
	slot      int
}

func newTwins(t rapid.TB, config shard.LinearConfig, slot int, pool *kernel.Pool) *twins {
	t.Helper()
	raw, err := config.Marshal()
	must(t, err)
	s := &twins{config: config, slot: slot}
	s.layer = coded.Layer{Name: "fc", Kind: shard.KindLinear, Code: trigonometric(6, 4), Chunks: 1, Config: raw}
	s.now, err = shard.NewLinear(s.layer, slot, pool)
	must(t, err)
	s.late, err = shard.NewLinear(s.layer, slot, pool)
	must(t, err)
	return s
}

// must checks what a rapid or a plain test did.
func must(t rapid.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// same checks that both states are the same, to the bit.
func (s *twins) same(t rapid.TB, when string) {
	t.Helper()
	late := s.late.State()
	for q, x := range s.now.State() {
		for i, v := range x.Data {
			if math.Float32bits(v) != math.Float32bits(late[q].Data[i]) {
				t.Fatalf("%s: tensor %d, value %d is %v, want %v", when, q, i, late[q].Data[i], v)
			}
		}
	}
}

// Whatever is computed when, and whatever comes in between (several pairs of operands,
// updates without any or that come twice, steps that are given up, a new state), both
// shards are the same to the bit.
func TestLateGradientsAreTheSame(t *testing.T) {
	pool := kernel.NewPool(2)
	defer pool.Close()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{4, 5, 17, 60, 200})
		config := shard.LinearConfig{In: size.Draw(t, "in"), Out: size.Draw(t, "out"), Backward: rapid.Bool().Draw(t, "backward")}
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 5))
		s := newTwins(t, config, 2, rapid.SampledFrom([]*kernel.Pool{nil, pool}).Draw(t, "pool"))
		s.renew(t, rng)
		step := 0
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { s.same(t, fmt.Sprintf("after step %d", step)) },
			"gradient": func(t *rapid.T) {
				batch := rapid.SampledFrom([]int{1, 3, 64, 400}).Draw(t, "batch")
				x, dy := matrix(batch, config.In, normal(rng, batch*config.In)), matrix(batch, config.Out, normal(rng, batch*config.Out))
				must(t, s.now.Accumulate(x, dy), s.late.Defer(x, dy))
			},
			"proceed": func(*rapid.T) { s.late.Proceed() },
			"update": func(t *rapid.T) {
				step++
				u := coded.Update{
					Step: step, LR: 0.01, Scale: rapid.SampledFrom([]float64{1, 0.37}).Draw(t, "scale"), // of a clipped norm
					Momentum: rapid.SampledFrom([]float64{0, 0.9}).Draw(t, "momentum"), Nesterov: rapid.Bool().Draw(t, "nesterov"),
					Decay: rapid.SampledFrom([]float64{0, 5e-4}).Draw(t, "decay"),
				}
				must(t, s.now.Apply(u), s.late.Apply(u))
			},
			"update again": func(t *rapid.T) {
				u := coded.Update{Step: max(step, 1), LR: 1, Scale: 1}
				step = u.Step
				must(t, s.now.Apply(u), s.late.Apply(u))
			},
			"state": func(t *rapid.T) {
				s.renew(t, rng)
				step = 0
			},
		})
	})
}

// renew gives both a new state, as a repair does.
func (s *twins) renew(t rapid.TB, rng *rand.Rand) {
	code, err := coded.New(s.layer.Code)
	must(t, err)
	n := s.config.In * s.config.Out
	state, err := s.config.Encode(normal(rng, n), normal(rng, n), code, s.slot)
	must(t, err, s.now.SetState(state), s.late.SetState(state))
}

// Every part of the work is counted, once; when there is none left, the operands are
// not needed any more.
func TestProceed(t *testing.T) {
	const batch = 64
	s := newTwins(t, shard.LinearConfig{In: 4000, Out: 3000, Backward: true}, 0, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	x, dy := matrix(batch, 4000, normal(rng, batch*4000)), matrix(batch, 3000, normal(rng, batch*3000))
	if flops := s.late.Proceed(); flops != 0 {
		t.Errorf("%v flops of nothing", flops)
	}
	must(t, s.now.Accumulate(x, dy), s.late.Defer(x, dy))
	var sum float64
	parts := 0
	for {
		flops := s.late.Proceed()
		if flops == 0 {
			break
		}
		if flops > 100e6 {
			t.Errorf("a part of %g flops", flops)
		}
		sum, parts = sum+flops, parts+1
	}
	if want := s.late.UpdateFlops(x.Shape); sum != want || parts < 10 {
		t.Errorf("%v flops in %d parts, want %v in more", sum, parts, want)
	}
	clear(x.Data)
	clear(dy.Data)
	u := coded.Update{Step: 1, LR: 0.1, Momentum: 0.9, Scale: 1}
	must(t, s.now.Apply(u), s.late.Apply(u))
	s.same(t, "after the update")
	wantError(t, s.late.Defer(dy, x), "layer fc, slot 0", "X has shape")
}

// Nothing of the size of a tensor is allocated, whether a part of a gradient goes
// through memory or not.
func TestLateGradientsAllocateNoTensor(t *testing.T) {
	const in, out, batch = 300, 200, 64
	s := newTwins(t, shard.LinearConfig{In: in, Out: out, Backward: true}, 0, nil)
	x, dy := coded.NewTensor(batch, in), coded.NewTensor(batch, out)
	step := 0
	run := func() {
		for proceeds := range 3 {
			step++
			must(t, s.late.Defer(x, dy))
			for range proceeds {
				s.late.Proceed()
			}
			must(t, s.late.Apply(coded.Update{Step: step, LR: 0.1, Momentum: 0.9, Scale: 1}))
		}
	}
	if b, limit := steady.Bytes(20, run), uint64(4*batch*out/4); b >= limit {
		t.Errorf("%d bytes allocated for three steps, want less than the %d of a coded operand", b, limit)
	}
}
