package coded

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestGradientRoundTrip sends gradients of several shapes, and of fewer rows than
// there are pieces, through every gradient code: parts that a worker does not know
// are not there, and the slowest do not answer.
func TestGradientRoundTrip(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "uncoded-gradients", N: 3, K: 6},
		{Name: "fractional-repetition", N: 6, K: 6, Load: 2},
		{Name: "cyclic-reed-solomon", N: 6, K: 12, Load: 6},
		{Name: "communication-efficient", N: 6, K: 6, Load: 4, M: 2},
		{Name: "communication-efficient", N: 6, K: 6, Load: 4, M: 3},
		{Name: "heterogeneous-gradients", N: 6, K: 10, Load: 5, Groups: 3},
		{Name: "partial-gradients", N: 4, K: 8, Load: 3, Weight: 2},
	} {
		for _, shape := range [][]int{{7}, {1, 5}, {4, 3, 2}, {6, 1}, {0, 3}} {
			roundTripGradients(t, specCode(t, spec), shape)
		}
	}
}

func roundTripGradients(t *testing.T, c *Code, shape []int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(len(shape))))
	gradients, want := drawGradients(rng, c.K()/c.Pieces(), shape)
	have := rng.Perm(c.N())[:c.Threshold()]
	slices.Sort(have)
	var results []Tensor
	for _, w := range have {
		known := make([]Tensor, len(gradients))
		for _, p := range c.Parts(w) {
			known[p] = gradients[p]
		}
		for _, row := range c.Rows(w) {
			result := NewTensor(slices.Concat([]int{Blocks(shape[0], c.Pieces()).Size}, shape[1:])...)
			if err := EncodeGradients(result, row, known); err != nil {
				t.Fatal(err)
			}
			results = append(results, result)
		}
	}
	weights, err := NewDecoder(c, DecoderConfig{}).Weights(have)
	if err != nil {
		t.Fatal(err)
	}
	got := NewTensor(shape...)
	for i := range got.Data {
		got.Data[i] = float32(math.NaN()) // every element must be written
	}
	if err := DecodeGradients(got, weights.D, results); err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Data {
		// Some roundings of results of size 10.
		if e := math.Abs(float64(v) - want[i]); !(e <= 1e-5*max(1, weights.Amplification())) {
			t.Errorf("%v, shape %v, tasks %v: element %d is %g, want %g", c, shape, have, i, v, want[i])
		}
	}
}

// drawGradients returns a gradient for each part and their sum.
func drawGradients(rng *rand.Rand, parts int, shape []int) ([]Tensor, []float64) {
	gradients := make([]Tensor, parts)
	sum := make([]float64, size(shape))
	for p := range gradients {
		gradients[p] = NewTensor(shape...)
		for i := range sum {
			gradients[p].Data[i] = float32(rng.NormFloat64())
			sum[i] += float64(gradients[p].Data[i])
		}
	}
	return gradients, sum
}

// TestEncodeGradientsPieces: a small case by hand, with a last piece that is short.
func TestEncodeGradientsPieces(t *testing.T) {
	parts := []Tensor{{Shape: []int{3}, Data: []float32{1, 2, 3}}, {}, {Shape: []int{3}, Data: []float32{10, 20, 30}}}
	dst := Tensor{Shape: []int{2}, Data: []float32{-1, -1}}
	if err := EncodeGradients(dst, []float64{1, 2, 0, 0, 0.5, -1}, parts); err != nil {
		t.Fatal(err)
	}
	if want := []float32{1 + 2*3 + 5 - 30, 2 + 10}; !slices.Equal(dst.Data, want) {
		t.Errorf("%v, want %v", dst.Data, want)
	}
}

func TestCombineGradientsRefuse(t *testing.T) {
	two := Tensor{Shape: []int{2}, Data: []float32{1, 2}}
	three := Tensor{Shape: []int{3}, Data: []float32{1, 2, 3}}
	for _, test := range []struct {
		what string
		err  error
		want string
	}{
		{"no parts", EncodeGradients(two, []float64{1}, nil), "1 coefficients for 0 parts"},
		{"odd coefficients", EncodeGradients(two, []float64{1, 2, 3}, []Tensor{two, two}), "3 coefficients for 2 parts"},
		{"a scalar", EncodeGradients(Tensor{}, []float64{1}, []Tensor{two}), "has shape [], want [_] or more dimensions"},
		{"a part that is needed", EncodeGradients(two, []float64{1, 2}, []Tensor{two, {}}), "part 1 has shape []"},
		{"another shape", EncodeGradients(two, []float64{1, 2}, []Tensor{two, three}), "part 1 has shape [3]"},
		{"another size of pieces", EncodeGradients(three, []float64{1, 2, 3, 4}, []Tensor{three, three}), "part 0 has shape [3], want [6] or fewer rows of which"},
		{"unequal, of one size of pieces", EncodeGradients(two, []float64{1, 2, 3, 4}, []Tensor{three, NewTensor(4)}), "part 1 has shape [4]"},
		{"too little data", EncodeGradients(two, []float64{1}, []Tensor{{Shape: []int{2}, Data: []float32{1}}}), "1 elements"},
		{"a scalar sum", DecodeGradients(Tensor{}, [][]float64{{1}}, []Tensor{two}), "has shape [], want [_] or more dimensions"},
		{"a result of another size", DecodeGradients(three, [][]float64{{1}}, []Tensor{two}), "result 0 has shape [2], want [3]"},
		{"a result without shape", DecodeGradients(three, [][]float64{{1}}, []Tensor{{}}), "result 0 has shape [], want [3]"},
		{"unequal results", DecodeGradients(two, [][]float64{{1, 1}}, []Tensor{two, three}), "result 1 has shape [3]"},
		{"no weights", DecodeGradients(two, nil, []Tensor{two}), "is no partition"},
		{"no results", DecodeGradients(two, [][]float64{{}}, nil), "no results"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.what, test.err, test.want)
		}
	}
}
