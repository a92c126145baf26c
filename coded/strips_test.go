package coded

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestStrips convolves coded strips on workers of which some are lost, and
// compares with the convolution of the whole: kernels and strides of every kind,
// strips that are shorter or empty.
func TestStrips(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	code := mustCode(t, "trigonometric", 6, 4)
	for _, size := range []struct{ in, kernel, stride int }{
		{16, 3, 1}, {17, 3, 2}, {9, 1, 1}, {11, 5, 3}, {5, 3, 1}, {3, 3, 1}, {12, 2, 3},
	} {
		s, err := NewStrips(size.in, size.kernel, size.stride, code.K())
		if err != nil {
			t.Fatal(err)
		}
		const n, c, o, w = 2, 3, 2, 4
		x := randomTensor(rng, n, c, size.in, w)
		kernel := randomTensor(rng, o, c, size.kernel, 1)
		want := convolveRows(x, kernel, size.stride)
		have := []int{0, 2, 3, 5}
		var results []Tensor
		for _, slot := range have {
			f := NewTensor(n, c, s.Rows, w)
			if err := EncodeStrips(f, code.Row(slot), x, s); err != nil {
				t.Fatal(err)
			}
			y := convolveRows(f, kernel, size.stride)
			results = append(results, Tensor{Shape: []int{n * o, s.Out.Size, w}, Data: y.Data})
		}
		weights, err := NewDecoder(code, DecoderConfig{}).Weights(have)
		if err != nil {
			t.Fatal(err)
		}
		got := NewTensor(n*o, want.Shape[2], w)
		if err := DecodeColumns(got, weights.D, results, s.Out, 0); err != nil {
			t.Fatalf("%+v: %v", size, err)
		}
		for i, v := range want.Data {
			if e := math.Abs(float64(got.Data[i] - v)); !(e < 1e-4) {
				t.Fatalf("%+v: element %d is %g, want %g", size, i, got.Data[i], v)
			}
		}
	}
}

func randomTensor(rng *rand.Rand, shape ...int) Tensor {
	x := NewTensor(shape...)
	for i := range x.Data {
		x.Data[i] = float32(rng.NormFloat64())
	}
	return x
}

// convolveRows is a convolution along the rows alone, without padding.
func convolveRows(x, kernel Tensor, stride int) Tensor {
	n, c, in, w := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	o, rows := kernel.Shape[0], kernel.Shape[2]
	y := NewTensor(n, o, (in-rows)/stride+1, w)
	for i := range y.Data {
		at, col := i/w, i%w
		row, channel, image := at%y.Shape[2], at/y.Shape[2]%o, at/y.Shape[2]/o
		for ci := range c {
			for r := range rows {
				y.Data[i] += x.Data[((image*c+ci)*in+row*stride+r)*w+col] * kernel.Data[(channel*c+ci)*rows+r]
			}
		}
	}
	return y
}

func TestStripsErrors(t *testing.T) {
	for _, bad := range [][4]int{{2, 3, 1, 2}, {5, 0, 1, 2}, {5, 3, 0, 2}, {5, 3, 1, 0}} {
		if s, err := NewStrips(bad[0], bad[1], bad[2], bad[3]); err == nil {
			t.Errorf("%v: %+v", bad, s)
		}
	}
	s, err := NewStrips(8, 3, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	row := []float64{1, 1}
	for want, f := range map[string]func() error{
		"has shape [1 1 7 2], want [_ _ 8 _]": func() error { return EncodeStrips(NewTensor(1, 1, s.Rows, 2), row, NewTensor(1, 1, 7, 2), s) },
		"1 coefficients, want 2":              func() error { return EncodeStrips(NewTensor(1, 1, s.Rows, 2), row[:1], NewTensor(1, 1, 8, 2), s) },
		"result has shape":                    func() error { return EncodeStrips(NewTensor(1, 1, s.Rows, 3), row, NewTensor(1, 1, 8, 2), s) },
		"has shape [1 8 2], want [_ _ 8 _]":   func() error { return EncodeStrips(NewTensor(1, s.Rows, 2), row, NewTensor(1, 8, 2), s) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
