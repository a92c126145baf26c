package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

func newBatchLayer(t testing.TB, kind string, c shard.Config, code coded.Spec, chunks int) coded.Layer {
	t.Helper()
	wrapped, err := shard.NewBatchConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := wrapped.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return coded.Layer{Name: "conv1", Kind: kind, Code: code, Chunks: chunks, Config: raw}
}

func newBatchShards(t testing.TB, l coded.Layer, c shard.Config, weight []float32) []coded.Shard {
	t.Helper()
	var shards []coded.Shard
	for slot := range l.Code.N {
		s, err := shard.NewBatch(l, slot, nil)
		if err != nil {
			t.Fatal(err)
		}
		state, err := shard.EncodeBatch(c, weight, newCode(t, l.Code), slot)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetState(state); err != nil {
			t.Fatal(err)
		}
		shards = append(shards, s)
	}
	return shards
}

// answers are those of a set of slots to every chunk of a product; operands are
// the tensors [n, ..] of the slots' operands.
func answers(t testing.TB, shards []coded.Shard, l coded.Layer, p coded.Product, set []int, operands ...coded.Tensor) [][]coded.Answer {
	t.Helper()
	var chunks [][]coded.Answer
	for chunk := range l.Chunks {
		var list []coded.Answer
		for _, slot := range set {
			var own []coded.Tensor
			for _, x := range operands {
				own = append(own, shard.Slots(nil, x)[slot])
			}
			y, err := coded.Multiply(nil, shards[slot], p, own, chunk)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, coded.Answer{Slot: slot, Result: clone(y)})
		}
		chunks = append(chunks, list)
	}
	return chunks
}

func encodeBatch(t testing.TB, b *shard.BatchCoder, x coded.Tensor) coded.Tensor {
	t.Helper()
	blocks := coded.NewTensor(b.Shape(x.Shape)...)
	if err := b.Encode(nil, blocks.Data, x); err != nil {
		t.Fatal(err)
	}
	return blocks
}

// matrix11 is a linear layer as a convolution of 1x1, for the reference.
func matrix11(in, out int) shard.Conv2dConfig {
	return shard.Conv2dConfig{In: in, Out: out, KernelH: 1, KernelW: 1, Stride: 1, Dilation: 1, Groups: 1, Backward: true}
}

// Y, dX and dW are decoded from every sufficient set, for batches that k does not
// divide, that are smaller than k, and whose chunks are samples or features.
func TestBatchFromEverySet(t *testing.T) {
	linear := shard.LinearConfig{In: 7, Out: 9, Backward: true}
	strided := with(conv3x3(6, 8), func(c *shard.Conv2dConfig) { c.Stride, c.Groups, c.Padding = 2, 2, 0 })
	for name, c := range map[string]struct {
		shard.Config
		reference convolution
		code      coded.Spec
		chunks    int
	}{
		"convolution": {conv3x3(5, 4), convolution{conv3x3(5, 4), 14, 6, 7}, trigonometric(6, 4), 2},
		"features":    {conv3x3(5, 4), convolution{conv3x3(5, 4), 3, 4, 4}, trigonometric(6, 4), 3},
		"strided":     {strided, convolution{strided, 9, 8, 9}, trigonometric(7, 3), 1},
		"linear":      {linear, convolution{matrix11(7, 9), 11, 1, 1}, trigonometric(5, 3), 4},
		"replication": {linear, convolution{matrix11(7, 9), 6, 1, 1}, coded.Spec{Name: "replication", N: 4, K: 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			ref := c.reference
			weight := normal(rng, ref.weights())
			x := coded.Tensor{Shape: []int{ref.n, ref.In, ref.h, ref.w}, Data: normal(rng, ref.n*ref.In*ref.h*ref.w)}
			y := ref.forward(x.Data, weight)
			dy := coded.Tensor{Shape: y.Shape, Data: normal(rng, len(y.Data))}
			dx := ref.backward(dy.Data, weight)
			dw := make([]float64, ref.weights())
			ref.gradient(x.Data, dy.Data, dw)
			if c.Kind() == shard.KindLinear {
				for _, m := range []*coded.Tensor{&x, &y, &dy, &dx} {
					m.Shape = m.Shape[:2]
				}
			}
			layer := newBatchLayer(t, shard.KindBatch, c.Config, c.code, c.chunks)
			shards := newBatchShards(t, layer, c.Config, weight)
			d := coded.NewDecoder(newCode(t, c.code), coded.DecoderConfig{})
			forward, backward := shard.NewBatchCoder(layer, c.Config, d, coded.Forward), shard.NewBatchCoder(layer, c.Config, d, coded.Backward)
			xs, dys := encodeBatch(t, forward, x), encodeBatch(t, backward, dy)
			check := func(what string, set []int, err error, got, want []float32) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				if e := difference(t, got, want); !(e <= 1e-5) {
					t.Errorf("slots %v: %s differs by %.2g of its largest entry", set, what, e)
				}
			}
			tracker := coded.NewTracker(newCode(t, c.code))
			for _, set := range everySet(c.code.N, c.code.K) {
				tracker.Reset()
				for _, slot := range set {
					tracker.Add(slot)
				}
				if !tracker.Ready() {
					continue
				}
				got := coded.NewTensor(y.Shape...)
				check("Y", set, forward.Decode(nil, got, x.Shape, answers(t, shards, layer, coded.Forward, set, xs)), got.Data, y.Data)
				got = coded.NewTensor(dx.Shape...)
				check("dX", set, backward.Decode(nil, got, dy.Shape, answers(t, shards, layer, coded.Backward, set, dys)), got.Data, dx.Data)
			}
			if c.code.Name != "trigonometric" {
				return
			}
			spec := coded.Spec{Name: "trigonometric-matdot", N: c.code.N, P: c.code.K}
			layer = newBatchLayer(t, shard.KindGradient, c.Config, spec, min(c.chunks, shard.GradientChunks(c.Config)))
			var gradients []coded.Shard
			for slot := range spec.N {
				s, err := shard.NewGradient(layer, slot, nil)
				if err != nil {
					t.Fatal(err)
				}
				gradients = append(gradients, s)
			}
			g, err := shard.NewGradientDecoder(layer, c.Config, coded.NewDecoder(newCode(t, spec), coded.DecoderConfig{}))
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range everySet(spec.N, min(spec.N, 2*spec.P-1)) {
				got := make([]float32, len(dw))
				check("dW", set, g.Decode(nil, got, answers(t, gradients, layer, coded.Gradient, set, dys, xs)), got, narrow(dw))
			}
		})
	}
}

// The state is a combination of those of other slots, and new weights replace the
// old ones at the update, in the products and in the state.
func TestBatchWeights(t *testing.T) {
	for name, c := range map[string]shard.Config{"conv2d": conv3x3(4, 6), "linear": shard.LinearConfig{In: 4, Out: 54, Backward: true}} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			old, weight := normal(rng, 216), normal(rng, 216)
			layer := newBatchLayer(t, shard.KindBatch, c, trigonometric(6, 4), 1)
			shards, fresh := newBatchShards(t, layer, c, old), newBatchShards(t, layer, c, weight)
			if err := shards[2].Accumulate(coded.Tensor{Shape: []int{216}, Data: weight}, coded.NewTensor(1)); err != nil {
				t.Fatal(err)
			}
			x := coded.NewTensor(2, 4, 5, 5)
			if name == "linear" {
				x = coded.NewTensor(2, 4)
			}
			copy(x.Data, normal(rng, len(x.Data)))
			multiply := func(s coded.Shard) []float32 {
				y, err := s.Multiply(coded.Forward, x, 0)
				if err != nil {
					t.Fatal(err)
				}
				return clone(y).Data
			}
			before := multiply(shards[2])
			if err := shards[2].Apply(coded.Update{Step: 1}); err != nil {
				t.Fatal(err)
			}
			want := multiply(fresh[2])
			if d := difference(t, multiply(shards[2]), want); !(d <= 1e-6) || difference(t, before, want) < 1e-3 {
				t.Errorf("the products differ by %.2g from those of the new weights", d)
			}
			if d := difference(t, shards[2].State()[0].Data, fresh[2].State()[0].Data); !(d <= 1e-6) {
				t.Errorf("the state differs by %.2g from that of the new weights", d)
			}
			donors, weights, _, err := newCode(t, layer.Code).Repair(2, []int{0, 1, 3, 5})
			if err != nil {
				t.Fatal(err)
			}
			sum := make([]float64, 216)
			for i, donor := range donors {
				for j, v := range fresh[donor].State()[0].Data {
					sum[j] += weights[i] * float64(v)
				}
			}
			if d := difference(t, narrow(sum), fresh[2].State()[0].Data); !(d <= 5e-6) {
				t.Errorf("repaired state differs by %.2g", d)
			}
			wantError(t, shards[2].Accumulate(coded.NewTensor(215), coded.NewTensor(1)), "slot 2", "215 new weights, want 216")
			wantError(t, shards[2].Apply(coded.Update{}), "slot 2", "step below 1")
			wantError(t, shards[2].SetState(nil), "slot 2", "0 tensors")
		})
	}
}

// No slot's factor is so small that its weights would lose digits.
func TestScales(t *testing.T) {
	for _, spec := range []coded.Spec{trigonometric(6, 4), trigonometric(8, 6), trigonometric(18, 15), {Name: "uncoded", N: 5, K: 5}, {Name: "replication", N: 6, K: 2}} {
		scales, err := shard.Scales(newCode(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		least, most := math.Inf(1), 0.0
		for _, s := range scales {
			least, most = min(least, math.Abs(s)), max(most, math.Abs(s))
		}
		if least < most/30 {
			t.Errorf("%v: factors from %.2g to %.2g", spec, least, most)
		}
	}
	_, err := shard.Scales(newCode(t, coded.Spec{Name: "matdot", N: 5, P: 2}))
	wantError(t, err, "slot 0", "no row in a generator")
}

func TestBatchRefuses(t *testing.T) {
	c := conv3x3(4, 6)
	good := newBatchLayer(t, shard.KindBatch, c, trigonometric(6, 4), 2)
	for want, change := range map[string]func(l *coded.Layer){
		`kind "linear"`:      func(l *coded.Layer) { l.Kind = shard.KindLinear },
		"configuration":      func(l *coded.Layer) { l.Config = []byte{0xc1} },
		"want one layer":     func(l *coded.Layer) { l.Config = []byte{0x80} },
		"7 chunks, want 1":   func(l *coded.Layer) { l.Chunks = 7 },
		"k must be":          func(l *coded.Layer) { l.Code.K = 0 },
		"row in a generator": func(l *coded.Layer) { l.Code = coded.Spec{Name: "matdot", N: 5, P: 2} },
		"kernel height 0, wa": func(l *coded.Layer) {
			*l = newBatchLayer(t, shard.KindBatch, shard.Conv2dConfig{In: 1, Out: 1}, l.Code, 1)
		},
	} {
		l := good
		change(&l)
		_, err := shard.NewBatch(l, 0, nil)
		wantError(t, err, "slot 0", want)
	}
	_, err := shard.NewBatch(good, 6, nil)
	wantError(t, err, "slot 6")
	_, err = shard.EncodeBatch(c, make([]float32, 5), newCode(t, good.Code), 0)
	wantError(t, err, "5 weights, want 216")

	gradient := newBatchLayer(t, shard.KindGradient, c, coded.Spec{Name: "trigonometric-matdot", N: 5, P: 3}, 2)
	s, err := shard.NewGradient(gradient, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, dy := coded.NewTensor(2, 4, 5, 5), coded.NewTensor(2, 6, 5, 5)
	for want, f := range map[string]func() error{
		"want [2 6 5 5]":       func() error { _, err := s.MultiplyPair(coded.Gradient, x, x, 0); return err },
		"X:":                   func() error { _, err := s.MultiplyPair(coded.Gradient, dy, dy, 0); return err },
		"chunk 0 to 1":         func() error { _, err := s.MultiplyPair(coded.Gradient, dy, x, 2); return err },
		"forward product":      func() error { _, err := s.MultiplyPair(coded.Forward, dy, x, 0); return err },
		"of one operand":       func() error { _, err := s.Multiply(coded.Gradient, dy, 0); return err },
		"accumulate":           func() error { return s.Accumulate(x, dy) },
		"state of 1 tensors":   func() error { return s.SetState([]coded.Tensor{x}) },
		"product of 3 operand": func() error { _, err := coded.Multiply(nil, s, coded.Gradient, []coded.Tensor{x, x, x}, 0); return err },
	} {
		wantError(t, f(), want)
	}
	if f := s.Flops(coded.Gradient, dy.Shape); f != 2*2*25*6*4*9 {
		t.Errorf("%v flops", f)
	}
	gradient.Chunks = 7
	_, err = shard.NewGradient(gradient, 0, nil)
	wantError(t, err, "7 chunks, want 1 to 6")
	_, err = shard.NewGradientDecoder(gradient, c, coded.NewDecoder(newCode(t, trigonometric(6, 4)), coded.DecoderConfig{}))
	wantError(t, err, "4 outputs")
	b := shard.NewBatchCoder(good, c, coded.NewDecoder(newCode(t, good.Code), coded.DecoderConfig{}), coded.Forward)
	wantError(t, b.Encode(nil, nil, coded.Tensor{Shape: []int{2, 4, 5, 5}}), "operand of shape [2 4 5 5] with 0 values")
	wantError(t, b.Decode(nil, dy, x.Shape, nil), "0 chunks, want 2")
	wantError(t, b.Decode(nil, x, x.Shape, slices.Repeat([][]coded.Answer{nil}, 2)), "result of shape", "want [2 6 ..]")
	wantError(t, b.Decode(nil, dy, x.Shape, slices.Repeat([][]coded.Answer{nil}, 2)), "chunk 0")
}

// A chunk of samples is computed from these alone.
func TestBatchByRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	c := conv3x3(5, 4)
	layer := newBatchLayer(t, shard.KindBatch, c, trigonometric(6, 4), 3)
	shards := newBatchShards(t, layer, c, normal(rng, 4*5*9))
	d := coded.NewDecoder(newCode(t, layer.Code), coded.DecoderConfig{})
	byBatch := layer
	byBatch.ByBatch = true // for its Operand
	for product, channels := range map[coded.Product]int{coded.Forward: 5, coded.Backward: 4} {
		b := shard.NewBatchCoder(layer, c, d, product)
		x := coded.Tensor{Shape: []int{19, channels, 6, 7}, Data: normal(rng, 19*channels*6*7)} // blocks of 5
		if !b.ByRows(x.Shape) || b.ByRows([]int{8, channels, 6, 7}) || b.ByRows([]int{19, channels, 2, 2}) {
			t.Errorf("%s: want chunks of samples where a block has as many and is larger than the weights", product)
		}
		block := shard.Slots(nil, encodeBatch(t, b, x))[2]
		for chunk := range layer.Chunks {
			want, err := shards[2].Multiply(product, block, chunk)
			if err != nil {
				t.Fatal(err)
			}
			want = clone(want)
			got, err := shards[2].(coded.RowsShard).MultiplyRows(product, byBatch.Operand(block, chunk))
			if err != nil || !slices.Equal(got.Shape, want.Shape) || difference(t, got.Data, want.Data) > 1e-6 {
				t.Errorf("%s, chunk %d: %v of shape %v, want shape %v", product, chunk, err, got.Shape, want.Shape)
			}
		}
	}
	linear := shard.LinearConfig{In: 7, Out: 9, Backward: true}
	layer = newBatchLayer(t, shard.KindBatch, linear, trigonometric(6, 4), 3)
	_, err := newBatchShards(t, layer, linear, normal(rng, 63))[2].(coded.RowsShard).MultiplyRows(coded.Forward, matrix(2, 7, normal(rng, 14)))
	wantError(t, err, "layer conv1, slot 2: forward product by rows: want a convolution")
}

// Rounds whose slots have operands of their own run on a Local, two operands too.
func TestLocalSlots(t *testing.T) {
	e := shard.NewLocal(shard.LocalConfig{Survivors: func(c *coded.Code, _ coded.Round, _ int) []int { return []int{0, 1, 2, 3, 4} }})
	c := shard.LinearConfig{In: 3, Out: 2}
	layer := newBatchLayer(t, shard.KindGradient, c, coded.Spec{Name: "trigonometric-matdot", N: 5, P: 3}, 1)
	if err := e.Place(t.Context(), layer, func(int) ([]coded.Tensor, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	var slots [][]coded.Tensor
	for slot := range 5 {
		slots = append(slots, []coded.Tensor{matrix(1, 2, []float32{1, float32(slot)}), matrix(1, 3, []float32{1, 2, 3})})
	}
	p := start(t, e, coded.Round{Layer: layer.Name, Product: coded.Gradient, Slots: slots})
	got, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for slot, a := range got[0] {
		s := float32(slot)
		if want := []float32{1, 2, 3, s, 2 * s, 3 * s}; !slices.Equal(a.Result.Data, want) {
			t.Errorf("slot %d: %v, want %v", slot, a.Result.Data, want)
		}
	}
	p.Release()
	for want, r := range map[string]coded.Round{
		"4 slots, want 5":               {Product: coded.Gradient, Slots: slots[:4]},
		"0 operands for slot 0":         {Product: coded.Gradient, Slots: make([][]coded.Tensor, 5)},
		"cannot be kept":                {Product: coded.Forward, Slots: slots, Keep: true},
		"gradient product: oper":        {Product: coded.Gradient, Keep: true},
		"by rows cannot be kept":        {Product: coded.Forward, Keep: true, ByRows: true},
		"2 operands for slot 0, want 1": {Product: coded.Forward, Slots: slots, ByRows: true},
	} {
		r.Layer = layer.Name
		_, err := e.Start(t.Context(), r)
		wantError(t, err, layer.Name, want)
	}
}

func ExampleBatchCoder() {
	code, err := coded.New(coded.Spec{Name: "trigonometric", N: 6, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	config := shard.Conv2dConfig{In: 64, Out: 64, KernelH: 3, KernelW: 3, Stride: 1, Padding: 1, Dilation: 1, Groups: 1}
	b := shard.NewBatchCoder(coded.Layer{Chunks: 4}, config, coded.NewDecoder(code, coded.DecoderConfig{}), coded.Forward)
	fmt.Println(b.Shape([]int{128, 64, 16, 16}))
	// Output: [6 32 64 16 16]
}
