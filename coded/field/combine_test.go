package field

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// vectors draws count vectors of n elements, many of them at the edges.
func vectors(rng *rand.Rand, p Prime, count, n int) [][]uint64 {
	all, special := make([][]uint64, count), edges(p)
	for i := range all {
		all[i] = make([]uint64, n)
		for j := range all[i] {
			if all[i][j] = rng.Uint64N(uint64(p)); rng.IntN(2) == 0 {
				all[i][j] = special[rng.IntN(len(special))]
			}
		}
	}
	return all
}

// checkCombine compares with arithmetic of arbitrary precision.
func checkCombine(t *testing.T, p Prime, w []uint64, xs [][]uint64, n int) {
	t.Helper()
	dst := make([]uint64, n)
	p.Combine(dst, w, xs)
	m := new(big.Int).SetUint64(uint64(p))
	for i, got := range dst {
		sum := new(big.Int)
		for j, f := range w {
			sum.Add(sum, new(big.Int).Mul(new(big.Int).SetUint64(f), new(big.Int).SetUint64(xs[j][i])))
		}
		if want := sum.Mod(sum, m).Uint64(); got != want {
			t.Fatalf("modulo %d, %d terms: element %d is %d, want %d", p, len(w), i, got, want)
		}
	}
}

func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range primes {
		for _, terms := range []int{0, 1, 2, 16, 63, 64, 65, 130} {
			for _, n := range []int{1, 7, 1030} {
				checkCombine(t, p, vectors(rng, p, 1, terms)[0], vectors(rng, p, terms, n), n)
			}
		}
	}
}

// TestCombineLargest: sums of nothing but the largest products.
func TestCombineLargest(t *testing.T) {
	for _, p := range primes {
		const terms = 3000
		w, xs := make([]uint64, terms), make([][]uint64, terms)
		for j := range w {
			w[j], xs[j] = uint64(p)-1, []uint64{uint64(p) - 1, uint64(p) - 2}
		}
		checkCombine(t, p, w, xs, 2)
	}
}

func TestReduceFermat(t *testing.T) {
	check := func(s uint64) {
		if got, want := reduceFermat(s), s%uint64(Fermat); got != want {
			t.Errorf("%d modulo 65537 is %d, want %d", s, got, want)
		}
	}
	for shift := range 64 {
		for d := range uint64(3) {
			check(1<<shift + d)
			check(1<<shift - d)
		}
	}
	for _, part := range []uint64{0xffff0000ffff0000, 0x0000ffff0000ffff, 0xffff000000000000, 0x0000ffff00000000} {
		check(part)
	}
}

func TestCombinePanics(t *testing.T) {
	for what, f := range map[string]func(){
		"weights": func() { Fermat.Combine(make([]uint64, 2), []uint64{1}, nil) },
		"lengths": func() { Fermat.Combine(make([]uint64, 2), []uint64{1}, [][]uint64{{1}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s that differ: no panic", what)
				}
			}()
			f()
		}()
	}
}

func BenchmarkCombine(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, p := range primes {
		b.Run(map[Prime]string{Fermat: "65537", Mersenne31: "2^31-1", Mersenne61: "2^61-1"}[p]+"/16x65536", func(b *testing.B) {
			w, xs, dst := vectors(rng, p, 1, 16)[0], vectors(rng, p, 16, 1<<16), make([]uint64, 1<<16)
			b.SetBytes(16 << 16 * 8)
			for b.Loop() {
				p.Combine(dst, w, xs)
			}
		})
	}
}
