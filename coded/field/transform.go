package field

import (
	"fmt"
	"math/bits"
)

// The discrete Fourier transform over GF(65537), whose p-1 = 2^16 makes room for
// every power of two up to that (J. M. Pollard, "The fast Fourier transform in a
// finite field", Math. Comp. 25, 1971).

// fermatGenerator generates the multiplicative group modulo 65537.
const fermatGenerator = 3

// Root returns a primitive root of unity of an order that is a power of two. There
// are those of order 1 and 2 in each field, and of up to 2^16 modulo 65537. The
// square of the root of order 2n is that of order n.
func (p Prime) Root(order int) (uint64, error) {
	switch {
	case order < 1 || bits.OnesCount(uint(order)) != 1:
		return 0, fmt.Errorf("field: root of unity of order %d, want a power of two", order)
	case order == 1:
		return 1, nil
	case order == 2:
		return uint64(p) - 1, nil
	case p != Fermat || order > 1<<16:
		return 0, fmt.Errorf("field: modulo %d there is no root of unity of order %d", p, order)
	}
	return Pow(p, fermatGenerator, int64(1<<16/order)), nil
}

// Transform is the Fourier transform of one length over a field.
type Transform struct {
	p       Prime
	n       int
	forward []uint64 // powers of the root
	inverse []uint64 // powers of its inverse
	scale   uint64   // 1/n
}

// NewTransform returns the transform of length n, for which Root must have a root.
func NewTransform(p Prime, n int) (*Transform, error) {
	root, err := p.Root(n)
	if err != nil {
		return nil, err
	}
	return &Transform{p, n, powersOf(p, root, n/2), powersOf(p, p.Inv(root), n/2), p.Inv(p.Int(int64(n)))}, nil
}

// powersOf returns x^0 .. x^(n-1).
func powersOf(p Prime, x uint64, n int) []uint64 {
	powers := make([]uint64, n)
	for i, v := 0, uint64(1); i < n; i, v = i+1, p.Mul(v, x) {
		powers[i] = v
	}
	return powers
}

// Len returns the length of the transform.
func (t *Transform) Len() int { return t.n }

// Forward replaces n vectors of equal length, the coefficients c of polynomials
// side by side, by their values: x[i] = sum_j c[j] r^(ij), r being the root of
// order n. Vectors that do not fit panic before anything is written.
func (t *Transform) Forward(x [][]uint64) { t.run(x, t.forward) }

// Inverse undoes Forward: values at the powers of the root become coefficients.
func (t *Transform) Inverse(x [][]uint64) {
	t.run(x, t.inverse)
	for _, v := range x {
		for i := range v {
			v[i] = t.p.Mul(v[i], t.scale)
		}
	}
}

// run makes the transform with the powers of a root, radix 2, in place; blocks of
// elements stay in the cache while all stages pass.
func (t *Transform) run(x [][]uint64, powers []uint64) {
	if len(x) != t.n {
		panic(fmt.Sprintf("field: transform of length %d: %d vectors", t.n, len(x)))
	}
	for i, v := range x {
		if len(v) != len(x[0]) {
			panic(fmt.Sprintf("field: transform: vector %d has %d elements, want %d", i, len(v), len(x[0])))
		}
	}
	block := max(transformElements/t.n, 16)
	for at := 0; at < len(x[0]); at += block {
		t.stages(x, powers, at, min(at+block, len(x[0])))
	}
}

// transformElements is the number of elements whose transform stays in the cache.
const transformElements = 1 << 13

func (t *Transform) stages(x [][]uint64, powers []uint64, lo, hi int) {
	width := bits.Len(uint(t.n - 1))
	for i := range x {
		if j := int(bits.Reverse64(uint64(i)) >> (64 - width)); i < j {
			swap(x[i][lo:hi], x[j][lo:hi])
		}
	}
	for half := 1; half < t.n; half *= 2 {
		for first := 0; first < t.n; first += 2 * half {
			for k := range half {
				t.butterfly(x[first+k][lo:hi], x[first+k+half][lo:hi], powers[k*(t.n/2/half)])
			}
		}
	}
}

func swap(x, y []uint64) {
	for i := range x {
		x[i], y[i] = y[i], x[i]
	}
}

// butterfly replaces x and y by x + w y and x - w y.
func (t *Transform) butterfly(x, y []uint64, w uint64) {
	y = y[:len(x)]
	if t.p != Fermat {
		for i, u := range x {
			v := t.p.Mul(w, y[i])
			x[i], y[i] = t.p.Add(u, v), t.p.Sub(u, v)
		}
		return
	}
	for i, u := range x {
		v := reduceFermat(w * y[i])
		x[i], y[i] = Fermat.Add(u, v), Fermat.Sub(u, v)
	}
}
