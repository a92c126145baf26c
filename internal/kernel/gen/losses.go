package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The losses, operation by operation as in losses_go.go of the package, which
// explains them: the tests compare both to the bit.

// summed describes an element-wise kernel that also adds one term for each
// element to 8 lanes of float64: lane l adds the elements l, l+8, ...
type summed struct {
	name    string
	doc     string
	arrays  []string // pointers, in the order of the parameters
	scalars []string // float32 parameters at the end
	out     []string // the arrays that are written
	in      []string // the arrays that are read
	// body computes the outputs of one vector, and under "sum" what is added to
	// the lanes: times the vector under "times", if there is one.
	body func(s isa, v vectorMap) vectorMap
}

func losses() {
	for _, s := range []isa{avx2, avx512} {
		for _, k := range summedKernels {
			k.emit(s)
		}
		rowMax(s)
	}
}

var (
	lossArrays = []string{"grad", "x", "target"}
	lossInputs = []string{"x", "target"}
)

var summedKernels = []summed{
	{"mse", "adds the squares of x-target and sets grad to scale times x-target", lossArrays, []string{"scale"}, []string{"grad"}, lossInputs,
		func(s isa, v vectorMap) vectorMap {
			d := s.sub(v["x"], v["target"])
			return vectorMap{"sum": d, "times": d, "grad": s.mul(d, v["scale"])}
		}},
	{"smoothL1", "adds the smooth L1 losses and sets grad to scale times their gradients", lossArrays, []string{"scale", "beta", "half"}, []string{"grad"}, lossInputs,
		func(s isa, v vectorMap) vectorMap {
			d := s.sub(v["x"], v["target"])
			q := s.div(d, v["beta"])
			near := s.times(s.mul(d, q), 0.5)
			far := s.sub(s.and(d, ^signBit), v["half"])
			loss := s.choose(s.below(s.and(q, ^signBit), 1), near, far)
			return vectorMap{"sum": loss, "grad": s.mul(s.most(s.least(q, 1), -1), v["scale"])}
		}},
	{"bce", "adds the binary cross entropies and sets grad to scale times their gradients", lossArrays, []string{"scale"}, []string{"grad"}, lossInputs,
		func(s isa, v vectorMap) vectorMap {
			e := s.expInRange(s.most(s.or(v["x"], signBit), -104), nil)
			negative := s.below(v["x"], 0)
			u := s.choose(negative, v["target"], s.sub(s.constant(1), v["target"]))
			loss := s.add(s.mul(s.and(v["x"], ^signBit), u), s.log1pUnit(e))
			p := s.div(e, s.plus(e, 1))
			d := s.choose(negative, s.sub(p, u), s.sub(u, p))
			return vectorMap{"sum": loss, "grad": s.mul(d, v["scale"])}
		}},
	{"expSum", "sets dst = exp(x-top) and adds it", []string{"dst", "x"}, []string{"top"}, []string{"dst"}, []string{"x"},
		func(s isa, v vectorMap) vectorMap {
			e := s.exp(s.sub(v["x"], v["top"]))
			return vectorMap{"sum": e, "dst": e}
		}},
	{"weightedSum", "adds w*x where w > 0", []string{"w", "x"}, nil, nil, []string{"w", "x"},
		func(s isa, v vectorMap) vectorMap {
			zero := s.vec()
			s.zero(zero)
			counts := s.above(v["w"], 0)
			return vectorMap{"sum": s.choose(counts, v["x"], zero), "times": s.choose(counts, v["w"], zero)}
		}},
}

func (k summed) emit(s isa) {
	sig := fmt.Sprintf("func(lanes *float64, %s *float32, n int", strings.Join(k.arrays, ", "))
	if len(k.scalars) > 0 {
		sig += ", " + strings.Join(k.scalars, ", ") + " float32"
	}
	TEXT(k.name+s.name, NOSPLIT, sig+")")
	Doc(fmt.Sprintf("%s%s %s.", k.name, s.name, k.doc))
	Pragma("noescape")
	lanes, at, scalars := load("lanes"), map[string]reg.GPVirtual{}, vectorMap{}
	for _, a := range k.arrays {
		at[a] = load(a)
	}
	for _, x := range k.scalars {
		scalars[x] = s.broadcast(x)
	}
	sums := s.laneSums()
	for j, v := range sums {
		VMOVUPD(Mem{Base: lanes, Disp: j * s.bytes()}, v)
	}
	i, n := GP64(), load("n")
	XORQ(i, i)
	s.sweep(i, n, 1, nil, func(m *mask) {
		v := vectorMap{}
		for name, x := range scalars {
			v[name] = x
		}
		for _, name := range k.in {
			v[name] = s.vec()
			s.load(Mem{Base: at[name], Index: i, Scale: 4}, v[name], m)
		}
		res := k.body(s, v)
		for _, name := range k.out {
			s.store(res[name], Mem{Base: at[name], Index: i, Scale: 4}, m)
		}
		s.addDoubles(sums, s.only(res["sum"], m), res["times"])
	})
	for j, v := range sums {
		VMOVUPD(v, Mem{Base: lanes, Disp: j * s.bytes()})
	}
	VZEROUPPER()
	RET()
}

// laneSums returns the registers of 8 lanes of float64.
func (s isa) laneSums() []vec {
	v := make([]vec, 16/s.lanes)
	for j := range v {
		v[j] = s.vec()
	}
	return v
}

// only gives the selected elements, and 0 for the others.
func (s isa) only(x vec, m *mask) vec {
	switch v := s.vec(); {
	case m == nil:
		return x
	case s.lanes == 16:
		VMOVAPS_Z(x, m.k, v)
		return v
	default:
		VANDPS(m.y, x, v)
		return v
	}
}

// addDoubles adds the elements of x, or their products with those of y, which
// are exact, to 8 lanes in the order of the index.
func (s isa) addDoubles(sums []vec, x, y vec) {
	xs, ys := s.doubles(x), []vec(nil)
	if y != nil {
		ys = s.doubles(y)
	}
	for j, v := range xs {
		sum := sums[j%len(sums)]
		if y == nil {
			VADDPD(v, sum, sum)
		} else {
			VFMADD231PD(ys[j], v, sum)
		}
	}
}

// doubles gives the two halves of x in float64.
func (s isa) doubles(x vec) []vec {
	low, high := s.vec(), s.vec()
	if s.lanes == 16 {
		half := YMM()
		VCVTPS2PD(x.AsY(), low)
		VEXTRACTF64X4(Imm(1), x, half)
		VCVTPS2PD(half, high)
	} else {
		half := XMM()
		VCVTPS2PD(x.AsX(), low)
		VEXTRACTF128(Imm(1), x, half)
		VCVTPS2PD(half, high)
	}
	return []vec{low, high}
}

// rowMax emits the maximum of n elements, at least 1: NaN is passed over, since
// MAXPS gives its second source if one is NaN.
func rowMax(s isa) {
	const unroll = 4
	TEXT("rowMax"+s.name, NOSPLIT, "func(x *float32, n int) float32")
	Doc(fmt.Sprintf("rowMax%s returns the largest of n elements, -Inf if all are NaN.", s.name))
	Pragma("noescape")
	x, i, n := load("x"), GP64(), load("n")
	XORQ(i, i)
	var acc [unroll]vec
	for j := range acc {
		acc[j] = s.vec()
		VBROADCASTSS(bits(0xff800000), acc[j])
	}
	s.sweep(i, n, unroll, func() {
		for j, a := range acc {
			v := s.vec()
			VMOVUPS(Mem{Base: x, Index: i, Scale: 4, Disp: j * s.bytes()}, v)
			VMAXPS(a, v, a)
		}
	}, func(m *mask) {
		v, a := s.vec(), acc[0]
		s.load(Mem{Base: x, Index: i, Scale: 4}, v, m)
		switch {
		case m == nil:
			VMAXPS(a, v, a)
		case s.lanes == 16:
			VMAXPS(a, v, m.k, a)
		default:
			VBLENDVPS(m.y, v, a, v)
			VMAXPS(a, v, a)
		}
	})
	for j := 1; j < unroll; j++ {
		VMAXPS(acc[0], acc[j], acc[0])
	}
	y := YMM()
	if s.lanes == 16 {
		VEXTRACTF64X4(Imm(1), acc[0], y)
		VMAXPS(acc[0].AsY(), y, y)
	} else {
		VMOVAPS(acc[0], y)
	}
	z, w := XMM(), XMM()
	VEXTRACTF128(Imm(1), y, z)
	VMAXPS(y.AsX(), z, z)
	VPERMILPS(Imm(0x4e), z, w)
	VMAXPS(z, w, z)
	VPERMILPS(Imm(0xb1), z, w)
	VMAXPS(z, w, z)
	Store(z, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
