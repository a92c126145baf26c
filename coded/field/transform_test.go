package field

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRoot(t *testing.T) {
	for _, p := range primes {
		for order := 1; order <= 1<<17; order *= 2 {
			r, err := p.Root(order)
			if exists := order <= 2 || p == Fermat && order <= 1<<16; exists != (err == nil) {
				t.Fatalf("modulo %d, order %d: error %v", p, order, err)
			}
			if err != nil {
				continue
			}
			if Pow(p, r, int64(order)) != 1 || order > 1 && Pow(p, r, int64(order/2)) == 1 {
				t.Errorf("modulo %d: %d is no root of order %d", p, r, order)
			}
			if half, err := p.Root(max(order/2, 1)); err != nil || p.Mul(r, r) != half {
				t.Errorf("modulo %d, order %d: the square of the root is not the root of half the order", p, order)
			}
		}
		for _, order := range []int{-1, 0, 3, 6, 1000} {
			if _, err := p.Root(order); err == nil {
				t.Errorf("modulo %d: a root of order %d", p, order)
			}
			if _, err := NewTransform(p, order); err == nil {
				t.Errorf("modulo %d: a transform of length %d", p, order)
			}
		}
	}
}

// TestTransform compares with the sum that defines it, and goes back.
func TestTransform(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, p := range primes {
		for _, n := range []int{1, 2, 4, 16, 128} {
			transform, err := NewTransform(p, n)
			if err != nil {
				if n <= 2 || p == Fermat {
					t.Fatal(err)
				}
				continue
			}
			root, _ := p.Root(n)
			for _, length := range []int{0, 1, 100, 1 << 13} {
				if length > 100 && n > 4 {
					continue
				}
				c := vectors(rng, p, n, length)
				x := make([][]uint64, n)
				for i := range x {
					x[i] = slices.Clone(c[i])
				}
				transform.Forward(x)
				for i := range x {
					want := make([]uint64, length)
					p.Combine(want, powersOf(p, Pow(p, root, int64(i)), n), c)
					if !slices.Equal(x[i], want) {
						t.Fatalf("modulo %d, length %d: value %d differs from the sum", p, n, i)
					}
				}
				transform.Inverse(x)
				for i := range x {
					if !slices.Equal(x[i], c[i]) {
						t.Fatalf("modulo %d, length %d: coefficient %d does not come back", p, n, i)
					}
				}
			}
		}
	}
}

func TestTransformPanics(t *testing.T) {
	transform, err := NewTransform(Fermat, 2)
	if err != nil || transform.Len() != 2 {
		t.Fatalf("length %d, %v", transform.Len(), err)
	}
	for what, x := range map[string][][]uint64{"one vector": {{1}}, "lengths": {{1}, {1, 2}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			transform.Forward(x)
		}()
	}
}

func BenchmarkTransform(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("n=%d/8192", n), func(b *testing.B) {
			transform, err := NewTransform(Fermat, n)
			if err != nil {
				b.Fatal(err)
			}
			x := vectors(rng, Fermat, n, 1<<13)
			b.SetBytes(int64(n) << 13 * 8)
			for b.Loop() {
				transform.Inverse(x)
			}
		})
	}
}
