// Package field has the numbers that codes are written in: the reals, in float64,
// and three prime fields in which integer and quantised data are coded without
// any rounding.
//
// A code's formula is stated once, over a [Field], and then holds for all of
// them:
//
//	func powers[E any](f field.Field[E], x E, n int) []E {
//		row := []E{f.Int(1)}
//		for len(row) < n {
//			row = append(row, f.Mul(row[len(row)-1], x))
//		}
//		return row
//	}
//
// Products are reduced without a division: 2^16 = -1 modulo 65537 and 2^e = 1
// modulo a Mersenne prime 2^e-1, so that the upper bits of a product are
// subtracted from or added to the lower ones.
//
// Everything here is a pure function and safe for concurrent use.
package field

import "math/bits"

// Field is what a formula needs of numbers.
type Field[E any] interface {
	Int(v int64) E // the integer v
	Add(a, b E) E
	Sub(a, b E) E
	Mul(a, b E) E
	Inv(a E) E // 1/a; a is not 0
}

// Real is the field of the reals, in float64.
type Real struct{}

// Int returns v, which is exact below 2^53.
func (Real) Int(v int64) float64 { return float64(v) }

// Add returns a+b.
func (Real) Add(a, b float64) float64 { return a + b }

// Sub returns a-b.
func (Real) Sub(a, b float64) float64 { return a - b }

// Mul returns a*b.
func (Real) Mul(a, b float64) float64 { return a * b }

// Inv returns 1/a.
func (Real) Inv(a float64) float64 { return 1 / a }

// Prime is the field of the integers modulo a prime, one of the constants below.
// Its elements are 0 .. p-1.
type Prime uint64

// The fields that there are.
const (
	Fermat     Prime = 1<<16 + 1 // 65537: has roots of unity of order 2^16
	Mersenne31 Prime = 1<<31 - 1
	Mersenne61 Prime = 1<<61 - 1
)

// Valid tells whether p is one of the fields that there are.
func (p Prime) Valid() bool { return p == Fermat || p == Mersenne31 || p == Mersenne61 }

// Int returns v modulo p.
func (p Prime) Int(v int64) uint64 {
	r := v % int64(p)
	if r < 0 {
		r += int64(p)
	}
	return uint64(r)
}

// Add returns a+b.
func (p Prime) Add(a, b uint64) uint64 {
	if s := a + b; s < uint64(p) {
		return s
	}
	return a + b - uint64(p)
}

// Sub returns a-b.
func (p Prime) Sub(a, b uint64) uint64 {
	if a >= b {
		return a - b
	}
	return a + uint64(p) - b
}

// Mul returns a*b.
func (p Prime) Mul(a, b uint64) uint64 {
	switch p {
	case Fermat:
		x := a * b // at most 2^32
		return p.Sub(x&0xffff, x>>16)
	case Mersenne31:
		x := a * b
		x = x&uint64(p) + x>>31
		return p.fold(x)
	}
	hi, lo := bits.Mul64(a, b)
	return p.fold(lo&uint64(Mersenne61) + (lo>>61 | hi<<3))
}

// fold reduces x, which is at most 2p.
func (p Prime) fold(x uint64) uint64 {
	if x >= uint64(p) {
		x -= uint64(p)
	}
	return x
}

// Inv returns 1/a, by Fermat's theorem a^(p-2). The inverse of 0 is 0.
func (p Prime) Inv(a uint64) uint64 { return Pow(p, a, int64(p)-2) }

// Pow returns a^n for n >= 0, by squaring; a^0 is 1.
func Pow[E any](f Field[E], a E, n int64) E {
	result := f.Int(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result = f.Mul(result, a)
		}
		a = f.Mul(a, a)
	}
	return result
}
