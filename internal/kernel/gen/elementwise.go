package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementwise describes a kernel that treats n elements one by one.
type elementwise struct {
	name    string
	doc     string
	arrays  []string // pointers, in the order of the parameters
	scalars []string // float32 parameters after n
	out     []string // the arrays that are written
	in      []string // the arrays that are read
	unroll  int
	// body computes the outputs of one vector from its inputs and the scalars.
	body func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual
}

func vectors() {
	for _, s := range []isa{avx2, avx512} {
		for _, e := range elementwiseKernels {
			e.emit(s)
		}
		sums(s)
		maxAbs(s)
		combines(s)
		columnSums(s)
	}
}

var elementwiseKernels = []elementwise{
	{"add", "sets dst = a + b", []string{"dst", "a", "b"}, nil, []string{"dst"}, []string{"a", "b"}, 4,
		func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual {
			return one("dst", s.add(v["a"], v["b"]))
		}},
	{"scale", "sets dst = alpha*x", []string{"dst", "x"}, []string{"alpha"}, []string{"dst"}, []string{"x"}, 4,
		func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual {
			return one("dst", s.mul(v["alpha"], v["x"]))
		}},
	{"axpy", "sets dst = dst + alpha*x", []string{"dst", "x"}, []string{"alpha"}, []string{"dst"}, []string{"dst", "x"}, 4,
		func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual {
			return one("dst", s.add(v["dst"], s.mul(v["alpha"], v["x"])))
		}},
	{"relu", "sets dst = max(x, 0)", []string{"dst", "x"}, nil, []string{"dst"}, []string{"x"}, 4,
		func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual {
			return one("dst", s.relu(v["x"]))
		}},
	{"addReLU", "sets dst = max(a+b, 0)", []string{"dst", "a", "b"}, nil, []string{"dst"}, []string{"a", "b"}, 4,
		func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual {
			return one("dst", s.relu(s.add(v["a"], v["b"])))
		}},
	{"reluBackward", "sets dx = dy, or 0 where y <= 0", []string{"dx", "dy", "y"}, nil, []string{"dx"}, []string{"dy", "y"}, 4,
		func(s isa, v map[string]reg.VecVirtual) map[string]reg.VecVirtual {
			return one("dx", s.where(v["y"], v["dy"]))
		}},
}

func one(name string, v reg.VecVirtual) map[string]reg.VecVirtual {
	return map[string]reg.VecVirtual{name: v}
}

func (s isa) add(a, b reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VADDPS(b, a, v)
	return v
}

func (s isa) sub(a, b reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VSUBPS(b, a, v)
	return v
}

func (s isa) mul(a, b reg.VecVirtual) reg.VecVirtual {
	v := s.vec()
	VMULPS(b, a, v)
	return v
}

// relu relies on MAXPS giving its second source if one is NaN or both are 0.
func (s isa) relu(x reg.VecVirtual) reg.VecVirtual {
	zero, v := s.vec(), s.vec()
	s.zero(zero)
	VMAXPS(x, zero, v)
	return v
}

// where gives x where !(y <= 0), else 0.
func (s isa) where(y, x reg.VecVirtual) reg.VecVirtual {
	const notLessOrEqual = 0x16 // NLE_UQ: true for NaN
	zero, v := s.vec(), s.vec()
	s.zero(zero)
	if s.lanes == 16 {
		k := K()
		VCMPPS(Imm(notLessOrEqual), zero, y, k)
		VMOVAPS_Z(x, k, v)
		return v
	}
	m := s.vec()
	VCMPPS(Imm(notLessOrEqual), zero, y, m)
	VANDPS(m, x, v)
	return v
}

func (e elementwise) emit(s isa) {
	sig := "func(" + strings.Join(e.arrays, ", ") + " *float32, n int"
	if len(e.scalars) > 0 {
		sig += ", " + strings.Join(e.scalars, ", ") + " float32"
	}
	TEXT(e.name+s.name, NOSPLIT, sig+")")
	Doc(fmt.Sprintf("%s%s %s.", e.name, s.name, e.doc))
	Pragma("noescape")
	at := map[string]reg.GPVirtual{}
	for _, a := range e.arrays {
		at[a] = load(a)
	}
	scalars := map[string]reg.VecVirtual{}
	for _, x := range e.scalars {
		scalars[x] = s.broadcast(x)
	}
	i, n := GP64(), load("n")
	XORQ(i, i)
	group := func(u int, m *mask) {
		v := map[string]reg.VecVirtual{}
		for name, x := range scalars {
			v[name] = x
		}
		for _, name := range e.in {
			v[name] = s.vec()
			s.load(Mem{Base: at[name], Index: i, Scale: 4, Disp: u * s.bytes()}, v[name], m)
		}
		res := e.body(s, v)
		for _, name := range e.out {
			s.store(res[name], Mem{Base: at[name], Index: i, Scale: 4, Disp: u * s.bytes()}, m)
		}
	}
	s.sweep(i, n, e.unroll, func() {
		for u := range e.unroll {
			group(u, nil)
		}
	}, func(m *mask) { group(0, m) })
	VZEROUPPER()
	RET()
}

// sweep emits a loop of i over n elements: many treats unroll vectors, single
// one vector or, with a mask, its first elements. n is used up.
func (s isa) sweep(i, n reg.GPVirtual, unroll int, many func(), single func(*mask)) {
	if unroll > 1 {
		SUBQ(Imm(uint64(unroll*s.lanes)), n)
		JL(LabelRef("few"))
		Label("many")
		many()
		ADDQ(Imm(uint64(unroll*s.lanes)), i)
		SUBQ(Imm(uint64(unroll*s.lanes)), n)
		JGE(LabelRef("many"))
		Label("few")
		ADDQ(Imm(uint64(unroll*s.lanes)), n)
	}
	SUBQ(Imm(uint64(s.lanes)), n)
	JL(LabelRef("rest"))
	Label("single")
	single(nil)
	ADDQ(Imm(uint64(s.lanes)), i)
	SUBQ(Imm(uint64(s.lanes)), n)
	JGE(LabelRef("single"))
	Label("rest")
	ADDQ(Imm(uint64(s.lanes)), n)
	JZ(LabelRef("done"))
	m := s.maskOf(n)
	single(&m)
	Label("done")
}
