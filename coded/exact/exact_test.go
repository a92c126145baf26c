package exact

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded"
	"github.com/coda-ml/coda/coded/field"
)

var primes = []field.Prime{field.Fermat, field.Mersenne31, field.Mersenne61}

// drawMatrix draws elements, half of them at the edges of the field.
func drawMatrix(rng *rand.Rand, p field.Prime, rows, cols int) Matrix {
	m := NewMatrix(rows, cols)
	special := []uint64{0, 1, uint64(p) - 1, uint64(p) - 2, uint64(p) / 2}
	for i := range m.Data {
		if m.Data[i] = rng.Uint64N(uint64(p)); rng.IntN(2) == 0 {
			m.Data[i] = special[rng.IntN(len(special))]
		}
	}
	return m
}

func drawMatrices(rng *rand.Rand, p field.Prime, count, rows, cols int) []Matrix {
	out := make([]Matrix, count)
	for i := range out {
		out[i] = drawMatrix(rng, p, rows, cols)
	}
	return out
}

// bigProduct is the product in integers of any size, reduced at the end.
func bigProduct(p field.Prime, a, b Matrix) Matrix {
	c, m := NewMatrix(a.Rows, b.Cols), new(big.Int).SetUint64(uint64(p))
	for i := range a.Rows {
		for j := range b.Cols {
			sum := new(big.Int)
			for k := range a.Cols {
				x, y := new(big.Int).SetUint64(a.Data[i*a.Cols+k]), new(big.Int).SetUint64(b.Data[k*b.Cols+j])
				sum.Add(sum, x.Mul(x, y))
			}
			c.Data[i*b.Cols+j] = sum.Mod(sum, m).Uint64()
		}
	}
	return c
}

func same(a, b Matrix) bool {
	return a.Rows == b.Rows && a.Cols == b.Cols && slices.Equal(a.Data, b.Data)
}

func TestProduct(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range primes {
		for _, s := range [][3]int{{1, 1, 1}, {3, 1, 2}, {5, 70, 3}, {2, 9, 300}, {0, 2, 3}, {2, 0, 3}, {2, 3, 0}} {
			a, b := drawMatrix(rng, p, s[0], s[1]), drawMatrix(rng, p, s[1], s[2])
			got, err := Product(p, a, b)
			if err != nil {
				t.Fatal(err)
			}
			if want := bigProduct(p, a, b); !same(got, want) {
				t.Errorf("modulo %d, %v: %v, want %v", p, s, got, want)
			}
		}
	}
}

func TestProductErrors(t *testing.T) {
	one := Matrix{1, 1, []uint64{1}}
	for want, f := range map[string]func() error{
		"none of the fields":    func() error { _, err := Product(7, one, one); return err },
		"B 2 x 1":               func() error { _, err := Product(field.Fermat, one, NewMatrix(2, 1)); return err },
		"A: 1 elements for 2":   func() error { _, err := Product(field.Fermat, Matrix{2, 1, []uint64{1}}, one); return err },
		"B: element 0 is 65537": func() error { _, err := Product(field.Fermat, one, Matrix{1, 1, []uint64{65537}}); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// subsets calls f with every set of k of n tasks.
func subsets(n, k int, f func(have []int)) {
	have := make([]int, k)
	var choose func(at, from int)
	choose = func(at, from int) {
		if at == k {
			f(slices.Clone(have))
			return
		}
		for t := from; t < n; t++ {
			have[at] = t
			choose(at+1, t+1)
		}
	}
	choose(0, 0)
}

// TestPolynomial: any m*q tasks give every block of the product exactly, by
// elimination or by the transform, and fewer do not.
func TestPolynomial(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, p := range primes {
		for _, s := range [][3]int{{1, 1, 1}, {3, 2, 1}, {6, 2, 2}, {8, 2, 3}, {8, 4, 1}} {
			n, m, q := s[0], s[1], s[2]
			c, err := Polynomial(p, n, m, q)
			if err != nil {
				t.Fatal(err)
			}
			a, b := drawMatrices(rng, p, m, 2, 3), drawMatrices(rng, p, q, 3, 2)
			d := NewDecoder(c, 3)
			subsets(n, m*q, func(have []int) {
				outputs, err := d.Decode(have, runAll(t, c, have, a, b))
				if err != nil {
					t.Fatal(err)
				}
				for o, got := range outputs {
					if want := bigProduct(p, a[o/q], b[o%q]); !same(got, want) {
						t.Fatalf("%v, tasks %v: output %d is %v, want %v", c, have, o, got, want)
					}
				}
			})
			var few *coded.InsufficientError
			if _, err := d.Weights(first(m*q - 1)); !errors.As(err, &few) || !errors.Is(err, coded.ErrTooFewResults) || len(few.Missing) == 0 {
				t.Errorf("%v, too few tasks: %v", c, err)
			}
		}
	}
}

func first(n int) []int {
	have := make([]int, n)
	for i := range have {
		have[i] = i
	}
	return have
}

func runAll(t *testing.T, c *Code, have []int, a, b []Matrix) []Matrix {
	t.Helper()
	var results []Matrix
	for _, task := range have {
		r, err := c.Run(task, a, b)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r...)
	}
	return results
}

// TestPolynomialTransform: the points are what makes the answers a transform, and
// it agrees with elimination.
func TestPolynomialTransform(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, s := range [][3]int{{17, 4, 4}, {9, 4, 2}, {70, 8, 8}} {
		c, err := Polynomial(field.Fermat, s[0], s[1], s[2])
		if err != nil {
			t.Fatal(err)
		}
		k := s[1] * s[2]
		if !c.transforms(first(k)) || c.transforms(first(k+1)) || c.transforms(first(k + 1)[1:]) {
			t.Fatalf("%v: not exactly the first %d tasks are a transform", c, k)
		}
		a, b := drawMatrices(rng, field.Fermat, s[1], 2, 2), drawMatrices(rng, field.Fermat, s[2], 2, 2)
		results := runAll(t, c, first(k), a, b)
		d := NewDecoder(c, 0)
		decoded, err := d.Decode(first(k), results)
		if err != nil {
			t.Fatal(err)
		}
		fast := c.inverse(results)
		w, err := d.Weights(first(k))
		if err != nil {
			t.Fatal(err)
		}
		for o := range fast {
			if want := c.combine(w[o], results); !same(fast[o], want) || !same(decoded[o], want) {
				t.Errorf("%v: output %d: the transform gives another matrix than the weights", c, o)
			}
		}
	}
	if c, err := Polynomial(field.Fermat, 7, 3, 2); err != nil || c.transform != nil {
		t.Errorf("six outputs have a transform of length 6: %v", err)
	}
}

func TestPolynomialErrors(t *testing.T) {
	for _, s := range [][3]int{{3, 2, 2}, {0, 1, 1}, {4, 0, 1}, {4, 1, 0}, {coded.MaxTasks + 1, 1, 1}, {4, 1 << 62, 4}} {
		if _, err := Polynomial(field.Fermat, s[0], s[1], s[2]); err == nil {
			t.Errorf("n=%d m=%d q=%d: no error", s[0], s[1], s[2])
		}
	}
	if _, err := Polynomial(10, 4, 2, 2); err == nil {
		t.Error("modulo 10: no error")
	}
}

// TestOf: a code of package coded, of one coded operand.
func TestOf(t *testing.T) {
	c, err := coded.New(coded.Spec{Name: "replication", N: 4, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for _, p := range primes {
		code, err := Of(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if code.Field() != p || code.N() != 4 || code.Outputs() != 2 || !strings.Contains(code.String(), fmt.Sprint(uint64(p))) {
			t.Errorf("%v: %d tasks, %d outputs modulo %d", code, code.N(), code.Outputs(), code.Field())
		}
		a, x := drawMatrices(rng, p, 2, 3, 4), drawMatrices(rng, p, 1, 4, 2)
		outputs, err := NewDecoder(code, 0).Decode([]int{1, 2}, runAll(t, code, []int{1, 2}, a, x))
		if err != nil {
			t.Fatal(err)
		}
		for i := range outputs {
			if !same(outputs[i], bigProduct(p, a[i], x[0])) {
				t.Errorf("modulo %d: block %d is wrong", p, i)
			}
		}
	}
	// The unit circle has points at infinity if p is 1 modulo 4.
	circle, err := coded.New(coded.Spec{Name: "trigonometric", N: 4, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(circle, field.Fermat); err == nil {
		t.Error("a trigonometric code modulo 65537: no error")
	}
}

func TestDecoderErrors(t *testing.T) {
	c, err := Polynomial(field.Fermat, 4, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	d, one := NewDecoder(c, 0), NewMatrix(1, 1)
	if d.Code() != c {
		t.Error("the decoder is of another code")
	}
	decode := func(have []int, results ...Matrix) func() error {
		return func() error { _, err := d.Decode(have, results); return err }
	}
	for want, f := range map[string]func() error{
		"task 4, want 0 to 3":         decode([]int{0, 4}, one, one),
		"task 1 is listed after 1":    decode([]int{1, 1}, one, one),
		"task 0 is listed after 1":    decode([]int{1, 0}, one, one),
		"1 results of tasks":          decode([]int{0, 1}, one),
		"result 1 is 2 x 1":           decode([]int{0, 1}, one, NewMatrix(2, 1)),
		"result 0: element 0":         decode([]int{0, 1}, Matrix{1, 1, []uint64{1 << 20}}, one),
		"too few results: 1":          decode([]int{3}, one),
		"0 results of tasks [], want": decode([]int{}),
		"task 9, want 0 to 3":         func() error { _, err := c.Run(9, []Matrix{one, one}, []Matrix{one}); return err },
		"1 A blocks and 1 B blocks":   func() error { _, err := c.Run(0, []Matrix{one}, []Matrix{one}); return err },
		"A blocks are 1 x 1":          func() error { _, err := c.Run(0, []Matrix{one, one}, []Matrix{NewMatrix(2, 1)}); return err },
		"A block 1 is 1 x 2":          func() error { _, err := c.Run(0, []Matrix{one, NewMatrix(1, 2)}, []Matrix{one}); return err },
		"B block 0: 0 elements":       func() error { _, err := c.Run(0, []Matrix{one, one}, []Matrix{{1, 1, nil}}); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestWeightsCache: a set's weights are kept, and found again after others have
// pushed them out.
func TestWeightsCache(t *testing.T) {
	c, err := Polynomial(field.Mersenne61, 5, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(c, 2)
	w, err := d.Weights([]int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.Weights([]int{0, 1}); err != nil || &again[0] != &w[0] {
		t.Errorf("the same set has other weights, %v", err)
	}
	for t := 2; t < 5; t++ {
		_, _ = d.Weights([]int{0, t})
	}
	if len(d.kept) > 2 {
		t.Errorf("%d sets are kept, want at most 2", len(d.kept))
	}
	again, err := d.Weights([]int{0, 1})
	if err != nil || !slices.EqualFunc(again, w, slices.Equal) {
		t.Errorf("computed again, the weights are %v, want %v; %v", again, w, err)
	}
}

// BenchmarkDecode compares the transform with weights.
func BenchmarkDecode(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, m := range []int{4, 8, 16} {
		c, err := Polynomial(field.Fermat, m*m+1, m, m)
		if err != nil {
			b.Fatal(err)
		}
		results := drawMatrices(rng, field.Fermat, m*m, 64, 128)
		d := NewDecoder(c, 0)
		for name, have := range map[string][]int{"transform": first(m * m), "weights": append(first(m*m-1), m*m)} {
			b.Run(fmt.Sprintf("%s/k=%d/64x128", name, m*m), func(b *testing.B) {
				b.SetBytes(int64(m*m) * 64 * 128 * 8)
				for b.Loop() {
					if name == "transform" {
						c.inverse(results)
					} else if _, err := d.Decode(have, results); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
