package shard_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// uncoded is a linear layer trained in float64, the reference.
type uncoded struct{ w, v, g []float64 }

func (u *uncoded) accumulate(x, dy []float32, batch, in, out int) {
	for b := range batch {
		for o := range out {
			for i := range in {
				u.g[o*in+i] += float64(dy[b*out+o]) * float64(x[b*in+i])
			}
		}
	}
}

func (u *uncoded) apply(s coded.Update) {
	for i := range u.w {
		g := s.Scale*u.g[i] + s.Decay*u.w[i]
		if s.Momentum > 0 {
			if u.v[i] = s.Momentum*u.v[i] + g; s.Nesterov {
				g += s.Momentum * u.v[i]
			} else {
				g = u.v[i]
			}
		}
		u.w[i] -= s.LR * g
		u.g[i] = 0
	}
}

func (u *uncoded) weight() []float32   { return narrow(u.w) }
func (u *uncoded) momentum() []float32 { return narrow(u.v) }

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// Three hundred steps of a regression, in which each step's dY comes from the
// decoded Y: the coded copies stay one codeword and follow the uncoded layer.
func TestTrainingFollowsTheUncodedLayer(t *testing.T) {
	updates := map[string]coded.Update{
		"plain":    {LR: 0.05, Scale: 1},
		"momentum": {LR: 0.02, Momentum: 0.9, Scale: 1},
		"decay":    {LR: 0.02, Momentum: 0.9, Decay: 1e-2, Scale: 0.5},
		"nesterov": {LR: 0.02, Momentum: 0.9, Decay: 1e-2, Scale: 0.5, Nesterov: true},
	}
	const in, out, batch = 13, 10, 16 // neither is a multiple of k
	config := shard.LinearConfig{In: in, Out: out, Backward: true}
	layer := newLayer(t, "fc", config, trigonometric(6, 4), 3)
	sets := everySet(6, 4)
	for name, u := range updates {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			weight, target := normal(rng, in*out), normal(rng, in*out)
			ref := &uncoded{w: make([]float64, in*out), v: make([]float64, in*out), g: make([]float64, in*out)}
			for i, w := range weight {
				ref.w[i] = float64(w)
			}
			shards := newShards(t, layer, config, weight, nil)
			for step := 1; step <= 300; step++ {
				u.Step = step
				for range 1 + step%2 { // every other step has two micro-batches
					x := normal(rng, batch*in)
					dy := decodeProduct(t, shards, layer, config, coded.Forward, matrix(batch, in, x), sets[step%len(sets)])
					for i, v := range product(x, false, target, true, batch, in, out) {
						dy[i] = (dy[i] - v) / batch
					}
					ref.accumulate(x, dy, batch, in, out)
					for _, s := range shards {
						if err := s.Accumulate(matrix(batch, in, x), matrix(batch, out, dy)); err != nil {
							t.Fatal(err)
						}
					}
				}
				ref.apply(u)
				for _, s := range shards {
					if err := s.Apply(u); err != nil {
						t.Fatal(err)
					}
				}
			}
			if d := fromCodeword(t, layer.Code, shards); !(d <= 2e-5) {
				t.Errorf("shards differ from the nearest codeword by %.2g, want at most 2e-5", d)
			}
			compareEverySet(t, layer.Code, config, shards, ref, u.Momentum > 0)
		})
	}
}

// compareEverySet decodes the weight and the momentum from every set, from F and
// from R, and compares with the reference.
func compareEverySet(t *testing.T, spec coded.Spec, config shard.LinearConfig, shards []*shard.Linear, ref *uncoded, momentum bool) {
	t.Helper()
	d := coded.NewDecoder(newCode(t, spec), coded.DecoderConfig{})
	for _, set := range everySet(spec.N, spec.K) {
		w, v, err := config.Decode(states(shards, set), d)
		if err != nil {
			t.Fatal(err)
		}
		// The reference has seen the same operands, so that only rounding differs.
		if e := difference(t, w, ref.weight()); !(e <= 2e-5) {
			t.Errorf("slots %v: weight differs by %.2g", set, e)
		}
		if e := difference(t, v, ref.momentum()); momentum && !(e <= 1e-4) {
			t.Errorf("slots %v: momentum differs by %.2g", set, e)
		}
		if e := difference(t, decodeR(t, d, config, states(shards, set)), w); !(e <= 2e-5) {
			t.Errorf("slots %v: weight from R differs from that from F by %.2g", set, e)
		}
	}
}

func states[S coded.Shard](shards []S, set []int) []coded.ShardState {
	var list []coded.ShardState
	for _, slot := range set {
		list = append(list, coded.ShardState{Slot: slot, State: shards[slot].State()})
	}
	return list
}

// decodeR is the weight, [out, in], from the copies over blocks of inputs.
func decodeR(t *testing.T, d *coded.Decoder, c shard.LinearConfig, list []coded.ShardState) []float32 {
	t.Helper()
	var have []int
	var results []coded.Tensor
	for _, s := range list {
		have, results = append(have, s.Slot), append(results, s.State[2])
	}
	w, err := d.Weights(have)
	if err != nil {
		t.Fatal(err)
	}
	byInput := coded.NewTensor(c.In, c.Out)
	if err := coded.DecodeRows(byInput, w.D, results, coded.Blocks(c.In, d.Code().K()), 0); err != nil {
		t.Fatal(err)
	}
	weight := make([]float32, c.In*c.Out)
	for i := range c.In {
		for o := range c.Out {
			weight[o*c.In+i] = byInput.Data[i*c.Out+o]
		}
	}
	return weight
}

// fromCodeword is the largest distance of a shard's tensor from the nearest
// codeword, which least squares over all slots gives, over its largest entry.
func fromCodeword[S coded.Shard](t *testing.T, spec coded.Spec, shards []S) float64 {
	t.Helper()
	code := newCode(t, spec)
	all := make([]int, code.N())
	for i := range all {
		all[i] = i
	}
	w, err := coded.NewDecoder(code, coded.DecoderConfig{}).Weights(all)
	if err != nil {
		t.Fatal(err)
	}
	var worst float64
	for q := range shards[0].State() {
		size := len(shards[0].State()[q].Data)
		for slot, s := range shards {
			nearest := make([]float64, size)
			for j, g := range code.Row(slot) {
				for other, d := range w.D[j] {
					for i, v := range shards[other].State()[q].Data {
						nearest[i] += g * d * float64(v)
					}
				}
			}
			worst = max(worst, difference(t, s.State()[q].Data, narrow(nearest)))
		}
	}
	return worst
}

// An update arrives once or several times and is applied once; without a
// gradient the weights stay, even with decay and momentum.
func TestApplyOncePerStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	config := shard.LinearConfig{In: 6, Out: 5, Backward: true}
	layer := newLayer(t, "fc", config, trigonometric(6, 4), 1)
	s := newShards(t, layer, config, normal(rng, 30), nil)[0]
	accumulate := func() {
		t.Helper()
		if err := s.Accumulate(matrix(2, 6, normal(rng, 12)), matrix(2, 5, normal(rng, 10))); err != nil {
			t.Fatal(err)
		}
	}
	changed := func(u coded.Update) bool {
		t.Helper()
		before := clone(s.State()[0])
		if err := s.Apply(u); err != nil {
			t.Fatal(err)
		}
		return difference(t, before.Data, s.State()[0].Data) != 0
	}
	u := coded.Update{LR: 0.1, Momentum: 0.9, Decay: 0.1, Scale: 1}
	for i, c := range []struct {
		step     int
		gradient bool
		want     bool
	}{{1, true, true}, {1, false, false}, {3, false, false}, {4, true, true}, {2, true, false}, {4, false, false}, {5, false, true}} {
		if c.gradient {
			accumulate()
		}
		u.Step = c.step
		if got := changed(u); got != c.want {
			t.Fatalf("case %d, step %d: changed %v, want %v", i, c.step, got, c.want)
		}
	}
	// A state from elsewhere has its own count of steps, and no gradient.
	accumulate()
	if err := s.SetState(s.State()); err != nil {
		t.Fatal(err)
	}
	u.Step = 1
	if changed(u) {
		t.Error("a gradient of the old state was applied to the new one")
	}
}

// A lost slot's state is the same combination of the others' states, after
// training as well, tensor by tensor.
func TestRepair(t *testing.T) {
	for _, spec := range []coded.Spec{trigonometric(6, 4), trigonometric(8, 6)} {
		rng := rand.New(rand.NewPCG(9, 10))
		config := shard.LinearConfig{In: 11, Out: 9, Backward: true}
		layer := newLayer(t, "fc", config, spec, 1)
		shards := newShards(t, layer, config, normal(rng, 99), normal(rng, 99))
		for step := 1; step <= 5; step++ {
			x, dy := matrix(4, 11, normal(rng, 44)), matrix(4, 9, normal(rng, 36))
			for _, s := range shards {
				if err := s.Accumulate(x, dy); err != nil {
					t.Fatal(err)
				}
				if err := s.Apply(coded.Update{Step: step, LR: 0.1, Momentum: 0.9, Decay: 0.01, Scale: 1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for lost := range shards {
			t.Run(fmt.Sprintf("%v/%d", spec, lost), func(t *testing.T) { repair(t, layer, shards, lost) })
		}
	}
}

func repair(t *testing.T, layer coded.Layer, shards []*shard.Linear, lost int) {
	var fresh []int
	for slot := range shards {
		if slot != lost && slot != (lost+1)%len(shards) { // one more is missing
			fresh = append(fresh, slot)
		}
	}
	donors, weights, _, err := newCode(t, layer.Code).Repair(lost, fresh)
	if err != nil {
		t.Fatal(err)
	}
	repaired := make([]coded.Tensor, len(shards[lost].State()))
	for q, want := range shards[lost].State() {
		sum := make([]float64, len(want.Data))
		for i, donor := range donors {
			for j, v := range shards[donor].State()[q].Data {
				sum[j] += weights[i] * float64(v)
			}
		}
		repaired[q] = coded.Tensor{Shape: want.Shape, Data: narrow(sum)}
		if d := difference(t, repaired[q].Data, want.Data); !(d <= 5e-6) {
			t.Errorf("tensor %d: repaired state differs by %.2g", q, d)
		}
	}
	s, err := shard.NewLinear(layer, lost, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetState(repaired); err != nil {
		t.Fatal(err)
	}
}
