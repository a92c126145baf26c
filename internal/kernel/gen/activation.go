package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The activations, operation by operation as in activation_go.go of the
// package, which explains them: the tests compare both to the bit.

type vec = reg.VecVirtual

// activationKernels have one parameter each, used or not, so that all of them
// have the same two signatures.
var activationKernels = append([]elementwise{
	forward("leakyReLU", func(s isa, x, p vec) vec { return s.choose(s.above(x, 0), x, s.mul(p, x)) }),
	forward("exp", func(s isa, x, _ vec) vec { return s.exp(x) }),
	forward("tanh", func(s isa, x, _ vec) vec { return s.tanh(x) }),
	forward("sigmoid", func(s isa, x, _ vec) vec { return s.sigmoid(x) }),
	forward("silu", func(s isa, x, _ vec) vec {
		num, den := s.sigmoidParts(x)
		return s.div(s.mul(x, num), den)
	}),
	forward("gelu", func(s isa, x, _ vec) vec {
		phi, _ := s.normal(x)
		return s.mul(x, phi)
	}),
	forward("softplus", func(s isa, x, _ vec) vec { return s.softplus(x) }),
	forward("elu", func(s isa, x, p vec) vec { return s.choose(s.above(x, 0), x, s.mul(p, s.expm1Negative(x))) }),
	forward("hardswish", func(s isa, x, _ vec) vec {
		v := s.least(s.relu(s.add(x, s.constant(3))), 6)
		return s.mul(x, s.times(v, float32(1.0/6)))
	}),
}, backwardKernels...)

var backwardKernels = []elementwise{
	backward("leakyReLU", func(s isa, dy, x, p vec) vec { return s.choose(s.above(x, 0), dy, s.mul(p, dy)) }),
	backward("exp", func(s isa, dy, y, _ vec) vec { return s.mul(dy, y) }),
	backward("tanh", func(s isa, dy, y, _ vec) vec { return s.mul(dy, s.sub(s.constant(1), s.mul(y, y))) }),
	backward("sigmoid", func(s isa, dy, y, _ vec) vec { return s.mul(dy, s.mul(y, s.sub(s.constant(1), y))) }),
	backward("silu", func(s isa, dy, x, _ vec) vec {
		g := s.sigmoid(x)
		one := s.constant(1)
		return s.mul(dy, s.mul(g, s.add(one, s.mul(x, s.sub(one, g)))))
	}),
	backward("gelu", func(s isa, dy, x, _ vec) vec {
		phi, e := s.normal(x)
		return s.mul(dy, s.add(phi, s.mul(x, s.times(e, float32(0.39894228040143267794)))))
	}),
	backward("softplus", func(s isa, dy, x, _ vec) vec { return s.mul(dy, s.sigmoid(x)) }),
	backward("elu", func(s isa, dy, x, p vec) vec {
		return s.choose(s.above(x, 0), dy, s.mul(dy, s.mul(p, s.exp(x))))
	}),
	backward("hardswish", func(s isa, dy, x, _ vec) vec {
		zero := s.vec()
		s.zero(zero)
		inner := s.mul(dy, s.plus(s.times(x, float32(1.0/3)), 0.5))
		return s.choose(s.below(x, -3), zero, s.choose(s.above(x, 3), dy, inner))
	}),
}

func forward(name string, f func(s isa, x, p vec) vec) elementwise {
	return elementwise{name, "sets dst to the activation of x with parameter p", []string{"dst", "x"}, []string{"p"}, []string{"dst"}, []string{"x"}, 1,
		func(s isa, v vectorMap) vectorMap { return one("dst", f(s, v["x"], v["p"])) }}
}

func backward(name string, f func(s isa, dy, z, p vec) vec) elementwise {
	return elementwise{name + "Backward", "sets dx to the gradient of the activation at z", []string{"dx", "dy", "z"}, []string{"p"}, []string{"dx"}, []string{"dy", "z"}, 1,
		func(s isa, v vectorMap) vectorMap { return one("dx", f(s, v["dy"], v["z"], v["p"])) }}
}

// bits returns a constant in memory, once for each lane of AVX2.
func bits(v uint32) Mem {
	if m, ok := constants[v]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("constant%08x", v), 8|16) // RODATA|NOPTR
	for i := range 8 {
		DATA(4*i, U32(v))
	}
	constants[v] = m
	return m
}

var constants = map[uint32]Mem{}

// binary emits an operation with a constant as the second operand.
func (s isa) binary(plain, broadcast func(ops ...Op), x vec, c uint32) vec {
	v := s.vec()
	if s.lanes == 16 {
		broadcast(bits(c), x, v)
	} else {
		plain(bits(c), x, v)
	}
	return v
}

func (s isa) plus(x vec, c float32) vec {
	return s.binary(VADDPS, VADDPS_BCST, x, math.Float32bits(c))
}

func (s isa) minus(x vec, c float32) vec {
	return s.binary(VSUBPS, VSUBPS_BCST, x, math.Float32bits(c))
}

func (s isa) times(x vec, c float32) vec {
	return s.binary(VMULPS, VMULPS_BCST, x, math.Float32bits(c))
}

func (s isa) and(x vec, c uint32) vec { return s.binary(VANDPS, VANDPS_BCST, x, c) }
func (s isa) or(x vec, c uint32) vec  { return s.binary(VORPS, VORPS_BCST, x, c) }

func (s isa) plusInt(x vec, c int32) vec {
	return s.binary(VPADDD, VPADDD_BCST, x, uint32(c))
}

func (s isa) constant(c float32) vec {
	v := s.vec()
	VBROADCASTSS(bits(math.Float32bits(c)), v)
	return v
}

// least and most give min(x, c) and max(x, c), and NaN for NaN.
func (s isa) least(x vec, c float32) vec {
	v := s.constant(c)
	VMINPS(x, v, v)
	return v
}

func (s isa) most(x vec, c float32) vec {
	v := s.constant(c)
	VMAXPS(x, v, v)
	return v
}

// condition is a choice for each lane.
type condition struct {
	k reg.Register
	y vec
}

func (s isa) compare(predicate uint64, x vec, c float32) condition {
	if s.lanes == 16 {
		k := K()
		VCMPPS_BCST(Imm(predicate), bits(math.Float32bits(c)), x, k)
		return condition{k: k}
	}
	y := YMM()
	VCMPPS(Imm(predicate), bits(math.Float32bits(c)), x, y)
	return condition{y: y}
}

// above and below are false for NaN.
func (s isa) above(x vec, c float32) condition { return s.compare(0x1e, x, c) }
func (s isa) below(x vec, c float32) condition { return s.compare(0x11, x, c) }

func (s isa) choose(c condition, yes, no vec) vec {
	v := s.vec()
	if s.lanes == 16 {
		VBLENDMPS(yes, no, c.k, v)
	} else {
		VBLENDVPS(c.y, yes, no, v)
	}
	return v
}

const (
	signBit   = uint32(1) << 31
	magic     = float32(12582912)
	magicBits = 0x4b400000
)

// reduce returns the reduced argument of exp, the integer n as a float, and n
// in the low bits of t.
func (s isa) reduce(x vec) (r, n, t vec) {
	t = s.plus(s.times(x, float32(1.44269504088896341)), magic)
	n = s.minus(t, magic)
	r = s.sub(s.sub(x, s.times(n, 0.693359375)), s.times(n, float32(-2.12194440e-4)))
	return r, n, t
}

// poly emits a polynomial by Horner's rule, coefficients from the highest down.
func (s isa) poly(x vec, c ...float32) vec {
	q := s.plus(s.times(x, c[0]), c[1])
	for _, v := range c[2:] {
		q = s.plus(s.mul(q, x), v)
	}
	return q
}

func (s isa) expm1Reduced(r vec) vec {
	q := s.poly(r, 0.0013814569, 0.008368731, 0.04166839, 0.16666521, 0.49999994)
	return s.add(s.mul(q, s.mul(r, r)), r)
}

// timesPower gives p * 2^n, rounded once.
func (s isa) timesPower(p, n, t vec) vec {
	v := s.vec()
	if s.lanes == 16 {
		VSCALEFPS(n, p, v)
		return v
	}
	i := s.plusInt(t, -magicBits)
	half, rest := s.vec(), s.vec()
	VPSRAD(Imm(1), i, half)
	VPSUBD(half, i, rest)
	VMULPS(s.power(half, 127), p, v)
	return s.mul(v, s.power(rest, 127))
}

// power gives 2^(i+bias-127) for integers i.
func (s isa) power(i vec, bias int32) vec {
	v := s.plusInt(i, bias)
	VPSLLD(Imm(23), v, v)
	return v
}

func (s isa) exp(x vec) vec { return s.expInRange(s.most(s.least(x, 89), -104), nil) }

func (s isa) expInRange(x, low vec) vec {
	r, n, t := s.reduce(x)
	if low != nil {
		r = s.add(r, low)
	}
	return s.timesPower(s.plus(s.expm1Reduced(r), 1), n, t)
}

func (s isa) expm1Negative(x vec) vec {
	r, _, t := s.reduce(s.most(x, -25))
	power := s.power(t, 127-magicBits)
	return s.add(s.mul(power, s.expm1Reduced(r)), s.minus(power, 1))
}

func (s isa) tanh(x vec) vec {
	z := s.and(x, ^signBit)
	u := s.mul(z, z)
	q := s.poly(u, -0.005717037, 0.020650579, -0.053743497, 0.13331491, -0.33333284)
	small := s.add(s.mul(s.mul(q, u), z), z)
	c := s.least(z, 10)
	large := s.sub(s.constant(1), s.div(s.constant(2), s.plus(s.expInRange(s.add(c, c), nil), 1)))
	v := s.choose(s.below(z, 0.625), small, large)
	sign := s.and(x, signBit)
	VORPS(sign, v, v)
	return v
}

func (s isa) sigmoidParts(x vec) (num, den vec) {
	e := s.expInRange(s.most(s.or(x, signBit), -104), nil)
	return s.choose(s.below(x, 0), e, s.constant(1)), s.plus(e, 1)
}

func (s isa) sigmoid(x vec) vec { return s.div(s.sigmoidParts(x)) }

func (s isa) softplus(x vec) vec {
	l := s.log1pUnit(s.expInRange(s.most(s.or(x, signBit), -104), nil))
	return s.add(s.relu(x), l)
}

func (s isa) log1pUnit(e vec) vec {
	q := s.div(e, s.plus(e, 2))
	u := s.mul(q, q)
	p := s.poly(u, 0.24300939, 0.21427657, 0.28616884, 0.39998877, 0.66666675)
	return s.add(s.mul(s.mul(p, u), q), s.add(q, q))
}

func (s isa) normal(x vec) (phi, e vec) {
	z := s.least(s.and(x, ^signBit), 15)
	h := s.and(z, 0xfffff000)
	low := s.times(s.mul(s.sub(z, h), s.add(z, h)), -0.5)
	e = s.expInRange(s.times(s.mul(h, h), -0.5), low)
	u := s.mul(z, z)
	q := s.poly(u, -7.5303055e-06, 0.000113143644, -0.0011859847, 0.009973171, -0.06649033, 0.3989423)
	centre := s.plus(s.mul(q, x), 0.5)
	t := s.div(s.constant(1), s.plus(s.times(z, 0.3), 1))
	q = s.poly(t, 0.02534549, -0.06888061, 0.026329884, 0.027852997, 0.05119523, 0.09055289, 0.10818973, 0.11976578, 0.11967879)
	tail := s.mul(s.mul(q, t), e)
	tail = s.choose(s.below(x, 0), tail, s.sub(s.constant(1), tail))
	return s.choose(s.below(z, 1), centre, tail), e
}
