package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

// A slot's factors are the parts that it knows, one below the other: X as it is and dY
// times the coefficients; what the last part lacks is zero, whatever was there.
func TestPartsCoder(t *testing.T) {
	code := newCode(t, coded.Spec{Name: "cyclic-reed-solomon", N: 5, K: 5, Load: 2})
	const batch, width = 7, 3 // parts of 2, 2, 2, 1 and 0 samples
	x := coded.NewTensor(batch, width)
	for i := range x.Data {
		x.Data[i] = float32(i + 1)
	}
	for _, weighted := range []bool{false, true} {
		c, err := shard.NewPartsCoder(code, weighted)
		if err != nil {
			t.Fatal(err)
		}
		shape := c.Shape(x.Shape)
		if !slices.Equal(shape, []int{5, 4, width}) {
			t.Fatalf("shape %v, want 5 slots of 2 parts of 2 samples", shape)
		}
		got := make([]float32, 5*4*width)
		for i := range got {
			got[i] = float32(math.NaN())
		}
		if err := c.Encode(nil, got, x); err != nil {
			t.Fatal(err)
		}
		var want []float32
		for slot := range 5 {
			for part, b := range code.Rows(slot)[0] {
				if b == 0 {
					continue
				}
				if !weighted {
					b = 1
				}
				for i := range 2 * width {
					v := float32(0)
					if at := part*2*width + i; at < len(x.Data) {
						v = float32(b) * x.Data[at]
					}
					want = append(want, v)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("weighted %v: %v, want %v", weighted, got, want)
		}
	}
}

// The gradient of every set of survivors is that of the whole batch, for batches that
// the parts do not divide, and for fewer samples than parts.
func TestGradientByParts(t *testing.T) {
	for _, spec := range []coded.Spec{
		{Name: "uncoded-gradients", N: 4, K: 4}, {Name: "cyclic-reed-solomon", N: 6, K: 6, Load: 3},
		{Name: "fractional-repetition", N: 6, K: 12, Load: 4}, {Name: "cyclic-random", N: 5, K: 5, Load: 3, Seed: 1},
	} {
		for _, batch := range []int{13, 3} {
			t.Run(fmt.Sprintf("%v, batch %d", spec, batch), func(t *testing.T) { gradientByParts(t, spec, batch) })
		}
	}
}

func gradientByParts(t *testing.T, spec coded.Spec, batch int) {
	code := newCode(t, spec)
	c := shard.LinearConfig{In: 9, Out: 8}
	l := newBatchLayer(t, shard.KindGradient, c, spec, 3)
	d, err := shard.NewGradientDecoder(l, c, coded.NewDecoder(code, coded.DecoderConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(batch)))
	x, dy := matrix(batch, c.In, normal(rng, batch*c.In)), matrix(batch, c.Out, normal(rng, batch*c.Out))
	answers := partAnswers(t, l, code, dy, x)
	want := make([]float64, c.Out*c.In)
	for i := range batch {
		for o := range c.Out {
			for j := range c.In {
				want[o*c.In+j] += float64(dy.Data[i*c.Out+o]) * float64(x.Data[i*c.In+j])
			}
		}
	}
	sets := shard.EverySet()
	first := fmt.Sprint(sets(code, coded.Round{}, 0))
	for n := 1; ; n++ {
		set := slices.Clone(sets(code, coded.Round{}, 0))
		if len(set) != code.Threshold() {
			t.Fatalf("survivors %v, want %d", set, code.Threshold())
		}
		chunks := make([][]coded.Answer, l.Chunks)
		for chunk := range chunks {
			for _, slot := range set {
				chunks[chunk] = append(chunks[chunk], coded.Answer{Slot: slot, Result: answers[slot][chunk]})
			}
		}
		got := make([]float32, len(want))
		if err := d.Decode(nil, got, chunks); err != nil {
			t.Fatalf("survivors %v: %v", set, err)
		}
		for i := range want {
			if math.Abs(float64(got[i])-want[i]) > 1e-4 {
				t.Fatalf("survivors %v: element %d is %v, want %v", set, i, got[i], want[i])
			}
		}
		if fmt.Sprint(set) == first {
			return
		}
	}
}

// partAnswers computes every chunk of every slot.
func partAnswers(t *testing.T, l coded.Layer, code *coded.Code, dy, x coded.Tensor) [][]coded.Tensor {
	t.Helper()
	var factors [2][]coded.Tensor
	for i, f := range []coded.Tensor{dy, x} {
		coder, err := shard.NewPartsCoder(code, i == 0)
		if err != nil {
			t.Fatal(err)
		}
		all := coded.NewTensor(coder.Shape(f.Shape)...)
		if err := coder.Encode(nil, all.Data, f); err != nil {
			t.Fatal(err)
		}
		factors[i] = shard.Slots(nil, all)
	}
	answers := make([][]coded.Tensor, code.N())
	for slot := range answers {
		s, err := shard.NewGradient(l, slot, nil)
		if err != nil {
			t.Fatal(err)
		}
		for chunk := range l.Chunks {
			r, err := s.MultiplyPair(coded.Gradient, factors[0][slot], factors[1][slot], chunk)
			if err != nil {
				t.Fatal(err)
			}
			answers[slot] = append(answers[slot], clone(r))
		}
	}
	return answers
}

// Codes of products, of several results a task and without a threshold are refused; so
// are operands of wrong shapes.
func TestPartsCoderErrors(t *testing.T) {
	for _, spec := range []coded.Spec{
		{Name: "trigonometric", N: 6, K: 4}, {Name: "trigonometric-matdot", N: 6, P: 3},
		{Name: "cyclic-sum", N: 6, K: 6, Load: 2}, {Name: "communication-efficient", N: 5, K: 5, Load: 3, M: 2},
	} {
		if _, err := shard.NewPartsCoder(newCode(t, spec), true); err == nil || !strings.Contains(err.Error(), "sums of gradients") {
			t.Errorf("code %v: error %v", spec, err)
		}
	}
	c, err := shard.NewPartsCoder(newCode(t, coded.Spec{Name: "cyclic-reed-solomon", N: 5, K: 5, Load: 2}), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Encode(nil, nil, coded.Tensor{Shape: []int{4, 2}, Data: make([]float32, 7)}); err == nil {
		t.Error("an operand of 7 values for 4x2 is accepted")
	}
	if err := c.Encode(nil, make([]float32, 3), coded.NewTensor(4, 2)); err == nil {
		t.Error("a destination of 3 values is accepted")
	}
}
