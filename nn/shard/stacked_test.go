package shard_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// stacked builds the shards of a layer of a code, which hold the weight.
func stacked(t testing.TB, c shard.LinearConfig, spec coded.Spec, weight []float32) (*coded.Code, []*shard.Stacked) {
	t.Helper()
	code := newCode(t, spec)
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var shards []*shard.Stacked
	for slot := range code.N() {
		s, err := shard.NewStacked(coded.Layer{Name: "fc", Kind: shard.KindStacked, Code: spec, Chunks: code.Results(slot), Config: raw}, slot, nil)
		if err != nil {
			t.Fatal(err)
		}
		state, err := shard.EncodeStacked(c, weight, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetState(state); err != nil {
			t.Fatal(err)
		}
		shards = append(shards, s)
	}
	return code, shards
}

// answersInOrder lets workers of random speeds give their results in order until
// all that there are decode.
func answersInOrder(t *testing.T, rng *rand.Rand, code *coded.Code, shards []*shard.Stacked, x coded.Tensor) [][]coded.Answer {
	t.Helper()
	single, err := code.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	tracker := coded.NewTracker(single)
	next := make([]int, code.N())
	done := make([][]bool, code.Results(0)) // chunk, slot
	for i := range done {
		done[i] = make([]bool, code.N())
	}
	for slow := rng.IntN(code.N()); !tracker.Ready(); {
		slot := rng.IntN(code.N())
		if next[slot] == code.Results(slot) || slot == slow && rng.IntN(4) > 0 {
			continue
		}
		tracker.Add(code.Chunk(slot, next[slot]))
		done[next[slot]][slot] = true
		next[slot]++
	}
	answers := make([][]coded.Answer, len(done))
	for chunk := range done {
		for slot, there := range done[chunk] {
			if !there {
				continue
			}
			y, err := shards[slot].Multiply(coded.Forward, x, chunk)
			if err != nil {
				t.Fatal(err)
			}
			answers[chunk] = append(answers[chunk], coded.Answer{Slot: slot, Result: clone(y)})
		}
	}
	return answers
}

// Whoever has finished how much: the product is decoded once the code says so, also
// where the blocks do not divide the outputs.
func TestStackedProducts(t *testing.T) {
	const in, batch = 9, 4
	for _, spec := range []coded.Spec{
		{Name: "lt", N: 4, K: 16, Load: 8, Seed: 1},
		{Name: "universally-decodable", N: 8, K: 12, Load: 2},
		{Name: "hierarchical", N: 6, K: 4, Groups: 3},
	} {
		for _, out := range []int{48, 35} {
			t.Run(fmt.Sprintf("%v/%d", spec, out), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 7))
				c := shard.LinearConfig{In: in, Out: out}
				weight, x := normal(rng, in*out), matrix(batch, in, normal(rng, batch*in))
				code, shards := stacked(t, c, spec, weight)
				d, err := shard.NewStackedDecoder(c, code, coded.DecoderConfig{})
				if err != nil {
					t.Fatal(err)
				}
				y, want := coded.NewTensor(batch, out), product(x.Data, false, weight, true, batch, in, out)
				for range 10 {
					if err := d.Decode(y, x.Shape, answersInOrder(t, rng, code, shards, x)); err != nil {
						t.Fatal(err)
					}
					// A universally decodable code may have a condition number of some hundreds.
					if worst := difference(t, y.Data, want); !(worst <= 1e-4) {
						t.Errorf("Y differs by %.2g of its largest entry", worst)
					}
				}
			})
		}
	}
}

func TestStackedRefuses(t *testing.T) {
	spec := coded.Spec{Name: "universally-decodable", N: 4, K: 4, Load: 2}
	c := shard.LinearConfig{In: 3, Out: 8}
	code, shards := stacked(t, c, spec, make([]float32, 24))
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	backward, err := shard.LinearConfig{In: 3, Out: 8, Backward: true}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	good := coded.Layer{Name: "fc", Kind: shard.KindStacked, Code: spec, Chunks: 2, Config: raw}
	x, y := coded.NewTensor(2, 3), coded.NewTensor(2, 8)
	built := func(change func(*coded.Layer)) func() error {
		return func() error {
			l := good
			change(&l)
			_, err := shard.NewStacked(l, 0, nil)
			return err
		}
	}
	d, err := shard.NewStackedDecoder(c, code, coded.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for part, f := range map[string]func() error{
		"want one for each of 2 results": built(func(l *coded.Layer) { l.Chunks = 3 }),
		"want \"stacked\"":               built(func(l *coded.Layer) { l.Kind = "linear" }),
		"no backward product":            built(func(l *coded.Layer) { l.Config = backward }),
		"want one of a linear code":      built(func(l *coded.Layer) { l.Code = coded.Spec{Name: "matdot", N: 5, P: 2} }),
		"is not trained":                 func() error { return shards[0].Accumulate(x, y) },
		"want the forward one":           func() error { _, err := shards[0].Multiply(coded.Backward, y, 0); return err },
		"want 0 to 1":                    func() error { _, err := shards[0].Multiply(coded.Forward, x, 2); return err },
		"want [batch 3]":                 func() error { _, err := shards[0].Multiply(coded.Forward, y, 0); return err },
		"want one of shape":              func() error { return shards[0].SetState(nil) },
		"24 weights, want": func() error {
			_, err := shard.EncodeStacked(shard.LinearConfig{In: 4, Out: 8}, make([]float32, 24), code, 0)
			return err
		},
		"too few results": func() error {
			return d.Decode(y, x.Shape, [][]coded.Answer{{{Slot: 1, Result: coded.NewTensor(2, 2)}}})
		},
		"result 1 of slot 9": func() error {
			return d.Decode(y, x.Shape, [][]coded.Answer{nil, {{Slot: 9, Result: coded.NewTensor(2, 2)}}})
		},
		"result of shape": func() error { return d.Decode(x, x.Shape, nil) },
	} {
		wantError(t, f(), part)
	}
}

// What is missing counts as zero in an estimate, whose error is what was said.
func TestEstimate(t *testing.T) {
	const batch, in, out = 4, 16, 40
	rng := rand.New(rand.NewPCG(1, 8))
	c := shard.LinearConfig{In: in, Out: out}
	layer := newLayer(t, "fc", c, coded.Spec{Name: "uncoded", N: 4, K: 4}, 1)
	weight, x := normal(rng, in*out), matrix(batch, in, normal(rng, batch*in))
	shards := newShards(t, layer, c, weight, nil)
	var answers []coded.Answer
	for _, slot := range []int{0, 1, 3} {
		y, err := shards[slot].Multiply(coded.Forward, x, 0)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, coded.Answer{Slot: slot, Result: clone(y)})
	}
	d := shard.NewProductDecoder(layer, c, coded.NewDecoder(newCode(t, layer.Code), coded.DecoderConfig{}), coded.Forward)
	y, want := coded.NewTensor(batch, out), product(x.Data, false, weight, true, batch, in, out)
	if err := d.Decode(y, x.Shape, [][]coded.Answer{answers}); !errors.Is(err, coded.ErrTooFewResults) {
		t.Fatalf("decoded from 3 of 4: error %v", err)
	}
	residual, err := d.Estimate(y, x.Shape, [][]coded.Answer{answers})
	if err != nil || math.Abs(residual-0.25) > 1e-9 {
		t.Fatalf("estimate with the residual %v, error %v, want a quarter", residual, err)
	}
	for i, v := range y.Data {
		if missing := i%out/10 == 2; missing && v != 0 || !missing && math.Abs(float64(v-want[i])) > 1e-4 {
			t.Fatalf("value %d is estimated as %v, it is %v", i, v, want[i])
		}
	}
}
