package field

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

var primes = []Prime{Fermat, Mersenne31, Mersenne61}

// edges are the elements at which a reduction may go wrong.
func edges(p Prime) []uint64 {
	m := uint64(p) - 1
	return []uint64{0, 1, 2, 3, m / 2, m/2 + 1, m - 2, m - 1, m}
}

// TestPrime compares every operation with arithmetic of arbitrary precision.
func TestPrime(t *testing.T) {
	for _, p := range primes {
		check := func(t interface{ Fatalf(string, ...any) }, a, b uint64) {
			x, y, m := new(big.Int).SetUint64(a), new(big.Int).SetUint64(b), new(big.Int).SetUint64(uint64(p))
			for what, pair := range map[string][2]uint64{
				"+": {p.Add(a, b), new(big.Int).Mod(new(big.Int).Add(x, y), m).Uint64()},
				"-": {p.Sub(a, b), new(big.Int).Mod(new(big.Int).Sub(x, y), m).Uint64()},
				"*": {p.Mul(a, b), new(big.Int).Mod(new(big.Int).Mul(x, y), m).Uint64()},
			} {
				if pair[0] != pair[1] {
					t.Fatalf("modulo %d: %d %s %d = %d, want %d", p, a, what, b, pair[0], pair[1])
				}
			}
			if a != 0 && p.Mul(a, p.Inv(a)) != 1 {
				t.Fatalf("modulo %d: %d times its inverse %d is not 1", p, a, p.Inv(a))
			}
		}
		for _, a := range edges(p) {
			for _, b := range edges(p) {
				check(t, a, b)
			}
		}
		rapid.Check(t, func(t *rapid.T) {
			element := rapid.Uint64Range(0, uint64(p)-1)
			check(t, element.Draw(t, "a"), element.Draw(t, "b"))
		})
	}
}

func TestInt(t *testing.T) {
	for _, p := range primes {
		for _, v := range []int64{0, 1, -1, int64(p), -int64(p), int64(p) + 1, -1 << 63, 1<<63 - 1} {
			want := new(big.Int).Mod(big.NewInt(v), new(big.Int).SetUint64(uint64(p))).Uint64()
			if got := p.Int(v); got != want {
				t.Errorf("%d modulo %d is %d, want %d", v, p, got, want)
			}
		}
		if !p.Valid() || (p + 1).Valid() {
			t.Errorf("%d valid: %t, %d valid: %t", p, p.Valid(), p+1, (p + 1).Valid())
		}
	}
}

func TestPow(t *testing.T) {
	if got := Pow[float64](Real{}, 0.5, 10); got != 1.0/1024 {
		t.Errorf("0.5^10 = %g", got)
	}
	if got := Pow(Fermat, 3, 1<<15); got != uint64(Fermat)-1 { // 3 is no square
		t.Errorf("3^(2^15) = %d modulo 65537", got)
	}
	if got := Pow(Mersenne61, 7, 0); got != 1 {
		t.Errorf("7^0 = %d", got)
	}
}
