package field

import (
	"fmt"
	"math/bits"
)

// Combine computes dst = sum_j w[j] xs[j] over vectors of elements, each as long
// as dst, which must not overlap them. Products are summed before they are
// reduced, once an element or every 64 terms, and never divided. Lengths that
// differ panic before anything is written.
//
// The inner loop is a multiplication and an addition modulo 65537, an
// addition more modulo 2^31-1, and a product of 128 bits modulo 2^61-1.
func (p Prime) Combine(dst, w []uint64, xs [][]uint64) {
	if len(w) != len(xs) {
		panic(fmt.Sprintf("field: combine: %d weights for %d vectors", len(w), len(xs)))
	}
	for j, x := range xs {
		if len(x) != len(dst) {
			panic(fmt.Sprintf("field: combine: vector %d has %d elements, want %d", j, len(x), len(dst)))
		}
	}
	for at := 0; at < len(dst); at += combineBlock {
		part := dst[at:min(at+combineBlock, len(dst))]
		switch p {
		case Fermat:
			p.combineFermat(part, w, xs, at)
		case Mersenne31:
			p.combine31(part, w, xs, at)
		default:
			p.combine61(part, w, xs, at)
		}
	}
}

// combineBlock is the number of elements that are summed at a time: their sums
// stay in the first-level cache.
const combineBlock = 1024

// combineFermat sums up to 2^31 products, each at most 2^32.
func (p Prime) combineFermat(dst, w []uint64, xs [][]uint64, at int) {
	clear(dst)
	for j, f := range w {
		if f == 0 {
			continue
		}
		x := xs[j][at : at+len(dst)]
		for i, v := range x {
			dst[i] += f * v
		}
	}
	for i, s := range dst {
		dst[i] = reduceFermat(s)
	}
}

// reduceFermat returns s modulo 65537: with 2^16 = -1 its four parts of 16 bits
// have alternating signs.
func reduceFermat(s uint64) uint64 {
	r := int64(s&0xffff) - int64(s>>16&0xffff) + int64(s>>32&0xffff) - int64(s>>48)
	r = r&0xffff - r>>16 // -2^17 < r < 2^17 before, -2 < r < 2^16 + 2 then
	switch {
	case r < 0:
		r += int64(Fermat)
	case r >= int64(Fermat):
		r -= int64(Fermat)
	}
	return uint64(r)
}

// combine31 folds each product to 32 bits.
func (p Prime) combine31(dst, w []uint64, xs [][]uint64, at int) {
	const m = uint64(Mersenne31)
	clear(dst)
	for j, f := range w {
		if f == 0 {
			continue
		}
		x := xs[j][at : at+len(dst)]
		for i, v := range x {
			t := f * v
			dst[i] += t&m + t>>31
		}
	}
	for i, s := range dst {
		s = s&m + s>>31
		s = s&m + s>>31
		dst[i] = p.fold(s)
	}
}

// combine61 sums in 128 bits, which hold 64 products and a sum so far.
func (p Prime) combine61(dst, w []uint64, xs [][]uint64, at int) {
	var upper [combineBlock]uint64
	high := upper[:len(dst)]
	clear(dst)
	terms := 0
	for j, f := range w {
		if f == 0 {
			continue
		}
		if terms++; terms == 64 {
			p.reduce128(dst, high)
			terms = 1
		}
		x := xs[j][at : at+len(dst)]
		for i, v := range x {
			hi, lo := bits.Mul64(f, v)
			var carry uint64
			dst[i], carry = bits.Add64(dst[i], lo, 0)
			high[i] += hi + carry
		}
	}
	p.reduce128(dst, high)
}

// reduce128 reduces low + 2^64 high, leaving low modulo 2^61-1 and high 0.
func (p Prime) reduce128(low, high []uint64) {
	const m = uint64(Mersenne61)
	for i, lo := range low {
		hi := high[i]
		s := lo&m + (lo>>61|hi<<3)&m + hi>>58 // less than 2^62 + 64
		s = s&m + s>>61
		low[i], high[i] = p.fold(s), 0
	}
}
