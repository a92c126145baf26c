package exact

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coda-ml/coda/coded/field"
)

// TestLevels: the largest sums just fit, and one level more would not.
func TestLevels(t *testing.T) {
	for _, p := range primes {
		for _, inner := range []int{1, 2, 3, 100, 4000, 30000} {
			l, err := Levels(p, inner)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckRange(p, inner, l, l); err != nil {
				t.Error(err)
			}
			if l < maxLevels && CheckRange(p, inner, l+1, l+1) == nil {
				t.Errorf("%d terms modulo %d: %d levels, but one more fits", inner, p, l)
			}
		}
	}
	for p, inner := range map[field.Prime]int{field.Fermat: 1<<15 + 1, field.Mersenne31: 0, 7: 1} {
		if _, err := Levels(p, inner); err == nil {
			t.Errorf("%d terms modulo %d: no error", inner, p)
		}
	}
}

func TestCheckRange(t *testing.T) {
	for _, c := range []struct {
		p      field.Prime
		inner  int
		la, lb int64
		fits   bool
	}{
		{field.Fermat, 1, 32768, 1, true}, {field.Fermat, 1, 32769, 1, false}, {field.Fermat, 2, 128, 128, true},
		{field.Fermat, 2, 128, 129, false}, {field.Mersenne61, 1<<12 - 1, 1 << 24, 1 << 24, true}, {field.Mersenne61, 1 << 12, 1 << 24, 1 << 24, false}, {field.Mersenne61, math.MaxInt, math.MaxInt64, math.MaxInt64, false},
		{field.Fermat, 0, math.MaxInt64, math.MaxInt64, true}, {field.Fermat, math.MaxInt, 0, 1, true}, {9, 1, 1, 1, false}, {field.Fermat, 1, -1, 1, false},
	} {
		if err := CheckRange(c.p, c.inner, c.la, c.lb); (err == nil) != c.fits {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestQuantise: numbers come back within half a step, and the product of two
// quantised matrices is that of the integers.
func TestQuantise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range primes {
		const inner = 8
		levels, err := Levels(p, inner)
		if err != nil {
			t.Fatal(err)
		}
		x, y := make([]float32, inner), make([]float32, inner)
		for i := range x {
			x[i], y[i] = float32(rng.NormFloat64()), 100*float32(rng.NormFloat64())
		}
		a, b := NewMatrix(1, inner), NewMatrix(inner, 1)
		stepA, errA := Quantise(a.Data, x, p, levels)
		stepB, errB := Quantise(b.Data, y, p, levels)
		c, err := Product(p, a, b)
		back, dot := make([]float32, inner), make([]float32, 1)
		for _, err := range []error{errA, errB, err, Dequantise(back, a.Data, p, stepA), Dequantise(dot, c.Data, p, stepA*stepB)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := int64(0)
		for i := range x {
			if e := math.Abs(float64(back[i] - x[i])); e > 0.5*stepA*(1+1e-6)+1e-7*math.Abs(float64(x[i])) {
				t.Errorf("modulo %d: %v comes back as %v, step %g", p, x[i], back[i], stepA)
			}
			u, _ := Lift(p, a.Data[i])
			v, _ := Lift(p, b.Data[i])
			want += u * v
		}
		if dot[0] != float32(float64(want)*(stepA*stepB)) {
			t.Errorf("modulo %d: the product is %v, want %v", p, dot[0], float64(want)*stepA*stepB)
		}
	}
}

func TestQuantiseErrors(t *testing.T) {
	for want, f := range map[string]func() error{
		"1 numbers into 2": func() error { _, err := Quantise(make([]uint64, 2), make([]float32, 1), field.Fermat, 1); return err },
		"0 levels":         func() error { _, err := Quantise(nil, nil, field.Fermat, 0); return err },
		"32769 levels":     func() error { _, err := Quantise(nil, nil, field.Fermat, 32769); return err },
		"number 0 is NaN": func() error {
			_, err := Quantise([]uint64{0}, []float32{float32(math.NaN())}, field.Fermat, 1)
			return err
		},
		"number 0 is -Inf": func() error {
			_, err := Quantise([]uint64{0}, []float32{float32(math.Inf(-1))}, field.Fermat, 1)
			return err
		},
		"2 elements into 1": func() error { return Dequantise(make([]float32, 1), make([]uint64, 2), field.Fermat, 1) },
		"element 0: 65537":  func() error { return Dequantise(make([]float32, 1), []uint64{65537}, field.Fermat, 1) },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	x := []uint64{1, 2}
	if step, err := Quantise(x, []float32{0, 0}, field.Fermat, 5); err != nil || step != 1 || x[0] != 0 || x[1] != 0 {
		t.Errorf("zeros become %v with a step of %v, %v", x, step, err)
	}
}
