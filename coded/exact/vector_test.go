package exact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coda-ml/coda/coded/field"
	"github.com/coda-ml/coda/internal/kernel"
)

func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		element := rapid.OneOf(rapid.Uint64Range(0, 65536), rapid.SampledFrom([]uint64{0, 65535, 65536}))
		x := rapid.SliceOf(element).Draw(t, "x")
		v, err := Pack(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Check(len(x)); err != nil {
			t.Fatal(err)
		}
		if got := v.Unpack(); !slices.Equal(got, x) {
			t.Fatalf("%v comes back as %v", x, got)
		}
	})
	if _, err := Pack([]uint64{65537}); err == nil {
		t.Error("65537 is no element, and there is no error")
	}
}

func TestCheck(t *testing.T) {
	low := []uint16{65535, 1, 65535}
	for want, v := range map[string]Vector{
		"vector of 2 elements":      {low[:2], nil},
		"carry at element 3 of 3":   {low, []int{3}},
		"carry at element -1 of 3":  {low, []int{-1}},
		"carry at element 0 after":  {low, []int{0, 0}},
		"element 1 has a carry and": {low, []int{0, 1}},
	} {
		if err := v.Check(3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if err := (Vector{low, []int{0, 2}}).Check(3); err != nil {
		t.Error(err)
	}
}

// TestMultiply compares with products of matrices, carries and all.
func TestMultiply(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pool := kernel.NewPool(2)
	defer pool.Close()
	for _, s := range [][3]int{{1, 1, 1}, {5, 40, 3}, {17, 9, 100}, {3, 0, 2}, {0, 2, 2}} {
		a, b := drawMatrix(rng, field.Fermat, s[0], s[1]), drawMatrix(rng, field.Fermat, s[1], s[2])
		dst := Vector{make([]uint16, s[0]*s[2]), []int{5}}
		if err := Multiply(pool, &dst, pack(t, a), pack(t, b), s[0], s[1], s[2]); err != nil {
			t.Fatal(err)
		}
		if err := dst.Check(s[0] * s[2]); err != nil {
			t.Fatal(err)
		}
		if want := product(field.Fermat, a, b); !slices.Equal(dst.Unpack(), want.Data) {
			t.Errorf("%v: %v, want %v", s, dst.Unpack(), want.Data)
		}
	}
}

func pack(t *testing.T, m Matrix) Vector {
	t.Helper()
	v, err := Pack(m.Data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVectors runs a polynomial code on vectors, for every set of tasks that
// decodes.
func TestVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n, m, q, rows, inner, cols = 6, 2, 2, 3, 5, 4
	c, err := Polynomial(field.Fermat, n, m, q)
	if err != nil {
		t.Fatal(err)
	}
	a, b := drawMatrices(rng, field.Fermat, m, rows, inner), drawMatrices(rng, field.Fermat, q, inner, cols)
	codedA, codedB, results := zeros(n, rows*inner), zeros(n, inner*cols), zeros(n, rows*cols)
	if err := c.EncodeVectors(nil, codedA, codedB, packAll(t, a), packAll(t, b)); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := Multiply(nil, results[i], *codedA[i], *codedB[i], rows, inner, cols); err != nil {
			t.Fatal(err)
		}
	}
	d := NewDecoder(c, 0)
	subsets(n, m*q, func(have []int) {
		outputs := zeros(m*q, rows*cols)
		var answers []Vector
		for _, t := range have {
			answers = append(answers, *results[t])
		}
		if err := d.DecodeVectors(nil, outputs, have, answers); err != nil {
			t.Fatal(err)
		}
		for o, got := range outputs {
			if want := bigProduct(field.Fermat, a[o/q], b[o%q]); !slices.Equal(got.Unpack(), want.Data) {
				t.Fatalf("tasks %v: output %d is wrong", have, o)
			}
		}
	})
}

func zeros(count, n int) []*Vector {
	out := make([]*Vector, count)
	for i := range out {
		out[i] = &Vector{Low: make([]uint16, n)}
	}
	return out
}

func packAll(t *testing.T, xs []Matrix) []Vector {
	t.Helper()
	out := make([]Vector, len(xs))
	for i, x := range xs {
		out[i] = pack(t, x)
	}
	return out
}

func TestVectorErrors(t *testing.T) {
	v, w := Vector{Low: make([]uint16, 2)}, Vector{Low: make([]uint16, 3)}
	long, err := Polynomial(field.Mersenne31, 4, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	short, err := Polynomial(field.Fermat, 4, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]func() error{
		"sizes -1 x 1 x 1":              func() error { return Multiply(nil, &v, v, v, -1, 1, 1) },
		"A of 3 x 1":                    func() error { return Multiply(nil, &v, v, v, 3, 1, 2) },
		"B of 1 x 2":                    func() error { return Multiply(nil, &v, v, w, 2, 1, 2) },
		"result of 2 elements":          func() error { return Multiply(nil, &v, v, v, 2, 1, 2) },
		"1 rows of weights for 2":       func() error { return Combine(nil, []*Vector{&v, &v}, [][]uint64{{1}}, []Vector{v}) },
		"2 weights of result 0 for 1":   func() error { return Combine(nil, []*Vector{&v}, [][]uint64{{1, 1}}, []Vector{v}) },
		"result 1 has 3 elements":       func() error { return Combine(nil, []*Vector{&v, &w}, [][]uint64{{1}, {1}}, []Vector{v}) },
		"vector 0: exact: vector of 3":  func() error { return Combine(nil, []*Vector{&v}, [][]uint64{{1}}, []Vector{w}) },
		"element 0 is 65537":            func() error { return Combine(nil, []*Vector{&v}, [][]uint64{{65537}}, []Vector{v}) },
		"vectors hold elements modulo":  func() error { return long.EncodeVectors(nil, nil, nil, nil, nil) },
		"decode":                        func() error { return NewDecoder(short, 0).DecodeVectors(nil, zeros(2, 1), first(2), nil) },
		"vectors hold elements modulo ": func() error { return NewDecoder(long, 0).DecodeVectors(nil, nil, first(2), nil) },
		"encode A: ":                    func() error { return short.EncodeVectors(nil, zeros(1, 1), nil, nil, nil) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if err := Combine(nil, nil, nil, nil); err != nil {
		t.Error(err)
	}
}
