package shard_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/nn/shard"
)

func trigonometric(n, k int) coded.Spec { return coded.Spec{Name: "trigonometric", N: n, K: k} }

func newCode(t testing.TB, s coded.Spec) *coded.Code {
	t.Helper()
	c, err := coded.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newLayer(t testing.TB, name string, c shard.LinearConfig, code coded.Spec, chunks int) coded.Layer {
	t.Helper()
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return coded.Layer{Name: name, Kind: shard.KindLinear, Code: code, Chunks: chunks, Config: raw}
}

// newShards builds the shards of all slots from a weight.
func newShards(t testing.TB, l coded.Layer, c shard.LinearConfig, weight, momentum []float32) []*shard.Linear {
	t.Helper()
	code := newCode(t, l.Code)
	shards := make([]*shard.Linear, code.N())
	for slot := range shards {
		s, err := shard.NewLinear(l, slot, nil)
		if err != nil {
			t.Fatal(err)
		}
		state, err := c.Encode(weight, momentum, code, slot)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetState(state); err != nil {
			t.Fatal(err)
		}
		shards[slot] = s
	}
	return shards
}

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func matrix(rows, cols int, data []float32) coded.Tensor {
	return coded.Tensor{Shape: []int{rows, cols}, Data: data}
}

// difference is the largest difference between x and y over the largest entry of y.
func difference(t testing.TB, x, y []float32) float64 {
	t.Helper()
	if len(x) != len(y) {
		t.Fatalf("%d values, want %d", len(x), len(y))
	}
	var d, most float64
	for i, v := range y {
		d = max(d, math.Abs(float64(x[i])-float64(v)))
		most = max(most, math.Abs(float64(v)))
		if math.IsNaN(float64(x[i])) {
			return math.Inf(1)
		}
	}
	if most == 0 {
		return d
	}
	return d / most
}

// everySet returns all sets of k of n slots.
func everySet(n, k int) [][]int {
	var sets [][]int
	for bits := range 1 << n {
		var s []int
		for i := range n {
			if bits>>i&1 == 1 {
				s = append(s, i)
			}
		}
		if len(s) == k {
			sets = append(sets, s)
		}
	}
	return sets
}

// product is op(a) * op(b) in float64: the reference for everything.
func product(a []float32, transA bool, b []float32, transB bool, m, k, n int) []float32 {
	c := make([]float32, m*n)
	for i := range m {
		for j := range n {
			var sum float64
			for q := range k {
				ia, ib := i*k+q, q*n+j
				if transA {
					ia = q*m + i
				}
				if transB {
					ib = j*k + q
				}
				sum += float64(a[ia]) * float64(b[ib])
			}
			c[i*n+j] = float32(sum)
		}
	}
	return c
}

// decodeProduct gathers every chunk of a product from the slots of a set.
func decodeProduct(t testing.TB, shards []*shard.Linear, l coded.Layer, c shard.LinearConfig, p coded.Product, x coded.Tensor, set []int) []float32 {
	t.Helper()
	cols := c.Out
	if p == coded.Backward {
		cols = c.In
	}
	y := coded.NewTensor(x.Shape[0], cols)
	decodeTo(t, y, shards, l, c, p, x, set)
	return y.Data
}

// decodeTo is decodeProduct for layers of any kind: it writes to y.
func decodeTo[S coded.Shard](t testing.TB, y coded.Tensor, shards []S, l coded.Layer, c shard.Config, p coded.Product, x coded.Tensor, set []int) {
	t.Helper()
	var chunks [][]coded.Answer
	for chunk := range l.Chunks {
		var answers []coded.Answer
		for _, slot := range set {
			r, err := shards[slot].Multiply(p, l.Operand(x, chunk), chunk)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, coded.Answer{Slot: slot, Result: clone(r)})
		}
		chunks = append(chunks, answers)
	}
	d := shard.NewProductDecoder(l, c, coded.NewDecoder(newCode(t, l.Code), coded.DecoderConfig{}), p)
	if err := d.Decode(y, x.Shape, chunks); err != nil {
		t.Fatal(err)
	}
}

func clone(t coded.Tensor) coded.Tensor {
	return coded.Tensor{Shape: append([]int(nil), t.Shape...), Data: append([]float32(nil), t.Data...)}
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not mention %q", err, p)
		}
	}
}
